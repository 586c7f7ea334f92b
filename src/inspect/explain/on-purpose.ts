/**
 * Differences between kube-proxy and slicewire on purpose (docs/iptables.md, docs/ipvs.md: "Better than kube-proxy"; docs/semantics.md). Each
 * predicts where kube-proxy sends a connection; one that goes elsewhere is a difference like any other. Pure.
 */
import { cidrContains, endpointText, familyOf } from '../../base/address.ts';
import { mergeSlices, portKey } from '../../proxy/model/endpoints.ts';
import { MODES, type ModeName } from '../../proxy/model/modes.ts';
import type { Endpoint, ServiceKey } from '../../proxy/model/objects.ts';
import type { Backend, ServicePort } from '../../proxy/model/service-port.ts';
import type { ExplainFacts } from './facts.ts';
import { areStopped, backendsOf, type Fate } from './packet.ts';
import type { PacketQuery } from './packet-query.ts';
import type { Subject } from './subject.ts';

/** A connection that kube-proxy's rules lead elsewhere than slicewire's would. */
interface Diverging {
  readonly installed: readonly Fate[];
  readonly desired: readonly Fate[];
  readonly query: PacketQuery;
  /** undefined where no Service has the destination. */
  readonly subject: Subject | undefined;
}

interface Divergence extends Diverging {
  readonly subject: Subject;
  readonly mode: ModeName;
  readonly objects: Pick<ExplainFacts['objects'], 'services' | 'slicesOf'>;
  readonly ports: ReadonlyMap<string, ServicePort>;
}

type PurposeFacts = Pick<ExplainFacts, 'by' | 'objects' | 'model'>;

interface Purpose {
  readonly why: string;
  /** Whether kube-proxy means it to be as it is. */
  readonly predicts: (divergence: Divergence) => boolean;
}

const PURPOSES: readonly Purpose[] = [
  {
    why: "iptables mode of kube-proxy refuses an external address without endpoints to others alone, and lets the node's own packets leave the node; slicewire refuses them, too (docs/semantics.md 6.4).",
    predicts: ({ installed, desired, query, mode, subject: { port, frontend } }) =>
      isIptables(mode) &&
      query.from.what === 'node' &&
      (frontend.role === 'external-ip' || frontend.role === 'load-balancer') &&
      !port.hasAny &&
      areStopped(desired) &&
      installed.every(({ kind }) => kind === 'untouched'),
  },
  {
    why: 'kube-proxy opens an address of a load balancer to a family without a source range, and to everybody where no range can be read; slicewire closes it (docs/semantics.md 1.8).',
    predicts: ({ installed, desired, subject }) =>
      isOfBalancer(subject) &&
      subject.port.sourceRanges?.length === 0 &&
      areStopped(desired) &&
      goesTo(installed, subject.port[listOf(subject)]),
  },
  {
    why: 'The address is both an external IP and the one of the load balancer. In iptables mode of kube-proxy it bypasses the source ranges, with slicewire it has them (docs/semantics.md 1.14).',
    predicts: ({ installed, desired, query: { to }, mode, subject }) =>
      isIptables(mode) &&
      isOfBalancer(subject) &&
      subject.service.externalIPs.includes(to.address) &&
      areStopped(desired) &&
      goesTo(installed, subject.port[listOf(subject)]),
  },
  {
    why: 'In IPVS mode of kube-proxy an address of policy Local has the endpoints of this node, or all of them where this node has none, whoever asks, and the packets of the node are not masqueraded; slicewire keeps the policy for clients outside (docs/semantics.md 4.1).',
    predicts: (divergence) =>
      isInIpvs(divergence) &&
      divergence.subject.frontend.policy === 'Local' &&
      isAdmitted(divergence) &&
      keepsSource(divergence) &&
      goesTo(divergence.installed, endpointsInIpvs(divergence)),
  },
  {
    why: 'IPVS mode of kube-proxy applies the source ranges of a load balancer to those packets of the node alone that have the address of the load balancer as their source; slicewire applies them to all (docs/ipvs.md).',
    predicts: (divergence) =>
      isInIpvs(divergence) &&
      divergence.query.from.what === 'node' &&
      isOfBalancer(divergence.subject) &&
      !isAdmitted(divergence) &&
      areStopped(divergence.desired) &&
      goesTo(divergence.installed, endpointsInIpvs(divergence)),
  },
  {
    why: 'IPVS mode of kube-proxy drops a sender in no source range also where the Service has no endpoint; slicewire refuses everybody there (docs/semantics.md 6.6).',
    predicts: (divergence) =>
      isInIpvs(divergence) &&
      isOfBalancer(divergence.subject) &&
      !divergence.subject.port.hasAny &&
      !isAdmitted(divergence) &&
      divergence.installed.every(({ kind }) => kind === 'dropped') &&
      divergence.desired.every(({ kind }) => kind === 'rejected'),
  },
  {
    why: 'In IPVS mode of kube-proxy a cluster IP of policy Local without an endpoint on this node refuses connections; slicewire drops them (docs/semantics.md 4.1).',
    predicts: ({ installed, desired, mode, subject: { port, frontend } }) =>
      MODES[mode].balancesBy === 'virtual servers' &&
      frontend.role === 'cluster-ip' &&
      frontend.policy === 'Local' &&
      port.local.length === 0 &&
      installed.every(({ kind }) => kind === 'rejected') &&
      desired.every(({ kind }) => kind === 'dropped'),
  },
  {
    why: 'Some endpoints are in two slices with different conditions. kube-proxy takes the one that it meets last, slicewire the one of most use (docs/semantics.md 2.4).',
    predicts: differsInDoubles,
  },
  {
    why: 'kube-proxy has neither weights nor backups nor a choice by the client: it uses all ready endpoints alike (docs/traffic.md).',
    predicts: usesAllAlike,
  },
  {
    why: 'Several Services claim this address and port. kube-proxy writes the rules of all of them, slicewire those of one (docs/semantics.md 1.14).',
    predicts: ({ installed, query: { to }, subject, objects, ports }) => {
      const claims = claimsOf(objects).get(claimKey(subject, to)) ?? [];
      if (claims.length < 2) return false;
      const backends = [...ports.values()].filter(({ service, protocol, family }) => {
        return claims.includes(service) && protocol === to.protocol && family === to.family;
      });
      const theirs = new Set(backends.flatMap(({ cluster }) => cluster.map(({ text }) => text)));
      const there = [...backendsOf(installed).keys()];
      return there.length === installed.length && there.every((backend) => theirs.has(backend));
    },
  },
];

