/**
 * What kube-proxy does on purpose and slicewire does otherwise (docs/iptables.md, docs/ipvs.md: "Better than kube-proxy"; docs/semantics.md).
 * A connection that differs by such a rule alone is as kube-proxy means it. Pure.
 */
import { endpointText, familyOf } from '../../base/address.ts';
import { portKey } from '../../proxy/model/endpoints.ts';
import { MODES, type ModeName } from '../../proxy/model/modes.ts';
import type { Service, Slice } from '../../proxy/model/objects.ts';
import type { ExplainFacts } from './facts.ts';
import type { Fate } from './packet.ts';
import type { PacketQuery } from './packet-query.ts';
import type { Subject } from './subject.ts';

/** A connection that kube-proxy's rules lead elsewhere than slicewire's would. */
export interface Divergence {
  readonly installed: readonly Fate[];
  readonly desired: readonly Fate[];
  readonly query: PacketQuery;
  readonly subject: Subject;
  readonly mode: ModeName;
  readonly objects: Pick<ExplainFacts['objects'], 'services' | 'slicesOf'>;
}

interface Purpose {
  readonly why: string;
  readonly applies: (divergence: Divergence) => boolean;
}

const PURPOSES: readonly Purpose[] = [
  {
    why: "kube-proxy refuses an external address without endpoints to others alone, and lets the node's own packets leave the node; slicewire refuses them, too (docs/semantics.md 6.4).",
    applies: ({ installed, desired, query, subject }) =>
      query.from.what === 'node' &&
      isExternal(subject) &&
      isStopped(desired) &&
      installed.every(({ kind }) => kind === 'untouched'),
  },
  {
    why: 'kube-proxy opens an address of a load balancer to a family without a source range, and to everybody where no range can be read; slicewire closes it (docs/semantics.md 1.8).',
    applies: (divergence) => isOpenedByThem(divergence) && divergence.subject.port.sourceRanges?.length === 0,
  },
  {
    why: 'The address is both an external IP and the one of the load balancer. With kube-proxy it bypasses the source ranges, with slicewire it has them (docs/semantics.md 1.14).',
    applies: (divergence) => isOpenedByThem(divergence) && hasAddressTwice(divergence),
  },
  {
    why: 'IPVS mode of kube-proxy sends a connection from outside to endpoints of other nodes where policy Local has none on this node; slicewire drops it (docs/semantics.md 4.1).',
    applies: (divergence) =>
      MODES[divergence.mode].balancesBy === 'virtual servers' &&
      divergence.query.from.what === 'outside' &&
      divergence.subject.frontend.policy === 'Local' &&
      isOpenedByThem(divergence),
  },
  {
    why: 'Some endpoints are in two slices with different conditions. kube-proxy takes the one that it meets last, slicewire the one of most use (docs/semantics.md 2.4).',
    applies: differsInDoubles,
  },
  {
    why: 'Several Services claim this address and port. kube-proxy writes the rules of all of them, slicewire those of one (docs/semantics.md 1.14).',
    applies: hasOtherClaims,
  },
];

/** A sentence; undefined for a difference that is no such purpose. */
export function purposeOf(divergence: Divergence): string | undefined {
  return PURPOSES.find(({ applies }) => applies(divergence))?.why;
}

function isStopped(fates: readonly Fate[]): boolean {
  return fates.every(({ kind }) => kind === 'dropped' || kind === 'rejected');
}

function isOpenedByThem({ installed, desired }: Divergence): boolean {
  return isStopped(desired) && installed.every(({ kind }) => kind === 'balanced');
}

function isExternal({ frontend: { role } }: Subject): boolean {
  return role === 'external-ip' || role === 'load-balancer';
}

function hasAddressTwice({ query: { to }, subject: { service } }: Divergence): boolean {
  return service.externalIPs.includes(to.address) && service.loadBalancerIPs.includes(to.address);
}

/** Whether every endpoint that one side alone sends to is in several slices of the Service. */
function differsInDoubles({ installed, desired, subject: { service, spec }, objects }: Divergence): boolean {
  const [there, wanted] = [backends(installed), backends(desired)];
  const apart = [...there].filter((one) => !wanted.has(one)).concat([...wanted].filter((one) => !there.has(one)));
  if (apart.length === 0) return false;
  const counts = new Map<string, number>();
  for (const slice of objects.slicesOf(service.key))
    for (const pair of pairsOf(slice, portKey(spec.name, spec.protocol))) counts.set(pair, (counts.get(pair) ?? 0) + 1);
  return apart.every((one) => (counts.get(one) ?? 0) > 1);
}

function backends(fates: readonly Fate[]): ReadonlySet<string> {
  return new Set(fates.flatMap(({ kind, backend }) => (kind === 'balanced' ? [backend] : [])));
}

function pairsOf({ ports, endpoints }: Slice, key: string): string[] {
  const asked = ports.filter(({ name, protocol }) => portKey(name, protocol) === key);
  return asked.flatMap(({ port }) => endpoints.map(({ address }) => endpointText(address, port)));
}

function hasOtherClaims({ query: { to }, subject, objects }: Divergence): boolean {
  const isNodePort = subject.frontend.role === 'node-port';
  const claims = ({ key, clusterIPs, externalIPs, loadBalancerIPs, ports }: Service) =>
    key !== subject.service.key &&
    (isNodePort
      ? clusterIPs.some((address) => familyOf(address) === to.family)
      : [...clusterIPs, ...externalIPs, ...loadBalancerIPs].includes(to.address)) &&
    ports.some(
      ({ protocol, port, nodePort }) => protocol === to.protocol && (isNodePort ? nodePort : port) === to.port,
    );
  for (const service of objects.services()) if (claims(service)) return true;
  return false;
}
