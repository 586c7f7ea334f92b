/** A long list of Services, in windows that are asked for as they come into view. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ServiceRow, Services } from '../inspect/wire/services.ts';
import { ask, Unanswered } from './hooks.ts';
import { questionOf } from './routes.ts';

/** The browser asks again for windows beyond these. */
const MAX_KEPT = 12;
/** The pause between two questions, so that fast scrolling does not ask for every row that passes. */
const REQUEST_PAUSE_MS = 60;

export interface ServiceList {
  /** undefined when not known yet. */
  readonly total: number | undefined;
  readonly problem: string | undefined;
  /** undefined when not loaded yet. */
  row(index: number): ServiceRow | undefined;
  /** To be called when other rows become visible. */
  see(rows: Rows): void;
}

interface LoadedRows {
  readonly rows: readonly ServiceRow[];
  readonly revision: string;
}

/**
 * The list of a search. The visible rows are asked for again when the revision changes: a text of the agent's start and a number, which grows
 * with whatever the page may show (`agent/live-page.ts`), so that two of them can be compared for equality alone.
 */
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

  /** Asks for visible windows that are missing, or older than the revision, one after the other. */
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
    // At least one row, because a list that is empty or unknown may have one now.
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

/** Rows of one window. Windows begin at multiples of it, so that scrolling asks for each once. */
export const CHUNK = 100;
/** Extra rows above and below the visible ones. */
const MARGIN = 8;

/** A range of rows. */
interface Rows {
  readonly first: number;
  /** The row after the last. */
  readonly end: number;
}

interface ScrollWindow {
  /** Pixels above the visible part. */
  readonly top: number;
  /** Pixels of the visible part. */
  readonly height: number;
  readonly rowHeight: number;
  /** Number of rows of the whole list. */
  readonly total: number;
}

/** The rows to draw. */
export function rowsIn({ top, height, rowHeight, total }: ScrollWindow): Rows {
  const first = clamp(Math.floor(top / rowHeight) - MARGIN, 0, total);
  const end = clamp(Math.ceil((top + height) / rowHeight) + MARGIN, first, total);
  return { first, end };
}

/** The offsets of the windows that hold these rows. */
export function chunksOf({ first, end }: Rows): number[] {
  const offsets: number[] = [];
  for (let offset = Math.floor(first / CHUNK) * CHUNK; offset < end; offset += CHUNK) offsets.push(offset);
  return offsets;
}

/** The scroll position at which a row is visible; the present one if it is visible already. */
export function topFor(row: number, { top, height, rowHeight }: ScrollWindow): number {
  const above = row * rowHeight;
  if (above < top) return above;
  const below = above + rowHeight - height;
  return below > top ? below : top;
}

/** The row that a key leads to; undefined for a key that moves nothing. `page`: rows of the visible part. */
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
