/** The matches that recognise traffic from pods of this node (docs/semantics.md 5.1). */
import { type Cidr, holdsAll } from '../../model/address.ts';

export type LocalDetector =
  | { readonly kind: 'none' }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'interface'; readonly name: string };

/** The match for traffic from pods of this node, or for all other traffic. */
export function localMatch(detector: LocalDetector, local: boolean): { source?: string; device?: string } {
  const not = local ? '' : '! ';
  if (detector.kind === 'cidr') return holdsAll(detector.cidr) ? {} : { source: `${not}-s ${detector.cidr}` };
  if (detector.kind === 'interface') return { device: `${not}-i ${detector.name}` };
  return {};
}

/** No traffic is known to come from outside the pods of this node, so there is no match for it. */
export function isEverybodyLocal(detector: LocalDetector): boolean {
  return detector.kind === 'none' || (detector.kind === 'cidr' && holdsAll(detector.cidr));
}