/** A sentence; undefined for a difference that is no such purpose. */
export function purposeOf(diverging: Diverging, { by, objects, model }: PurposeFacts): string | undefined {
  const { subject } = diverging;
  if (subject === undefined) return undefined;
  const divergence = { ...diverging, subject, mode: by.mode, objects, ports: model.ports };
  return PURPOSES.find(({ predicts }) => predicts(divergence))?.why;
}

function isIptables(mode: ModeName): boolean {
  return MODES[mode].rulesBy === 'iptables' && MODES[mode].balancesBy === 'rules';
}

function isInIpvs({ mode }: Divergence): boolean {
  return MODES[mode].balancesBy === 'virtual servers';
}

/** kube-proxy's choice for a virtual server (pkg/proxy/ipvs/proxier.go, syncEndpoint). */
function endpointsInIpvs({ subject: { port, frontend } }: Divergence): readonly Backend[] {
  return frontend.policy === 'Local' && port.local.length > 0 ? port.local : port.cluster;
}

/** Whether the source ranges of the frontend hold the sender, where it has any. */
function isAdmitted({ query: { from }, subject }: Divergence): boolean {
  const { sourceRanges } = subject.port;
  if (!isOfBalancer(subject) || sourceRanges === undefined) return true;
  return sourceRanges.some((range) => cidrContains(range, from.address));
}

/** Packets to an external address of policy Local keep their source, but for a Pod that reaches itself. A cluster IP has other rules. */
function keepsSource({ installed, query: { from }, subject: { port, frontend } }: Divergence): boolean {
  if (frontend.role === 'cluster-ip') return true;
  const own = new Set(port.cluster.filter(({ address }) => address === from.address).map(({ text }) => text));
  return installed.every(({ backend, masqueraded }) => masqueraded === own.has(backend));
}

