/**
 * Follows `/live` of a server, the agent or the fleet. A hidden tab has no stream, so it costs the server nothing. When the server is
 * gone, the page shows it and goes on trying.
 */

import type { FleetLive } from '../inspect/wire/fleet.ts';
import { withFleetDelta } from '../inspect/wire/fleet-delta.ts';
import type { Live } from '../inspect/wire/live.ts';
import { withDelta } from '../inspect/wire/live-delta.ts';
import { problemIn } from './hooks.ts';

export interface LiveConnection<T> {
  /** The merged messages; undefined before the first. */
  readonly live: T | undefined;
  /** `hidden`: the tab is hidden, and the stream is closed. */
  readonly state: 'connecting' | 'open' | 'gone' | 'hidden';
  /** The server's reason for giving no stream; undefined when it gives one, or is gone. */
  readonly refusal: string | undefined;
  /** The time of the last message, in milliseconds since 1970 by this browser's clock; 0 before the first. */
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

const RETRY_MS = 1000;
const SILENCE_TIMEOUT_MS = 10_000;
const PROBE_TIMEOUT_MS = 4000;

/** The form of a server's messages: the first has every field, and each later one the fields that changed. */
export interface MessageForm<T> {
  /** Fields without which the first message is not whole. */
  readonly fields: readonly (keyof T)[];
  withDelta(before: T, message: Partial<T>): T;
  /** The moment at which the server made the message; undefined when the message has none. */
  atOf(message: Partial<T>): string | undefined;
}

/** The messages of an agent (inspect/wire/live.ts). */
export const AGENT_MESSAGES: MessageForm<Live> = {
  fields: ['by', 'sentence', 'health', 'objects', 'latency', 'syncs', 'heard', 'faults', 'refused', 'drift'],
  withDelta,
  atOf: ({ by }) => by?.at,
};

/** The messages of the fleet (inspect/wire/fleet.ts). */
export const FLEET_MESSAGES: MessageForm<FleetLive> = {
  fields: ['version', 'at', 'sentence', 'nodes', 'latency', 'minutes', 'slowest', 'waiting', 'drained'],
  withDelta: withFleetDelta,
  atOf: ({ at }) => at,
};

/** `before` is undefined for the first message. Throws when that is not whole. */
export function merged<T>(form: MessageForm<T>, before: T | undefined, message: Partial<T>): T {
  if (before !== undefined) return form.withDelta(before, message);
  if (form.fields.some((field) => message[field] === undefined))
    throw new Error('the first message of /live is not whole');
  return message as T;
}

/** Calls `onChange` with each message and each change of state, until the returned function is called. */
export function follow<T>(form: MessageForm<T>, onChange: (connection: LiveConnection<T>) => void): () => void {
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
    // An answer without a stream closes it for good (HTML, section 9.2.3), unlike a broken connection.
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
      live = merged(form, live, message);
      const now = Date.now();
      const at = form.atOf(message);
      const clock = at === undefined ? {} : { clockAhead: Date.parse(at) - now };
      set({ live, state: 'open', refusal: undefined, heardAt: now, ...clock });
    });
  };
  // A forwarded port may stay open after its server is gone, and then nothing shows that the stream is dead.
  const watch = setInterval(() => {
    if (connection.state !== 'open' || Date.now() - connection.heardAt < SILENCE_TIMEOUT_MS) return;
    fetch('/healthz', { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS), cache: 'no-store' }).then(
      () => set({ heardAt: Date.now() }),
      () => connection.state === 'open' && lose(),
    );
  }, PROBE_TIMEOUT_MS);
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

/** The problem that the server answers instead of a stream, if any. */
async function whyRefused(): Promise<string | undefined> {
  const stop = new AbortController();
  try {
    const response = await fetch('/live', {
      signal: AbortSignal.any([stop.signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]),
    });
    return response.ok ? undefined : problemIn(await response.text());
  } catch {
    return undefined;
  } finally {
    stop.abort();
  }
}
