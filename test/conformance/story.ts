/** A story: objects, a node, packets, and what must become of each. Every mode must tell all of them alike. */
import type { ModeName } from '../../src/proxy/model/modes.ts';
import type { IptablesSettings } from '../../src/proxy/modes/iptables/static-chains.ts';
import type { BackendName, Origin, StoryCluster } from './cluster.ts';

export interface StoryPacket {
  readonly from: Origin;
  readonly to: string;
  readonly port: number;
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
  /** Its source address, where that is not the sender's own. */
  readonly as?: string;
  /** Backends that ClientIP affinity remembers the sender for. */
  readonly knownTo?: readonly BackendName[];
  /** What conntrack says of it; default NEW. */
  readonly state?: 'NEW' | 'INVALID';
}

export type Expected =
  | {
      readonly kind: 'balanced';
      /** Shares by backend; they add up to 1. */
      readonly shares: Readonly<Partial<Record<BackendName, number>>>;
      /** Backends that see the node's address instead of the sender's. */
      readonly masqueraded: 'all' | 'none' | readonly BackendName[];
      /** A mode may depart from the shares by so much, of all connections. Default: not at all. */
      readonly within?: number;
      /** Where it is not that of the lab's pods. Real packets cannot tell it. */
      readonly targetPort?: number;
    }
  /**
   * `accepted`: it reaches a server of the node itself. `untouched`: no rule of ours decides over it. `unserved`: nobody
   * serves this port of a Service's address: untouched, or refused where the node has the address.
   */
  | { readonly kind: 'rejected' | 'dropped' | 'untouched' | 'unserved' | 'accepted' };

/** Settings that a story may change, in words of every mode. */
export type StorySettings = Partial<
  Pick<
    IptablesSettings,
    | 'masqueradeAll'
    | 'localDetector'
    | 'nodePortAddresses'
    | 'localhostNodePorts'
    | 'masqueradeBit'
    | 'nodeAddresses'
    | 'dropInvalid'
  >
>;

export interface PacketFate {
  readonly packet: StoryPacket;
  readonly expected: Expected;
}

/** All objects there are, and what becomes of packets then. */
export interface StoryState {
  readonly objects: readonly object[];
  readonly packets: readonly PacketFate[];
  /** Label of the node's zone. */
  readonly zone?: string;
}

export interface StoryCase extends StoryState {
  readonly settings?: StorySettings;
  /** The feature gate AllowServiceExternalIPs; default: on. */
  readonly servesExternalIPs?: boolean;
  /** Addresses that the node has beside its own, as a load balancer may give it. */
  readonly nodeHas?: readonly string[];
  /** The node's own firewall drops what nobody accepts, in INPUT and FORWARD. */
  readonly closed?: boolean;
  /** States that follow, each reached from the one before. */
  readonly next?: readonly StoryState[];
}

/** How a story ends in kube-proxy 1.36, where that is otherwise. `npm run test:rivals` holds it to be so, and no other story. */
export interface OtherEnd {
  /** A sentence without its subject. */
  readonly does: string;
  /** Default: in every mode. */
  readonly modes?: readonly ModeName[];
  /** An order that kube-proxy does not define decides: it may also end alike. */
  readonly isByChance?: boolean;
}

export interface Story {
  /** Other lists name a story by it, so a title is free to change. */
  readonly id: string;
  readonly title: string;
  /** The field of the API, or the flag, that the story is about. */
  readonly field: string;
  /** What it follows: rules of docs/semantics.md, KEPs, issues (`coverage.ts`). */
  readonly covers: readonly string[];
  /** Families it makes sense in; default both. */
  readonly families?: readonly ('IPv4' | 'IPv6')[];
  readonly kubeProxy?: OtherEnd;
  /** Why no real packet can tell it in the lab, where that is so. */
  readonly onlyInterpreted?: string;
  readonly tell: (cluster: StoryCluster) => StoryCase;
}

/** undefined: kube-proxy in this mode ends the story as slicewire does. */
export function otherEnd({ kubeProxy }: Story, mode: ModeName): OtherEnd | undefined {
  return kubeProxy?.modes?.includes(mode) === false ? undefined : kubeProxy;
}

export function balanced(
  shares: Readonly<Partial<Record<BackendName, number>>>,
  masqueraded: 'all' | 'none' | readonly BackendName[] = 'none',
): Expected {
  return { kind: 'balanced', shares, masqueraded };
}

/** Equal shares. */
export function among(
  backends: readonly BackendName[],
  masqueraded: 'all' | 'none' | readonly BackendName[] = 'none',
): Expected {
  return balanced(Object.fromEntries(backends.map((name) => [name, 1 / backends.length])), masqueraded);
}

export const REJECTED: Expected = { kind: 'rejected' };
export const DROPPED: Expected = { kind: 'dropped' };
export const UNTOUCHED: Expected = { kind: 'untouched' };
export const UNSERVED: Expected = { kind: 'unserved' };
export const ACCEPTED: Expected = { kind: 'accepted' };
