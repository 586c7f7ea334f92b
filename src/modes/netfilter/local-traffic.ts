/** How traffic of this node's pods is told from other traffic (docs/semantics.md 5.1), as matches of rules. */
import { type Cidr, holdsAll } from '../../model/address.ts';

export type LocalDetector =
  | { readonly kind: 'none' }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'interface'; readonly name: string };

/** The match for traffic of this node's pods, or for all other traffic. */
export function localMatch(detector: LocalDetector, local: boolean): { source?: string; device?: string } {
  const not = local ? '' : '! ';
  if (detector.kind === 'cidr') return holdsAll(detector.cidr) ? {} : { source: `${not}-s ${detector.cidr}` };
  if (detector.kind === 'interface') return { device: `${not}-i ${detector.name}` };
  return {};
}

/** There is no traffic that is known not to be of pods, and iptables has no match for it. */
export function isEverybodyLocal(detector: LocalDetector): boolean {
  return detector.kind === 'none' || (detector.kind === 'cidr' && holdsAll(detector.cidr));
}
