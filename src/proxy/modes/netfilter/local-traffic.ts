/**
 * The settings of one family that the rules of every mode depend on, and above all traffic from pods of this node: the matches that
 * recognise it (docs/semantics.md 5.1), and the endpoints that reach themselves by it. Pure.
 */
import { type Address, type Cidr, cidrContains, type Family, holdsAll } from '../../../base/address.ts';
import type { Backend, ServicePort } from '../../model/service-port.ts';

export type LocalDetector =
  | { readonly kind: 'none' }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'interface'; readonly name: string };

export interface FamilySettings {
  readonly family: Family;
  readonly masqueradeBit: number;
  readonly masqueradeAll: boolean;
  readonly localDetector: LocalDetector;
  /** The node's own addresses: a source range that holds one lets the node itself in (docs/semantics.md 6.14). */
  readonly nodeAddresses: readonly Address[];
  /**
   * TCP is refused by a reset, so that a connection whose last endpoint is gone ends, too (`--reset-gone`). Absent: as kube-proxy refuses it,
   * which ends an attempt to connect alone.
   */
  readonly refusesByReset?: true;
}

/** The match for traffic from pods of this node, or for all other traffic. */
export function localMatch(detector: LocalDetector, local: boolean): { source?: string; device?: string } {
  const not = local ? '' : '! ';
  if (detector.kind === 'cidr') return holdsAll(detector.cidr) ? {} : { source: `${not}-s ${detector.cidr}` };
  if (detector.kind === 'interface') return { device: `${not}-i ${detector.name}` };
  return {};
}

/** Whether no traffic is known to come from outside the pods of this node, so that there is no match for it. */
export function isEverybodyLocal(detector: LocalDetector): boolean {
  return detector.kind === 'none' || (detector.kind === 'cidr' && holdsAll(detector.cidr));
}

/**
 * The backends that may reach themselves by packets that nothing else masquerades (docs/semantics.md 7.7), each once.
 * Backends of this node may, by every frontend. A backend of another node may where the match takes its packets for those of a pod of
 * this node, so that external policy Local sends them to all endpoints; policy Cluster masquerades them (7.4).
 */
export function hairpinBackends(port: ServicePort, detector: LocalDetector): readonly Backend[] {
  const { cluster, local, externalPolicy, frontends } = port;
  const keepsSources = externalPolicy === 'Local' && frontends.some(({ role }) => role !== 'cluster-ip');
  const found = new Map<string, Backend>();
  for (const backend of [...cluster, ...local]) {
    const { text, address, hairpin } = backend;
    if (hairpin || (keepsSources && isTakenForLocal(detector, address))) found.set(text, backend);
  }
  return [...found.values()];
}

/**
 * Whether the match takes packets of a pod of another node for those of a pod of this node. A match by interface does so where the pods
 * of all nodes are on one bridged network.
 */
function isTakenForLocal(detector: LocalDetector, address: Address): boolean {
  return detector.kind === 'cidr' ? cidrContains(detector.cidr, address) : detector.kind === 'interface';
}
