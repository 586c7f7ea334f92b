/** The changes of an object, as phrases for people. */

import { type Address, endpointText } from '../../base/address.ts';
import { durationText } from '../../base/duration.ts';
import { sameData } from '../../base/equal.ts';
import {
  BALANCE_ANNOTATION,
  balanceText,
  IPVS_SCHEDULER_ANNOTATION,
  SLOW_START_ANNOTATION,
} from '../../proxy/model/labels.ts';
import { LIMIT_NAMES, limitAnnotation, limitNamed, limitText } from '../../proxy/model/limits.ts';
import {
  type Endpoint,
  type NodeView,
  type Service,
  type ServicePortSpec,
  type Slice,
  type SlicePort,
  USUAL_WEIGHT,
} from '../../proxy/model/objects.ts';
import { firstOf } from '../wire/format.ts';
import { type Change, isSame } from './delta.ts';

/** Names in a phrase. */
const MAX_NAMED = 5;

/** `10.244.1.7:8080 is not ready any more`, `spec.internalTrafficPolicy: Cluster → Local`. */
export function phrasesOf(change: Change): readonly string[] {
  if (change.kind === 'Service') return ofService(change.from, change.to);
  if (change.kind === 'EndpointSlice') return ofSlice(change.from, change.to);
  return ofNode(change.from, change.to);
}

function ofService(from: Service | undefined, to: Service | undefined): string[] {
  if (to === undefined) return ['deleted, or not for this proxy any more'];
  if (from === undefined) return [`created: ${summary(to)}`];
  const phrases: string[] = [];
  if (from.uid !== to.uid) phrases.push('created anew under the same name');
  for (const [field, read] of SERVICE_FIELDS) {
    const [before, now] = [read(from), read(to)];
    if (before !== now) phrases.push(`${field}: ${before} → ${now}`);
  }
  phrases.push(...portPhrases(from.ports, to.ports, servicePortText));
  // No other field is left than the time of creation.
  return phrases.length > 0 ? phrases : ['metadata.creationTimestamp changed'];
}

const SERVICE_FIELDS: readonly (readonly [field: string, read: (service: Service) => string])[] = [
  ['spec.type', ({ type }) => type],
  ['spec.clusterIPs', ({ clusterIPs }) => listOrNone(clusterIPs)],
  ['spec.externalIPs', ({ externalIPs }) => listOrNone(externalIPs)],
  ['status.loadBalancer.ingress', ({ loadBalancerIPs }) => listOrNone(loadBalancerIPs)],
  ['spec.loadBalancerSourceRanges', ({ sourceRanges }) => listOrNone(sourceRanges ?? [])],
  ['spec.internalTrafficPolicy', ({ internalTrafficPolicy }) => internalTrafficPolicy],
  ['spec.externalTrafficPolicy', ({ externalTrafficPolicy }) => externalTrafficPolicy],
  ['spec.sessionAffinity', ({ affinitySeconds }) => affinityText(affinitySeconds)],
  ['spec.healthCheckNodePort', ({ healthCheckNodePort }) => numberText(healthCheckNodePort)],
  [`metadata.annotations ${IPVS_SCHEDULER_ANNOTATION}`, ({ ipvsScheduler }) => ipvsScheduler ?? 'none'],
  [
    `metadata.annotations ${BALANCE_ANNOTATION}`,
    ({ hashes }) => (hashes === undefined ? 'random' : balanceText(hashes)),
  ],
  [
    `metadata.annotations ${SLOW_START_ANNOTATION}`,
    ({ slowStart }) => (slowStart === undefined ? 'none' : durationText(slowStart)),
  ],
  ...LIMIT_NAMES.map((name): [string, (service: Service) => string] => [
    `metadata.annotations ${limitAnnotation(name)}`,
    ({ limits }) => {
      const limit = limitNamed(limits, name);
      return limit === undefined ? 'none' : limitText(limit);
    },
  ]),
];

function affinityText(seconds: number): string {
  return seconds === 0 ? 'None' : `ClientIP, ${seconds} s`;
}

function numberText(value: number): string {
  return value === 0 ? 'none' : String(value);
}

