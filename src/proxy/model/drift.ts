/** Drift: objects that this agent keeps in the kernel, and that another program changed. */
import type { Family } from '../../base/address.ts';

/**
 * The object: a chain, a jump to a chain of this agent, the order of the rules of a chain, or an element of a map or set of nftables. In IPVS
 * mode also a virtual server, a real server (destination), an entry of a set, or an address of kube-ipvs0.
 */
export type DriftKind = 'chain' | 'jump' | 'order' | 'element' | 'server' | 'destination' | 'entry' | 'address';

/** In recordings from before drift had fields: the text alone, as the name. */
type FormerKind = 'text';

export interface Drift {
  /** "" in a recording that has the text alone. */
  readonly family: Family | '';
  readonly kind: DriftKind | FormerKind;
  /**
   * The table of iptables that has the chain, or the map or set of nftables that has the element; "" for other kinds, and in slicewire's own
   * table.
   */
  readonly table: string;
  /** The chain, for a jump the chain that it is in, or the object as the kernel's tools print it. */
  readonly name: string;
  /** The chain that a jump leads to; "" for other kinds. */
  readonly target: string;
  readonly difference: Difference;
}

export type Difference =
  | { readonly kind: 'changed' }
  | { readonly kind: 'gone' }
  /** The agent did not write it. */
  | { readonly kind: 'foreign' }
  /** The numbers of rules gone and added. Both are 0 when only the order of the rules, or the number of equal ones, differs. */
  | { readonly kind: 'rules'; readonly gone: number; readonly added: number };

/** `IPv4 nat KUBE-SERVICES (1 rule gone)` */
export function driftText({ family, kind, table, name, target, difference }: Drift): string {
  const change = difference.kind === 'changed' ? '' : ` (${differenceText(difference)})`;
  switch (kind) {
    case 'text':
      return name;
    case 'chain':
      return `${family} ${table === '' ? kind : table} ${name}${change}`;
    case 'jump':
      return `${family} ${table} ${name} to ${target}${change}`;
    case 'order':
      return `${family} ${table} ${name}, order of jumps (changed)`;
    case 'element':
      return `${family} ${table} ${name}`;
    default:
      return `${family} ${kind} ${name}`;
  }
}

function differenceText(difference: Difference): string {
  if (difference.kind === 'foreign') return 'slicewire did not write it';
  if (difference.kind !== 'rules') return difference.kind;
  const rules = (count: number) => `${count} ${count === 1 ? 'rule' : 'rules'}`;
  const { gone, added } = difference;
  const parts = [gone > 0 ? `${rules(gone)} gone` : '', added > 0 ? `${rules(added)} added` : ''];
  return parts.filter((part) => part !== '').join(', ') || 'its rules differ in order or number';
}
