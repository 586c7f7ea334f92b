/** Events of a trace in words. Pure. */
import type { TracedStep } from '../host/traced-packets.ts';

type Event = Extract<TracedStep, { kind: 'event' }>;

/** Tables of iptables (iptables(8)). A table of these names in another family is not of iptables. */
const OF_IPTABLES: ReadonlySet<string> = new Set(['raw', 'mangle', 'nat', 'filter', 'security']);

export function isIptables({ family, table }: Pick<Event, 'family' | 'table'>): boolean {
  return family !== 'inet' && OF_IPTABLES.has(table);
}

/** The effect of a rule or policy on the packet. `rule` is its text. */
export function whatItDoes({ verdict, to, type }: Event, rule: string): string {
  switch (verdict) {
    case 'jump':
      return `goes on in ${to}`;
    case 'goto':
      return `goes on in ${to} and does not return`;
    case 'return':
      return 'goes back to the calling chain';
    case 'continue':
      return 'matches, and goes on';
    case 'drop':
      if (type === 'policy') return 'is dropped: no rule of the chain accepted it';
      return /\breject\b/i.test(rule) ? 'is refused' : 'is dropped';
    case 'accept':
      return accepted(rule);
    case 'queue':
      return 'waits for a program that decides';
    case 'stolen':
      return 'is taken by another part of the kernel';
    case 'other':
      return 'has an outcome that slicewire does not know';
  }
}

function accepted(rule: string): string {
  if (/\b(dnat|redirect)\b/i.test(rule)) return 'gets another destination';
  if (/\bmasquerade\b/i.test(rule)) return 'gets an address of this node as its source';
  if (/\bsnat\b/i.test(rule)) return 'gets another source';
  return 'is accepted by this chain';
}
