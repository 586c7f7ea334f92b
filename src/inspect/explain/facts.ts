/** The facts of an explanation: objects, model, kernel and node. The agent, a command or a recording fills them in. */

import type { Address, Cidr, Family, Protocol } from '../../base/address.ts';
import type { FrontendAt } from '../../proxy/model/claims.ts';
import type { LimitName } from '../../proxy/model/limits.ts';
import type { Fault, ObjectKind, Service, ServiceKey } from '../../proxy/model/objects.ts';
import type { ModelObjects } from '../../proxy/model/proxy-model.ts';
import type { ServicePort, ServicePortKey } from '../../proxy/model/service-port.ts';
import type { LastWriter, Memories } from '../../proxy/modes/inspection.ts';
import type { LocalDetector } from '../../proxy/modes/netfilter/local-traffic.ts';
import type { FamilyView } from '../../proxy/modes/view.ts';
import type { Explanation } from '../wire/explanation.ts';

/** Names that a sentence lists; the others are counted. */
export const MAX_LISTED = 5;

/** The objects as they were at the moment of the answer. */
export interface ExplainedObjects extends ModelObjects {
  services(): Iterable<Service>;
}

/** A Pod, where Pods are known. */
export interface KnownPod {
  readonly addresses: readonly Address[];
  /** "" when it is not scheduled. */
  readonly nodeName: string;
}

/** The way to an address. Each is undefined where the kernel names none. */
export interface KnownRoute {
  /** The address from which this node sends. */
  readonly source: Address | undefined;
  readonly device: string | undefined;
}

/** The earlier owner of an address, from the history. */
export interface FormerOwner {
  readonly service: ServiceKey;
  /** RFC 3339. */
  readonly until: string;
}

/** A family that the mode serves, on this node. */
export interface FamilyFacts {
  readonly family: Family;
  /** The objects in the kernel: as read, or as believed where no other program can have written. */
  readonly installed: FamilyView;
  readonly desired: FamilyView;
  readonly masqueradeAll: boolean;
  readonly localDetector: LocalDetector;
  /** The Node's own addresses, the primary one first (docs/semantics.md 9.1). */
  readonly nodeAddresses: readonly Address[];
  /** All addresses of this node's interfaces, without those of Services. */
  readonly localAddresses: ReadonlySet<Address>;
  /** Addresses of this node that take node ports (docs/semantics.md 6.9), the primary one first; loopback ones are left out. */
  readonly nodePortAddresses: readonly Address[];
  /** Whether 127.0.0.0/8 takes node ports (docs/semantics.md 6.10). */
  readonly localhostNodePorts: boolean;
  /** Ranges of cluster IPs; empty when they are not known, and in modes without use for them. */
  readonly serviceCidrs: readonly Cidr[];
}

/** The relay of node ports on loopback, in user space (docs/semantics.md 6.17). */
export interface RelayFacts {
  /** The addresses at which it listens. */
  readonly addresses: readonly Address[];
  /** Why it cannot listen, by `address port`. */
  readonly failures: ReadonlyMap<string, string>;
}

export interface ExplainFacts {
  /** `by.rules`: whose rules `FamilyFacts.installed` has. */
  readonly by: Explanation['by'];
  readonly objects: ExplainedObjects;
  readonly model: {
    readonly ports: ReadonlyMap<ServicePortKey, ServicePort>;
    portsOf(key: ServiceKey): readonly ServicePort[];
    frontend(at: FrontendAt): ServicePort | undefined;
  };
  /** The faults of an object: those of the object itself, and of a Service those between objects. */
  faultsOf(kind: ObjectKind, key: string): readonly Fault[];
  /** All faults; usually few. */
  faults(): Iterable<Fault>;
  readonly node: {
    readonly name: string;
    readonly zone: string;
    readonly podCIDRs: readonly Cidr[];
    /** Nodes that do not answer this one (docs/semantics.md 3.6). */
    readonly suspects?: readonly string[];
  };
  readonly families: ReadonlyMap<Family, FamilyFacts>;
  /**
   * Seconds for which session affinity still remembers the client, by the name of the memory (`ModeInspection.remembered`). Memories that
   * do not know the client are left out.
   */
  remembered(family: Family, memories: Memories, client: Address): Promise<ReadonlyMap<string, number>>;
  /** New connections that each limit of a ServicePort has refused, or why that cannot be read. Absent where the kernel is not asked. */
  refusedBy?(port: ServicePortKey): Promise<ReadonlyMap<LimitName, number> | { readonly cause: string }>;
  /** The Service that had a destination and has it no more; undefined when the history knows of none. */
  formerOwnerOf?(at: FrontendAt): FormerOwner | undefined | Promise<FormerOwner | undefined>;
  /** The way to an address by this node's routes; undefined when there is none. Absent where the routes are not known. */
  readonly routeTo?: ((destination: Address) => Promise<KnownRoute | undefined>) | undefined;
  /** Absent where Pods are not known. A Pod that does not exist is undefined. */
  pod?(key: string): KnownPod | undefined;
  /** Services that the kernel refuses, each with the kernel's words. */
  readonly refused: ReadonlyMap<ServiceKey, string>;
  /** Whether a change of the Service is not written yet. */
  isPending(service: ServiceKey): boolean;
  /** Without addresses where no range of loopback is named, and in iptables mode. */
  readonly relay: RelayFacts;
  /** undefined where the kernel does not name it. */
  readonly lastWriter: LastWriter | undefined;
  /** Lets other work of the process run. */
  yieldToEventLoop(): Promise<void>;
}

/** The protocol of a text such as `tcp`. */
export function protocolOf(text: string): Protocol | undefined {
  const upper = text.toUpperCase();
  return upper === 'TCP' || upper === 'UDP' || upper === 'SCTP' ? upper : undefined;
}
