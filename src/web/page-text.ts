/** Sentences and signs of the agent's page. Pure. */
import type { Explanation } from '../inspect/wire/explanation.ts';
import { countText, millisecondsText, timeBetween } from '../inspect/wire/format.ts';
import type { Live } from '../inspect/wire/live.ts';
import type { ServiceState } from '../inspect/wire/services.ts';

/** The page shows this time until now. */
export const LOOK_BACK_MS = 15 * 60_000;

/** Each kind of sign has its own shape beside its colour. */
export type SignKind = 'ok' | 'warn' | 'bad' | 'waiting' | 'none' | 'off';

export function signOfState(state: ServiceState): SignKind {
  const signs: Readonly<Record<ServiceState, SignKind>> = {
    refused: 'bad',
    fault: 'warn',
    waiting: 'waiting',
    'no endpoints': 'none',
    served: 'ok',
    'not proxied': 'off',
  };
  return signs[state];
}

export function signOfHealth({ health, refused }: Pick<Live, 'health' | 'refused'>): SignKind {
  if (!health.live) return 'bad';
  if (!health.ready || !health.healthy || refused.length > 0) return 'warn';
  return 'ok';
}

export function signOfOutcome(outcome: Live['syncs'][number]['outcome']): SignKind {
  return outcome === 'complete' ? 'ok' : outcome === 'partial' ? 'warn' : 'bad';
}

export function signOfVerdict(kind: Explanation['verdict']['kind']): SignKind {
  const signs: Readonly<Record<Explanation['verdict']['kind'], SignKind>> = {
    balanced: 'ok',
    refused: 'none',
    dropped: 'bad',
    'not a Service': 'off',
    local: 'off',
  };
  return signs[kind];
}

/** The agent's sentence with the time since the last change, which grows. `now`: a moment by the agent's clock. */
export function sentenceText({ sentence, health, lastChange, objects }: SentenceParts, now: string): string {
  const isWell = health.live && health.ready && health.healthy;
  if (lastChange === null || !isWell || objects.services === 0) return sentence;
  const { at, milliseconds } = lastChange;
  return `${sentence}; last change ${timeBetween(at, now)} ago, ${millisecondsText(milliseconds)} from event to kernel`;
}

type SentenceParts = Pick<Live, 'sentence' | 'health' | 'lastChange' | 'objects'>;

/** The chart of latencies in one sentence. */
export function latencyText(slots: Live['latency']): string {
  const changes = slots.reduce((sum, slot) => sum + slot.changes, 0);
  if (changes === 0) return 'No change came in the last 15 minutes.';
  const most = Math.max(...slots.map((slot) => slot.most));
  const typical = middleOf(slots, changes);
  return `${countText(changes, 'change')} in the last 15 minutes: typically ${millisecondsText(typical)} from event to kernel, at most ${millisecondsText(most)}.`;
}

/** The median of the slot that holds the middle change, with the slots sorted by their medians. */
function middleOf(slots: Live['latency'], changes: number): number {
  let before = 0;
  for (const slot of slots.toSorted((a, b) => a.p50 - b.p50)) {
    before += slot.changes;
    if (before * 2 >= changes) return slot.p50;
  }
  return 0;
}

/** The timeline of syncs in one sentence. */
export function syncsText(syncs: Live['syncs']): string {
  if (syncs.length === 0) return 'No sync ran in the last 15 minutes.';
  const bad = syncs.filter(({ outcome }) => outcome !== 'complete').length;
  const outcome = bad === 0 ? 'all complete' : `${bad} of them not complete`;
  return `${countText(syncs.length, 'sync')} in the last 15 minutes, ${outcome}.`;
}

/** Both times in milliseconds since 1970, by this browser's clock. */
export function goneText(heardAt: number, now: number): string {
  if (heardAt === 0) return 'The agent does not answer.';
  const at = new Date(heardAt);
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
  const since = timeBetween(at.toISOString(), new Date(now).toISOString());
  return `The agent is gone: it was last heard at ${time}, ${since} ago. What you see is from then. The kernel's rules stay as they are without it.`;
}

/** The destination of a question of explain for a frontend: `svc/shop/web:80`, `192.0.2.1:80/udp`, `nodeport:30080`. */
export function destinationText(
  service: string,
  {
    kind,
    address,
    number,
    protocol,
    port,
  }: { kind: string; address: string; number: number; protocol: string; port: string },
): string {
  const suffix = protocol === 'TCP' ? '' : `/${protocol.toLowerCase()}`;
  if (kind === 'node port') return `nodeport:${number}${suffix}`;
  if (kind === 'cluster IP') return `svc/${service}:${port === '' ? number : port}${suffix}`;
  return address.includes(':') ? `[${address}]:${number}${suffix}` : `${address}:${number}${suffix}`;
}