function isOfBalancer({ frontend: { role } }: Subject): boolean {
  return role === 'load-balancer';
}

function listOf({ list }: Subject): 'local' | 'cluster' {
  return list === 'Local' ? 'local' : 'cluster';
}

/** Whether connections go to these endpoints, to all of them and to no other. */
function goesTo(fates: readonly Fate[], backends: readonly Backend[]): boolean {
  const there = backendsOf(fates);
  const isAll = fates.every(({ kind }) => kind === 'balanced') && there.size === backends.length;
  return isAll && backends.length > 0 && backends.every(({ text }) => there.has(text));
}

/** Whether every endpoint that one side alone sends to is in several slices of the Service, with different conditions. */
function differsInDoubles({ installed, desired, subject: { service, spec }, objects }: Divergence): boolean {
  const [there, wanted] = [backendsOf(installed), backendsOf(desired)];
  // A Service without any rule is a difference, whatever its endpoints are.
  if (installed.some(({ kind }) => kind === 'untouched')) return false;
  const apart = [...new Set(there.keys()).symmetricDifference(new Set(wanted.keys()))];
  const states = new Map<string, Set<string>>();
  const key = portKey(spec.name, spec.protocol);
  for (const { ports, endpoints } of objects.slicesOf(service.key)) {
    for (const { name, protocol, port } of ports) {
      if (portKey(name, protocol) !== key) continue;
      for (const endpoint of endpoints) {
        const pair = endpointText(endpoint.address, port);
        states.set(pair, (states.get(pair) ?? new Set()).add(stateOf(endpoint)));
      }
    }
  }
  return apart.length > 0 && apart.every((pair) => (states.get(pair)?.size ?? 0) > 1);
}

/** Whether the Service asks for another choice, and every endpoint that gets something is one of its ready ones. */
function usesAllAlike({ installed, desired, subject: { service, spec, port }, objects }: Divergence): boolean {
  const slices = objects.slicesOf(service.key).filter(({ family }) => family === port.family);
  const isOwn = ({ weight, isBackup }: Endpoint) => weight !== undefined || isBackup === true;
  if (service.hashes === undefined && !slices.some(({ endpoints }) => endpoints.some(isOwn))) return false;
  const key = portKey(spec.name, spec.protocol);
  const ready = (mergeSlices(slices, port.family, new Set([key])).get(key) ?? []).filter(
    ({ endpoint }) => endpoint.ready,
  );
  const [there, all] = [backendsOf(installed), new Set(ready.map(({ text }) => text))];
  const isBalanced = installed.every(({ kind }) => kind === 'balanced');
  return (
    isBalanced &&
    there.keys().every((one) => all.has(one)) &&
    backendsOf(desired)
      .keys()
      .every((one) => there.has(one))
  );
}

function stateOf({ ready, serving, terminating }: Endpoint): string {
  return `${ready} ${serving} ${terminating}`;
}

/** The Services that claim an address and port, or a node port, by `claimKey`. */
type Claims = ReadonlyMap<string, readonly ServiceKey[]>;

const CLAIMS = new WeakMap<object, Claims>();

/** Made once for all questions about the same objects. */
function claimsOf(objects: Divergence['objects']): Claims {
  const known = CLAIMS.get(objects);
  if (known !== undefined) return known;
  const found = new Map<string, ServiceKey[]>();
  const claim = (key: string, service: ServiceKey) => {
    const before = found.get(key);
    if (before === undefined) found.set(key, [service]);
    else if (!before.includes(service)) before.push(service);
  };
  for (const { key, clusterIPs, externalIPs, loadBalancerIPs, ports } of objects.services()) {
    for (const { protocol, port, nodePort } of ports) {
      for (const address of [...clusterIPs, ...externalIPs, ...loadBalancerIPs])
        claim(`${protocol} ${endpointText(address, port)}`, key);
      if (nodePort !== 0) for (const address of clusterIPs) claim(`${protocol} ${familyOf(address)} ${nodePort}`, key);
    }
  }
  CLAIMS.set(objects, found);
  return found;
}

function claimKey({ frontend }: Subject, { protocol, family, address, port }: PacketQuery['to']): string {
  return `${protocol} ${frontend.role === 'node-port' ? `${family} ${port}` : endpointText(address, port)}`;
}