function listOrNone(values: readonly string[]): string {
  return values.length === 0 ? 'none' : firstOf(values, 20);
}

/** `ClusterIP 10.96.0.10, http 80/TCP` */
function summary({ type, clusterIPs, ports }: Service): string {
  return [type, ...clusterIPs, ...ports.map((port) => `${port.name} ${servicePortText(port)}`.trim())].join(', ');
}

/** `80/TCP, node port 30080` */
export function servicePortText({ port, protocol, nodePort }: ServicePortSpec): string {
  return `${port}/${protocol}${nodePort === 0 ? '' : `, node port ${nodePort}`}`;
}

export function slicePortText({ port, protocol }: SlicePort): string {
  return `${port}/${protocol}`;
}

/** Name and protocol identify a port, as in the API. */
function portPhrases<P extends SlicePort>(from: readonly P[], to: readonly P[], text: (port: P) => string): string[] {
  const idOf = ({ name, protocol }: P) => `${name} ${protocol}`;
  const before = new Map(from.map((port) => [idOf(port), port]));
  const phrases: string[] = [];
  for (const port of to) {
    const was = before.get(idOf(port));
    before.delete(idOf(port));
    if (was === undefined) phrases.push(`${nameOf(port)} added: ${text(port)}`);
    else if (text(was) !== text(port)) phrases.push(`${nameOf(port)}: ${text(was)} → ${text(port)}`);
  }
  for (const port of before.values()) phrases.push(`${nameOf(port)} removed: ${text(port)}`);
  return phrases;
}

function nameOf({ name }: SlicePort): string {
  return name === '' ? 'port without a name' : `port ${name}`;
}

function ofSlice(from: Slice | undefined, to: Slice | undefined): string[] {
  if (to === undefined) return [`deleted, with ${endpointCount(from?.endpoints.length ?? 0)}`];
  if (from === undefined) {
    const names = to.endpoints.map((endpoint) => namedWithState(endpoint, to));
    return [`created with ${endpointCount(names.length)}${names.length === 0 ? '' : `: ${firstOf(names, MAX_NAMED)}`}`];
  }
  const phrases: string[] = [];
  if (from.service !== to.service) phrases.push(`belongs to Service ${to.service} instead of ${from.service}`);
  if (from.family !== to.family) phrases.push(`addressType: ${from.family} → ${to.family}`);
  phrases.push(...portPhrases(from.ports, to.ports, slicePortText));
  const ofEndpoints = endpointPhrases(from, to);
  if (phrases.length === 0 && ofEndpoints.length === 0) return ['the order of its endpoints changed'];
  return [...phrases, ...ofEndpoints];
}

function endpointCount(count: number): string {
  return count === 1 ? '1 endpoint' : `${count} endpoints`;
}

function endpointPhrases(from: Slice, to: Slice): string[] {
  const before = new Map(from.endpoints.map((endpoint) => [endpoint.address, endpoint]));
  const added: string[] = [];
  /** Names of endpoints by their new state. */
  const changed = new Map<string, string[]>();
  const others: string[] = [];
  for (const endpoint of to.endpoints) {
    const was = before.get(endpoint.address);
    before.delete(endpoint.address);
    if (was === undefined) added.push(namedWithState(endpoint, to));
    else if (!isSame(was, endpoint)) {
      const [state, name] = [stateOf(endpoint), endpointName(endpoint.address, to)];
      const names = changed.get(state) ?? [];
      if (stateOf(was) !== state) {
        names.push(name);
        changed.set(state, names);
      }
      others.push(...fieldPhrases(was, endpoint, name));
    }
  }
  const removed = [...before.keys()].map((address) => endpointName(address, from));
  return [
    ...(added.length === 0 ? [] : [`${endpointCount(added.length)} added: ${firstOf(added, MAX_NAMED)}`]),
    ...(removed.length === 0 ? [] : [`${endpointCount(removed.length)} removed: ${firstOf(removed, MAX_NAMED)}`]),
    ...[...changed].map(([state, names]) => becamePhrase(state, names)),
    ...(others.length > MAX_NAMED
      ? [...others.slice(0, MAX_NAMED), `and ${others.length - MAX_NAMED} more of the kind`]
      : others),
  ];
}

