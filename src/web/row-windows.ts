/** The windows of a long list of Services that are here, asked for as they come into view. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ServiceRow, Services } from '../inspect/wire/services.ts';
import { ask, Unanswered } from './hooks.ts';
import { questionOf } from './routes.ts';

/** Windows that are kept; the browser asks again for the others. */
const MAX_KEPT = 12;
/** Milliseconds between two questions, so that fast scrolling does not ask for all that passes by. */
const REQUEST_PAUSE_MS = 60;

export interface ServiceList {
  /** undefined: not known yet. */
  readonly total: number | undefined;
  readonly problem: string | undefined;
  /** undefined: not here yet. */
  row(index: number): ServiceRow | undefined;
  /** These rows are seen now. */
  see(rows: Rows): void;
}

interface LoadedRows {
  readonly rows: readonly ServiceRow[];
  readonly revision: string;
}

/** The list of a search. What is seen is asked for again when the revision changes. */
export function useServices(search: string, revision: string): ServiceList {
  const loader = useRef<Loader>(undefined);
  const [, redraw] = useState(0);
  if (loader.current === undefined || loader.current.search !== search) {
    loader.current?.stop();
    loader.current = new Loader(search, () => redraw((count) => count + 1));
  }
  const own = loader.current;
  useEffect(() => own.renew(revision), [own, revision]);
  useEffect(() => () => loader.current?.stop(), []);
  return own;
}

class Loader implements ServiceList {
  readonly search: string;
  total: number | undefined;
  problem: string | undefined;
  readonly #onChange: () => void;
  readonly #held = new Map<number, LoadedRows>();
  readonly #stop = new AbortController();
  #seen: Rows = { first: 0, end: 0 };
  #revision = '';
  #isBusy = false;

  constructor(search: string, onChange: () => void) {
    this.search = search;
    this.#onChange = onChange;
  }

  row(index: number): ServiceRow | undefined {
    return this.#held.get(Math.floor(index / CHUNK) * CHUNK)?.rows[index % CHUNK];
  }

  see(rows: Rows): void {
    if (rows.first === this.#seen.first && rows.end === this.#seen.end) return;
    this.#seen = rows;
    void this.#work();
  }

  renew(revision: string): void {
    this.#revision = revision;
    void this.#work();
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Asks for what is seen and not here, or older than the revision: one window after the other. */
  async #work(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    for (let offset = this.#wanted(); offset !== undefined; offset = this.#wanted()) {
      await this.#load(offset);
      await new Promise((resolve) => setTimeout(resolve, this.problem === undefined ? REQUEST_PAUSE_MS : 1000));
      if (this.#stop.signal.aborted) return;
    }
    this.#isBusy = false;
  }

  #wanted(): number | undefined {
    // One row at least: a list that is empty or not known yet may have one.
    const { first, end } = this.#seen;
    const seen = chunksOf({ first, end: Math.max(end, first + 1) });
    const missing = seen.find((offset) => !this.#held.has(offset));
    return missing ?? seen.find((offset) => this.#held.get(offset)?.revision !== this.#revision);
  }

  async #load(offset: number): Promise<void> {
    const revision = this.#revision;
    try {
      const path = questionOf('/services', { search: this.search, offset, limit: CHUNK });
      const { total, rows } = await ask<Services>(path, this.#stop.signal);
      this.#held.delete(offset);
      this.#held.set(offset, { rows, revision });
      for (const old of this.#held.keys()) if (this.#held.size > MAX_KEPT) this.#held.delete(old);
      this.total = total;
      this.problem = undefined;
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.problem = error instanceof Unanswered ? error.message : String(error);
    }
    this.#onChange();
  }
}

// Which rows of a very long list are in the document, and which parts of it are asked for. Pure; sizes in pixels.

/** Rows that one question asks for. Windows begin at multiples of it, so that scrolling asks for each once. */
export const CHUNK = 100;
/** Rows above and below what is seen. */
const MARGIN = 8;

interface Rows {
  readonly first: number;
  /** The row after the last. */
  readonly end: number;
}

interface ScrollWindow {
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
