/** The health of the agent in one sentence. Pure. */

import { countText, firstOf, numberText } from '../wire/format.ts';
import type { Status } from '../wire/status.ts';

export interface SentenceFacts {
  readonly health: Status['health'];
  /** Services that the agent proxies. */
  readonly services: number;
  /** Services that the kernel refuses. */
  readonly refused: readonly string[];
  /** Services and EndpointSlices that are set aside, because of their faults. */
  readonly setAside: number;
  /** Nodes that do not answer (docs/semantics.md 3.6). */
  readonly suspects: readonly string[];
  /** Services with a change that is not in the kernel yet. */
  readonly waiting: number;
}

/** Names in a sentence; the others are counted. */
const MAX_NAMES = 3;

export function healthSentence(facts: SentenceFacts): string {
  const { health, services } = facts;
  const trouble = troubleText(health);
  if (trouble !== undefined) return trouble;
  if (services === 0 && facts.setAside === 0) return 'There are no Services yet';
  return [inKernelText(facts), ...setAsideText(facts), ...suspectsText(facts)].join('; ');
}

/** undefined without trouble. */
function troubleText({ live, ready, healthy, reasons }: Status['health']): string | undefined {
  const state = !live ? 'The agent hangs' : !ready ? 'Not ready' : 'Not healthy';
  if (live && ready && healthy) return undefined;
  const [first, ...others] = reasons;
  if (first === undefined) return state;
  const more = others.length === 0 ? '' : ` (and ${countText(others.length, 'more reason')})`;
  return `${state}: ${first}${more}`;
}

function inKernelText({ services, refused, waiting }: SentenceFacts): string {
  const missing = refused.length + waiting;
  if (services === 0) return 'No Service is in the kernel';
  if (missing === 0) {
    return services === 1
      ? 'The only Service is in the kernel'
      : `All ${numberText(services)} Services are in the kernel`;
  }
  const done = Math.max(0, services - missing);
  const parts = [`${numberText(done)} of ${countText(services, 'Service')} ${done === 1 ? 'is' : 'are'} in the kernel`];
  if (refused.length > 0) parts.push(`the kernel refuses ${firstOf(refused, MAX_NAMES)}`);
  if (waiting > 0) parts.push(`${countText(waiting, 'Service')} ${waiting === 1 ? 'waits' : 'wait'} for the next sync`);
  return parts.join('; ');
}

function setAsideText({ setAside }: SentenceFacts): string[] {
  if (setAside === 0) return [];
  return [
    `${countText(setAside, 'object')} ${setAside === 1 ? 'is' : 'are'} set aside because of ${setAside === 1 ? 'its' : 'their'} faults`,
  ];
}

function suspectsText({ suspects }: SentenceFacts): string[] {
  if (suspects.length === 0) return [];
  const who = suspects.length === 1 ? 'Node' : 'Nodes';
  const follows = suspects.length === 1 ? 'does not answer, and its' : 'do not answer, and their';
  return [`${who} ${firstOf(suspects, MAX_NAMES)} ${follows} endpoints get no new connections`];
}
