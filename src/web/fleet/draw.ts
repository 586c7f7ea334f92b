/** The map of the nodes: the places of its cells, and the drawing on a canvas, because thousands of elements would be slow. Sizes in pixels. */
import { type LevelStyle, LOOKS } from './fleet-text.ts';

export interface Grid {
  readonly columns: number;
  readonly rows: number;
  /** The size of a cell with the space to the next. */
  readonly cellWidth: number;
  readonly cellHeight: number;
  /** There is room for the names. */
  readonly hasNames: boolean;
  readonly height: number;
}

/** Up to this number of nodes, each cell has a name beside it. */
const MAX_NAMED = 48;
const NAMED = { width: 200, height: 30 } as const;
/** Sizes of cells without names, the largest first. */
const SIZES = [24, 20, 16, 14, 12, 10, 9] as const;
/** The cells get smaller before the map gets higher. */
const MAX_HEIGHT = 400;

/** The largest cells with which the map is not too high, or the smallest ones. */
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
  return grids.find(({ height }) => height <= MAX_HEIGHT) ?? smallest;
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

/** The cell at a point, if any. */
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

/** The cell that a key leads to; undefined for a key that moves nothing. */
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

/** Colours of the style sheet in the form of canvas. */
export interface Palette {
  /** Colours by the names of their properties. */
  readonly cells: ReadonlyMap<string, string>;
  readonly mark: string;
  readonly text: string;
  readonly font: string;
}

interface Cell {
  readonly name: string;
  readonly look: LevelStyle;
}

export interface Drawing {
  readonly grid: Grid;
  readonly width: number;
  readonly cells: readonly Cell[];
  readonly palette: Palette;
}

/** The size of the box in which a mark is drawn (fleet-text.ts). */
const BOX = 16;
/** Pixels between two cells. */
const GAP = 2;
const MARKS = new Map(LOOKS.map(({ level, mark }) => [level, mark]));

/** Draws the whole map. Without a canvas nothing is drawn; the lists beside the map have the same. */
export function draw(canvas: HTMLCanvasElement, drawing: Drawing): void {
  const { grid, width, cells } = drawing;
  const scale = devicePixelRatio;
  const [wide, high] = [Math.round(width * scale), Math.round(grid.height * scale)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const context = canvas.getContext('2d');
  if (context === null) return;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, grid.height);
  const size = sizeOf(grid);
  const byLook = Map.groupBy(cells.keys(), (index) => cells[index]?.look);
  for (const look of LOOKS) drawLevel(context, drawing, look, { indexes: byLook.get(look) ?? [], size });
  if (grid.hasNames) drawNames(context, drawing, size);
}

/** Draws all cells of a level at once, which is faster. */
function drawLevel(
  context: CanvasRenderingContext2D,
  { grid, palette }: Drawing,
  look: LevelStyle,
  { indexes, size }: { readonly indexes: readonly number[]; readonly size: number },
): void {
  const [boxes, marks] = [new Path2D(), new Path2D()];
  const mark = new Path2D(MARKS.get(look.level));
  const inset = look.isFilled ? 0 : 0.75;
  for (const index of indexes) {
    const { x, y } = cornerOf(index, grid, size);
    boxes.roundRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset, size / 6);
    if (look.mark !== '') marks.addPath(mark, new DOMMatrix([size / BOX, 0, 0, size / BOX, x, y]));
  }
  const colour = palette.cells.get(look.colour) ?? palette.text;
  context.fillStyle = colour;
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  if (look.isFilled) context.fill(boxes);
  else context.stroke(boxes);
  if (look.isFilled) context.strokeStyle = palette.mark;
  context.lineWidth = Math.max(1, size / 9);
  context.stroke(marks);
}

function drawNames(context: CanvasRenderingContext2D, { grid, cells, palette }: Drawing, size: number): void {
  context.fillStyle = palette.text;
  context.font = palette.font;
  context.textBaseline = 'middle';
  for (const [index, { name }] of cells.entries()) {
    const { x, y } = cornerOf(index, grid, size);
    const room = grid.cellWidth - size - 20;
    context.fillText(
      fitting(name, (text) => context.measureText(text).width <= room),
      x + size + 8,
      y + size / 2 + 1,
    );
  }
}

/** The text, or its longest beginning that fits with `…`. */
function fitting(text: string, fits: (text: string) => boolean): string {
  if (fits(text)) return text;
  let [least, most] = [0, text.length];
  while (most - least > 1) {
    const middle = Math.floor((least + most) / 2);
    if (fits(`${text.slice(0, middle)}…`)) least = middle;
    else most = middle;
  }
  return `${text.slice(0, least)}…`;
}

/** The side of the square of a cell. */
export function sizeOf({ hasNames, cellHeight }: Grid): number {
  return (hasNames ? 20 : cellHeight) - GAP;
}

/** The corner of the square of a cell. */
export function cornerOf(index: number, grid: Grid, size: number): { readonly x: number; readonly y: number } {
  const { x, y } = placeOf(index, grid);
  return { x: x + GAP / 2, y: y + (grid.cellHeight - size) / 2 };
}
