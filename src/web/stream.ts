/**
 * Follows `/live` of the agent or the fleet, the server. A tab that nobody sees has no stream, so it costs the server nothing. Says when
 * the server is gone, and goes on trying.
 */

import type { FleetLive } from '../inspect/wire/fleet.ts';
import { type FleetLiveDelta, withFleetDelta } from '../inspect/wire/fleet-delta.ts';
import type { Live, LiveDelta } from '../inspect/wire/live.ts';
import { withDelta } from '../inspect/wire/live-delta.ts';
import { problemIn } from './hooks.ts';

export interface LiveConnection<T> {
  /** The last that the server said; undefined before its first message. */
  readonly live: T | undefined;
  /** `hidden`: the tab is not seen, and the stream is closed. */
  readonly state: 'connecting' | 'open' | 'gone' | 'hidden';
  /** Why the server gives no stream, in its own words; undefined: it does, or it is gone. */
  readonly refusal: string | undefined;
  /** When the server was last heard, in milliseconds since 1970 by this browser's clock; 0: never. */
  readonly heardAt: number;
  /** Add this to the browser's clock for the server's, in milliseconds. */
  readonly clockAhead: number;
}

export const UNCONNECTED: LiveConnection<never> = {
  live: undefined,
  state: 'connecting',
  refusal: undefined,
  heardAt: 0,
  clockAhead: 0,
};

/** Milliseconds. */
const RETRY_MS = 1000;
const SILENCE_TIMEOUT_MS = 10_000;
const PROBE = 4000;

/** How messages are read. */
export interface MessageForm<T> {
  /** `before` undefined: `message` is the first. Throws when that is not whole. */
  merged(before: T | undefined, message: Partial<T>): T;
  /** When the server made the message, a moment; undefined: it does not say. */
  atOf(message: Partial<T>): string | undefined;
}

/** Calls `onChange` with each message and each change of state, until the returned function is called. */
export function follow<T>(
  { merged, atOf }: MessageForm<T>,
  onChange: (connection: LiveConnection<T>) => void,
): () => void {
  let connection: LiveConnection<T> = UNCONNECTED;
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  const set = (change: Partial<LiveConnection<T>>) => {
    connection = { ...connection, ...change };
    onChange(connection);
  };
  const close = () => {
    clearTimeout(retry);
    source?.close();
    source = undefined;
  };
  const lose = () => {
    // An answer that is no stream closes it for good (HTML, section 9.2.3), unlike a broken connection.
    const isRefused = source?.readyState === EventSource.CLOSED;
    close();
    if (connection.state !== 'gone') set({ state: 'gone' });
    if (isRefused) void whyRefused().then((refusal) => connection.state === 'gone' && set({ refusal }));
    retry = setTimeout(open, RETRY_MS);
  };
  const open = () => {
    close();
    let live: T | undefined;
    source = new EventSource('/live');
    source.onerror = lose;
    source.addEventListener('live', ({ data }: MessageEvent<string>) => {
      const message: Partial<T> = JSON.parse(data);
      live = merged(live, message);
      const now = Date.now();
      const at = atOf(message);
      const clock = at === undefined ? {} : { clockAhead: Date.parse(at) - now };
      set({ live, state: 'open', refusal: undefined, heardAt: now, ...clock });
    });
  };
  // A forwarded port may stay open while nobody is behind it: then nothing says that the stream is dead.
  const watch = setInterval(() => {
    if (connection.state !== 'open' || Date.now() - connection.heardAt < SILENCE_TIMEOUT_MS) return;
    fetch('/healthz', { signal: AbortSignal.timeout(PROBE), cache: 'no-store' }).then(
      () => set({ heardAt: Date.now() }),
      () => connection.state === 'open' && lose(),
    );
  }, PROBE);
  const onVisibility = () => {
    if (document.visibilityState === 'visible') open();
    else {
      close();
      set({ state: 'hidden' });
    }
  };
  document.addEventListener('visibilitychange', onVisibility);
  if (document.visibilityState === 'visible') open();
  return () => {
    close();
    clearInterval(watch);
    document.removeEventListener('visibilitychange', onVisibility);
  };
}

/** What the server answers instead of a stream; undefined: nothing, or a stream after all. */
async function whyRefused(): Promise<string | undefined> {
  const stop = new AbortController();
  try {
    const response = await fetch('/live', { signal: AbortSignal.any([stop.signal, AbortSignal.timeout(PROBE)]) });
    return response.ok ? undefined : problemIn(await response.text());
  } catch {
    return undefined;
  } finally {
    stop.abort();
  }
}

// Takes the messages of `/live` in (inspect/wire/live.ts): the first is whole, each later one has what changed. Pure.

/** Milliseconds that the page looks back. */
export const LOOK_BACK = 15 * 60_000;

/** `before` undefined: `message` is the first. Throws when that is not whole. */
export function merged(before: Live | undefined, message: LiveDelta): Live {
  if (before !== undefined) return withDelta(before, message);
  if (!isWhole(message)) throw new Error('the first message of /live is not whole');
  return message;
}

const WHOLE = [
  ...(['by', 'sentence', 'health', 'objects', 'latency', 'syncs', 'heard', 'faults', 'refused', 'drift'] as const),
];

function isWhole(message: LiveDelta): message is Live {
  return WHOLE.every((field) => message[field] !== undefined);
}

// Takes the messages of the fleet's `/live` in (inspect/wire/fleet.ts): the first is whole, each later one has what changed. Pure.

/** `before` undefined: `message` is the first. Throws when that is not whole. */
export function mergedFleet(before: FleetLive | undefined, message: FleetLiveDelta): FleetLive {
  if (before !== undefined) return withFleetDelta(before, message);
  if (!isWhole(message)) throw new Error('the first message of /live is not whole');
  return message;
}

const WHOLE = ['version', 'at', 'sentence', 'nodes', 'latency', 'minutes', 'slowest', 'waiting', 'drained'] as const;

function isWhole(message: FleetLiveDelta): message is FleetLive {
  return WHOLE.every((field) => message[field] !== undefined);
}
