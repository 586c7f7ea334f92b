/** Where the cells of the map are. Pure; sizes in pixels. */

export interface Grid {
  readonly columns: number;
  readonly rows: number;
  /** Of a cell, with the space to the next. */
  readonly cellWidth: number;
  readonly cellHeight: number;
  /** There is room for the names. */
  readonly hasNames: boolean;
  readonly height: number;
}

/** Nodes whose names are beside their cells. */
const MAX_NAMED = 48;
const NAMED = { width: 200, height: 30 } as const;
/** Of cells without names, the largest first. */
const SIZES = [24, 20, 16, 14, 12, 10, 9] as const;
/** The map should not be higher. */
const HEIGHT = 400;

/** The largest cells with which the map is not high, or the smallest. */
export function gridFor(width: number, count: number): Grid {
  if (count <= MAX_NAMED) {
    const columns = Math.max(1, Math.floor(width / NAMED.width));
    return gridOf({ columns, cellWidth: Math.floor(width / columns), cellHeight: NAMED.height, hasNames: true, count });
  }
  const grids = SIZES.map((size) =>
    gridOf({
      columns: Math.max(1, Math.floor(width / size)),
      ...{ cellWidth: size, cellHeight: size, hasNames: false, count },
    }),
  );
  const smallest = grids.at(-1);
  if (smallest === undefined) throw new Error('a map has no size of cells');
  return grids.find(({ height }) => height <= HEIGHT) ?? smallest;
}

function gridOf({ count, ...fields }: Omit<Grid, 'rows' | 'height'> & { readonly count: number }): Grid {
  const rows = Math.ceil(count / fields.columns);
  return { ...fields, rows, height: rows * fields.cellHeight };
}

/** The corner of a cell. */
export function placeOf(
  index: number,
  { columns, cellWidth, cellHeight }: Grid,
): { readonly x: number; readonly y: number } {
  return { x: (index % columns) * cellWidth, y: Math.floor(index / columns) * cellHeight };
}

/** The cell at a point; undefined: there is none. */
export function cellAt(
  x: number,
  y: number,
  { columns, cellWidth, cellHeight }: Grid,
  count: number,
): number | undefined {
  const column = Math.floor(x / cellWidth);
  const index = Math.floor(y / cellHeight) * columns + column;
  return column >= 0 && column < columns && index >= 0 && index < count ? index : undefined;
}

/** The cell that a key leads to; undefined: the key moves nothing. */
export function cellAfter(key: string, index: number, { columns, rows }: Grid, count: number): number | undefined {
  const page = Math.max(1, Math.floor(rows / 4)) * columns;
  const steps: Readonly<Record<string, number>> = {
    ...{ ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns },
    ...{ PageDown: page, PageUp: -page, Home: -count, End: count },
  };
  const step = steps[key];
  if (step === undefined || count === 0) return undefined;
  return Math.min(Math.max(index + step, 0), count - 1);
}
