/** A story: objects, a node, a packet, and what must become of it. Every mode must tell all of them alike. */
import type { IptablesSettings } from '../../src/modes/iptables/settings.ts';
import type { BackendName, Origin, World } from './world.ts';

export interface StoryPacket {
  readonly from: Origin;
  readonly to: string;
  readonly port: number;
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
}

export type Expected =
  | {
      readonly kind: 'balanced';
      /** Shares by backend; they add up to 1. */
      readonly shares: Readonly<Partial<Record<BackendName, number>>>;
      /** Backends that see the node's address instead of the sender's. */
      readonly masqueraded: 'all' | 'none' | readonly BackendName[];
    }
  | { readonly kind: 'rejected' | 'dropped' | 'untouched' };

/** Settings that a story may change, in words of every mode. */
export type StorySettings = Partial<
  Pick<
    IptablesSettings,
    'masqueradeAll' | 'localDetector' | 'nodePortAddresses' | 'localhostNodePorts' | 'masqueradeBit' | 'nodeAddresses'
  >
>;

export interface StoryCase {
  readonly objects: readonly object[];
  readonly packets: readonly { readonly packet: StoryPacket; readonly expected: Expected }[];
  readonly settings?: StorySettings;
  /** Label of the node's zone. */
  readonly zone?: string;
}

export interface Story {
  readonly title: string;
  /** The field of the API, or the flag, that the story is about. */
  readonly field: string;
  /** The rule it follows: a section of kube-proxy's behaviour, a KEP or an issue. */
  readonly source: string;
  /** Families it makes sense in; default both. */
  readonly families?: readonly ('IPv4' | 'IPv6')[];
  /** Why no real packet can tell it in the lab, where that is so. */
  readonly onlyInterpreted?: string;
  readonly tell: (world: World) => StoryCase;
}

export function balanced(
  shares: Readonly<Partial<Record<BackendName, number>>>,
  masqueraded: 'all' | 'none' | readonly BackendName[] = 'none',
): Expected {
  return { kind: 'balanced', shares, masqueraded };
}

export const REJECTED: Expected = { kind: 'rejected' };
export const DROPPED: Expected = { kind: 'dropped' };
export const UNTOUCHED: Expected = { kind: 'untouched' };
