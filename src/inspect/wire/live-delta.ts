/** The difference between two messages of `/live`, and how a reader applies it. Pure. */
import type { LatencySlot, Live, LiveDelta } from './live.ts';

/** Milliseconds that the page looks back. */
const PAGE_SPAN_MS = 15 * 60_000;
const MAX_SYNCS = 200;

/** The fields that differ; of syncs and latencies the entries that are new or changed. */
export function liveDelta(before: Live, now: Live): LiveDelta {
  const { syncs, latency, ...fields } = now;
  // Their numbers grow.
  const last = before.syncs.at(-1)?.number ?? Number.NEGATIVE_INFINITY;
  const newSyncs = syncs.filter(({ number }) => number > last);
  const slots = new Map(before.latency.map((slot) => [slot.at, slot]));
  const newSlots = latency.filter((slot) => !isSameSlot(slot, slots.get(slot.at)));
  return {
    ...changedFields(before, fields),
    ...(newSyncs.length === 0 ? {} : { syncs: newSyncs }),
    ...(newSlots.length === 0 ? {} : { latency: newSlots }),
  };
}

function changedFields(before: Live, fields: Omit<Live, 'syncs' | 'latency'>): LiveDelta {
  const differs = ([name, value]: readonly [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(Reflect.get(before, name));
  return Object.fromEntries(Object.entries(fields).filter(differs));
}

function isSameSlot(a: LatencySlot, b: LatencySlot | undefined): boolean {
  return b !== undefined && a.changes === b.changes && a.p50 === b.p50 && a.p99 === b.p99 && a.most === b.most;
}

/** The message after a change. Entries older than 15 minutes are dropped. */
export function withDelta(before: Live, delta: LiveDelta): Live {
  const now = { ...before, ...delta };
  const since = Date.parse(now.by.at) - PAGE_SPAN_MS;
  const isRecent = ({ at }: { readonly at: string }) => Date.parse(at) > since;
  const syncs = new Map([...before.syncs, ...(delta.syncs ?? [])].map((sync) => [sync.number, sync]));
  const latency = new Map([...before.latency, ...(delta.latency ?? [])].map((slot) => [slot.at, slot]));
  return {
    ...now,
    syncs: [...syncs.values()].filter(isRecent).slice(-MAX_SYNCS),
    latency: [...latency.values()].filter(isRecent),
  };
}
