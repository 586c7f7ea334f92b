/** Which rows of a very long list are in the document, and which parts of it are asked for. Pure; sizes in pixels. */

/** Rows that one question asks for. Windows begin at multiples of it, so that scrolling asks for each once. */
export const CHUNK = 100;
/** Rows above and below what is seen. */
const MARGIN = 8;

export interface Rows {
  readonly first: number;
  /** The row after the last. */
  readonly end: number;
}

export interface ScrollWindow {
  /** How far the list is scrolled down. */
  readonly top: number;
  /** The height of what is seen of it. */
  readonly height: number;
  readonly rowHeight: number;
  /** Rows of the whole list. */
  readonly total: number;
}

/** The rows that belong into the document. */
export function rowsIn({ top, height, rowHeight, total }: ScrollWindow): Rows {
  const first = clamp(Math.floor(top / rowHeight) - MARGIN, 0, total);
  const end = clamp(Math.ceil((top + height) / rowHeight) + MARGIN, first, total);
  return { first, end };
}

/** The offsets of the parts that hold these rows. */
export function chunksOf({ first, end }: Rows): number[] {
  const offsets: number[] = [];
  for (let offset = Math.floor(first / CHUNK) * CHUNK; offset < end; offset += CHUNK) offsets.push(offset);
  return offsets;
}

/** How far to scroll so that a row is seen; as it is when it is seen already. */
export function topFor(row: number, { top, height, rowHeight }: ScrollWindow): number {
  const above = row * rowHeight;
  if (above < top) return above;
  const below = above + rowHeight - height;
  return below > top ? below : top;
}

/** The row that a key leads to; undefined: the key moves nothing. `page`: rows that fit into what is seen. */
export function rowAfter(key: string, row: number, total: number, page: number): number | undefined {
  const to: Readonly<Record<string, number>> = {
    ArrowDown: row + 1,
    ArrowUp: row - 1,
    PageDown: row + page,
    PageUp: row - page,
    Home: 0,
    End: total - 1,
  };
  const wanted = to[key];
  if (wanted === undefined || total === 0) return undefined;
  return clamp(wanted, 0, total - 1);
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
