/** Every endpoint of every slice of a Service, with used or not used and why. Pure. */

import { endpointText } from '../../base/address.ts';
import { isOfEndpoint, type JudgedEndpoint, judgeSlices } from '../../proxy/model/endpoint-uses.ts';
import { BACKUP_ANNOTATION, SLOW_START_ANNOTATION, WEIGHT_ANNOTATION } from '../../proxy/model/labels.ts';
import {
  type Endpoint,
  type Fault,
  faultText,
  type Service,
  type ServicePortSpec,
  type Slice,
} from '../../proxy/model/objects.ts';
import { type EndpointUse, isUsed } from '../../proxy/model/selection.ts';
import type { ExplainedSlice } from '../wire/explanation.ts';
import { listText } from '../wire/format.ts';
import { type ExplainFacts, MAX_LISTED } from './facts.ts';
import type { Subject } from './subject.ts';

type ListedEndpoint = ExplainedSlice['endpoints'][number];

/** The facts that decide whether an endpoint is used. */
export type SliceFacts = Pick<ExplainFacts, 'node' | 'faultsOf'> & {
  readonly objects: Pick<ExplainFacts['objects'], 'slicesOf'>;
};

/** The slices of the packet's family, sorted by name. */
export function explainSlices(subject: Subject, facts: SliceFacts): ExplainedSlice[] {
  const { service, spec, port } = subject;
  const slices = facts.objects.slicesOf(service.key).filter(({ family }) => family === port.family);
  const { name: nodeName, zone, suspects = [] } = facts.node;
  const { name, protocol } = spec;
  const judged = judgeSlices({ name, protocol, family: port.family, slices, location: { nodeName, zone, suspects } });
  const context: SliceContext = { subject, facts, slices };
  return slices
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map((slice) => ({
      slice: slice.key,
      endpoints: [
        ...judged(subject.list, slice).map((one) => explainEndpoint(one, slice, context)),
        ...leftOut(facts.faultsOf('EndpointSlice', slice.key)),
      ],
    }));
}

interface SliceContext {
  readonly subject: Subject;
  readonly facts: SliceFacts;
  readonly slices: readonly Slice[];
}

function explainEndpoint(judged: JudgedEndpoint, slice: Slice, context: SliceContext): ListedEndpoint {
  const { endpoint, port, use, counts } = judged;
  if (port === undefined || use === 'no such port') return withoutPort(endpoint, slice, context.subject.spec);
  const entry = { endpoint: endpointText(endpoint.address, port), node: endpoint.nodeName };
  if (use === 'duplicate') return { ...entry, used: false, use, why: duplicateOf(counts, context) };
  return { ...entry, used: isUsed(use), use, why: wordsOf(use, endpoint, context) };
}

/** Another entry of the same address and port is of more use, or comes first (docs/semantics.md 2.4). */
function duplicateOf(counts: Endpoint | undefined, { slices }: SliceContext): string {
  const holder = slices.find(({ endpoints }) => endpoints.some((each) => each === counts));
  return `duplicate of the entry in slice ${holder?.key ?? 'of the same name'}, which counts`;
}

function wordsOf(use: EndpointUse, endpoint: Endpoint, { subject, facts }: SliceContext): string {
  const { node } = facts;
  switch (use) {
    case 'ready':
      return readyWords(endpoint, subject, facts);
    case 'draining':
      return 'terminating and still serving; used because no ready endpoint is left';
    case 'replaced by ready ones':
      return 'terminating and still serving; not used while ready endpoints are there';
    case 'terminating':
      return 'terminating, and not serving any more';
    case 'not ready':
      return endpoint.serving ? 'not ready, though serving' : 'not ready';
    case 'hinted for other nodes':
      return `its hint is for ${named('node', endpoint.nodeHints)}, and this node is ${node.name}`;
    case 'hinted for other zones':
      return `its hint is for ${named('zone', endpoint.zoneHints)}, and this node is in zone ${node.zone}`;
    case 'node does not answer':
      return `ready by its slice; not used because its Node ${endpoint.nodeName} does not answer (--failover=confirm)`;
    case 'standby':
      return endpoint.isBackup === true
        ? `a backup (${BACKUP_ANNOTATION}); not used while other endpoints are ready`
        : `its weight is 0 (${WEIGHT_ANNOTATION}); not used while other endpoints are ready`;
    case 'not on this node':
      return `not on this node: ${subject.list === 'Local' ? policyField(subject) : 'the policy'} is Local`;
  }
}

/** With its weight where it has one of its own. */
function readyWords(endpoint: Endpoint, subject: Subject, facts: SliceFacts): string {
  const words = readyAs(endpoint, subject, facts);
  const { weight, growsTo } = endpoint;
  if (weight === undefined) return words;
  return growsTo === undefined
    ? `${words}; its weight is ${weight}`
    : `${words}; its weight is ${weight}, and grows to ${growsTo} (${SLOW_START_ANNOTATION})`;
}

function readyAs(endpoint: Endpoint, { list, port }: Subject, { node }: SliceFacts): string {
  if (list === 'Local') return 'ready, and on this node';
  const isHinted = endpoint.zoneHints.length + endpoint.nodeHints.length > 0;
  if (!isHinted || port.idleHints !== undefined) return endpoint.terminating ? 'ready (and terminating)' : 'ready';
  if (endpoint.nodeHints.includes(node.name)) return 'ready, and its hint names this node';
  return endpoint.zoneHints.includes(node.zone) ? `ready, and its hint names this node's zone ${node.zone}` : 'ready';
}

function named(noun: string, names: readonly string[]): string {
  return names.length === 0 ? `no ${noun}` : `${noun}${names.length === 1 ? '' : 's'} ${listText(names)}`;
}

/** The field that makes the packet's policy Local. */
export function policyField({ frontend: { role } }: Subject): string {
  return role === 'cluster-ip' ? 'internalTrafficPolicy' : 'externalTrafficPolicy';
}

/** The slice has no port of the name and the protocol (docs/semantics.md 1.3). */
function withoutPort({ address, nodeName }: Endpoint, { ports }: Slice, spec: ServicePortSpec): ListedEndpoint {
  const wanted =
    spec.name === '' ? `no port without a name for ${spec.protocol}` : `no port ${spec.name} for ${spec.protocol}`;
  const has = ports.map(({ name, protocol, port }) =>
    name === '' ? `${port}/${protocol}` : `${name} ${port}/${protocol}`,
  );
  const why = has.length === 0 ? 'the slice has no ports' : `the slice has ${wanted}, but ${listText(has, MAX_LISTED)}`;
  return { endpoint: address, node: nodeName, used: false, use: 'no such port', why };
}

/** Endpoints that are set aside, by their faults. */
function leftOut(faults: readonly Fault[]): ListedEndpoint[] {
  return faults.filter(isOfEndpoint).map((fault) => ({
    endpoint: fault.value === '' ? fault.field : fault.value,
    node: '',
    used: false,
    use: 'set aside',
    why: `set aside: ${fault.field} ${fault.problem}`,
  }));
}

/** Slices of the Service's namespace that are set aside as a whole, and may belong to it by their name. */
export function slicesSetAside({ key }: Pick<Service, 'key'>, facts: ExplainFacts): string[] {
  const found: string[] = [];
  for (const fault of facts.faults()) {
    if (fault.kind !== 'EndpointSlice' || fault.effect !== 'object set aside') continue;
    if (fault.object.startsWith(`${key}-`)) found.push(faultText(fault));
  }
  return found;
}