function fieldPhrases(was: Endpoint, now: Endpoint, name: string): string[] {
  const pairs = [
    ['node', was.nodeName, now.nodeName],
    ['zone hints', was.zoneHints.join(', '), now.zoneHints.join(', ')],
    ['node hints', was.nodeHints.join(', '), now.nodeHints.join(', ')],
    ['weight', weightText(was), weightText(now)],
    ['backup', was.isBackup ? 'yes' : 'no', now.isBackup ? 'yes' : 'no'],
  ];
  return pairs.flatMap(([field, a, b]) => (a === b ? [] : [`${field} of ${name}: ${a || 'none'} → ${b || 'none'}`]));
}

function weightText({ weight = USUAL_WEIGHT }: Endpoint): string {
  return String(weight);
}

type EndpointState = 'ready' | 'not ready' | 'terminating, serving' | 'terminating' | 'terminating, ready';

/** The state of an endpoint in words (docs/semantics.md 2.3). */
export function stateOf({ ready, serving, terminating }: Endpoint): EndpointState {
  if (!terminating) return ready ? 'ready' : 'not ready';
  if (ready) return 'terminating, ready';
  return serving ? 'terminating, serving' : 'terminating';
}

const BECAME: Readonly<Record<string, readonly [one: string, many: string]>> = {
  ready: ['is ready', 'are ready'],
  'not ready': ['is not ready any more', 'are not ready any more'],
  'terminating, serving': ['terminates and still serves', 'terminate and still serve'],
  terminating: ['terminates and does not serve any more', 'terminate and do not serve any more'],
  'terminating, ready': ['terminates and counts as ready', 'terminate and count as ready'],
};

function becamePhrase(state: string, names: readonly string[]): string {
  const [one = '', many = ''] = BECAME[state] ?? [];
  return names.length === 1
    ? `${names[0]} ${one}`
    : `${endpointCount(names.length)} ${many}: ${firstOf(names, MAX_NAMED)}`;
}

function namedWithState(endpoint: Endpoint, slice: Slice): string {
  const state = stateOf(endpoint);
  return `${endpointName(endpoint.address, slice)}${state === 'ready' ? '' : ` (${state})`}`;
}

/** `address:port` where the slice has one port; otherwise the address. */
export function endpointName(address: Address, { ports }: Pick<Slice, 'ports'>): string {
  const [port] = ports;
  return port === undefined || ports.length > 1 ? address : endpointText(address, port.port);
}

function ofNode(from: NodeView | undefined, to: NodeView | undefined): string[] {
  if (to === undefined) return ['deleted; its last state stays in force'];
  if (from === undefined) return ['created'];
  const phrases: string[] = [];
  const changed = (field: string, a: string, b: string) => {
    if (a !== b) phrases.push(`${field}: ${a || 'none'} → ${b || 'none'}`);
  };
  changed('zone', from.zone, to.zone);
  changed('status.addresses', from.addresses.join(', '), to.addresses.join(', '));
  changed('spec.podCIDRs', from.podCIDRs.join(', '), to.podCIDRs.join(', '));
  if (from.isEligible !== to.isEligible) {
    const [may, when] = to.isEligible ? ['may', 'again'] : ['may not', 'any more'];
    phrases.push(`load balancers ${may} send traffic to the node ${when}`);
  }
  phrases.push(...suspectPhrases(from.suspects ?? [], to.suspects ?? []));
  return phrases.length > 0 || !sameData(from, to) ? phrases : ['nothing that counts'];
}

/** Nodes that do not answer this one (docs/semantics.md 3.6). */
function suspectPhrases(from: readonly string[], to: readonly string[]): string[] {
  const lost = to.filter((name) => !from.includes(name));
  const back = from.filter((name) => !to.includes(name));
  return [
    ...(lost.length === 0
      ? []
      : [`no answer from Node ${firstOf(lost, MAX_NAMED)}: its endpoints get no new connections`]),
    ...(back.length === 0
      ? []
      : [`Node ${firstOf(back, MAX_NAMED)} is no suspect any more: its endpoints count again`]),
  ];
}
