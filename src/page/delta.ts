/** Puts the messages of `/live` together (answers/live.ts): the first is whole, each later one has what changed. Pure. */
import type { Live, LiveDelta } from '../answers/live.ts';

/** Milliseconds that the page looks back. */
export const LOOK_BACK = 15 * 60_000;
const MOST_SYNCS = 200;

/**
 * `before` undefined: `message` is the first and whole. Throws when it is not. `now`: milliseconds since 1970 by the clock of the agent,
 * which decides what is too old.
 */
export function merged(before: Live | undefined, message: LiveDelta): Live {
  if (before === undefined) {
    if (!isWhole(message)) throw new Error('the first message of /live is not whole');
    return recent(message);
  }
  const { syncs, latency, ...rest } = message;
  return recent({
    ...before,
    ...rest,
    syncs: withNew(before.syncs, syncs, ({ number }) => number).slice(-MOST_SYNCS),
    latency: withNew(before.latency, latency, ({ at }) => at),
  });
}

const WHOLE = [
  'by',
  'sentence',
  'health',
  'objects',
  'latency',
  'syncs',
  'heard',
  'faults',
  'setAside',
  'drift',
] as const;

function isWhole(message: LiveDelta): message is Live {
  return WHOLE.every((field) => message[field] !== undefined);
}

/** Entries of `changed` replace those of the same key, and new ones follow. */
function withNew<T>(
  before: readonly T[],
  changed: readonly T[] | undefined,
  keyOf: (entry: T) => string | number,
): T[] {
  if (changed === undefined || changed.length === 0) return [...before];
  const byKey = new Map(before.map((entry) => [keyOf(entry), entry]));
  for (const entry of changed) byKey.set(keyOf(entry), entry);
  return [...byKey.values()];
}

function recent(live: Live): Live {
  const since = Date.parse(live.by.at) - LOOK_BACK;
  const isRecent = ({ at }: { readonly at: string }) => Date.parse(at) >= since;
  return { ...live, syncs: live.syncs.filter(isRecent), latency: live.latency.filter(isRecent) };
}
