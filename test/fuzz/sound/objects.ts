/** Checks of decoded objects: what a source emits, and what the producers of slices read. */

import { PROTOCOLS } from '../../../src/base/address.ts';
import type {
  EndpointsObject,
  PodView,
  SelectingService,
  SliceObject,
  ZonedNode,
} from '../../../src/cluster/producers/api-objects.ts';
import type { SourceEvent } from '../../../src/proxy/model/events.ts';
import type { Fault, NodeView, Service, Slice } from '../../../src/proxy/model/objects.ts';
import { TRAFFIC_DISTRIBUTIONS } from '../../../src/proxy/model/objects.ts';
import { shown, sure } from '../target.ts';
import {
  HINT,
  KEY,
  PORT_NAME,
  soundAddress,
  soundBoolean,
  soundChoice,
  soundCidr,
  soundLine,
  soundList,
  soundNumber,
  soundPort,
  soundTime,
  soundWord,
} from './text.ts';

const EFFECTS = ['object set aside', 'part left out', 'default used', 'no effect here'];
/** Characters of a fault: a log and an answer have thousands of them. */
const MAX_FAULT = 1000;

export function soundFaults(faults: readonly Fault[]): void {
  soundList(faults, 'faults', (value, at) => {
    const fault = value as Fault;
    for (const field of ['object', 'field', 'value', 'problem'] as const) {
      soundLine(fault[field], `${at}.${field}`);
      const { length } = fault[field];
      sure(length <= MAX_FAULT, () => `${at}.${field} has ${length} characters`);
    }
    soundChoice(fault.effect, `${at}.effect`, EFFECTS);
  });
}

export function soundEvent(event: SourceEvent): void {
  if ('faults' in event) soundFaults(event.faults);
  if (event.kind === 'service' && event.service !== undefined) soundService(event.service);
  else if (event.kind === 'slice') {
    soundTime(event.triggeredAt, 'triggeredAt');
    if (event.slice !== undefined) soundSlice(event.slice);
  } else if (event.kind === 'node' && event.node !== undefined) soundNode(event.node);
  else if (event.kind === 'serviceCidr' && event.cidrs !== undefined) soundList(event.cidrs, 'cidrs', soundCidr);
}

export function soundService(service: Service): void {
  soundWord(service.key, 'service.key', KEY);
  sure(service.uid === undefined || typeof service.uid === 'string', () => `service.uid: ${shown(service.uid)}`);
  soundTime(service.createdAt, 'service.createdAt');
  soundChoice(service.type, 'service.type', ['ClusterIP', 'NodePort', 'LoadBalancer']);
  for (const field of ['clusterIPs', 'externalIPs', 'loadBalancerIPs'] as const)
    soundList(service[field], `service.${field}`, soundAddress);
  sure(service.clusterIPs.length <= 2, () => `service.clusterIPs: ${shown(service.clusterIPs)}`);
  if (service.sourceRanges !== undefined) soundList(service.sourceRanges, 'service.sourceRanges', soundCidr);
  for (const [i, { name, protocol, port, nodePort }] of service.ports.entries()) {
    soundWord(name, `service.ports[${i}].name`, PORT_NAME);
    soundChoice(protocol, `service.ports[${i}].protocol`, PROTOCOLS);
    soundPort(port, `service.ports[${i}].port`);
    soundPort(nodePort, `service.ports[${i}].nodePort`, 0);
  }
  for (const field of ['internalTrafficPolicy', 'externalTrafficPolicy'] as const)
    soundChoice(service[field], `service.${field}`, ['Cluster', 'Local']);
  soundNumber(service.affinitySeconds, 'service.affinitySeconds', 0, 86_400);
  soundPort(service.healthCheckNodePort, 'service.healthCheckNodePort', 0);
}

export function soundSlice(slice: Slice): void {
  soundWord(slice.key, 'slice.key', KEY);
  soundWord(slice.service, 'slice.service', KEY);
  soundChoice(slice.family, 'slice.family', ['IPv4', 'IPv6']);
  for (const [i, { name, protocol, port }] of slice.ports.entries()) {
    soundWord(name, `slice.ports[${i}].name`, PORT_NAME);
    soundChoice(protocol, `slice.ports[${i}].protocol`, PROTOCOLS);
    soundPort(port, `slice.ports[${i}].port`);
  }
  for (const [i, endpoint] of slice.endpoints.entries()) {
    const at = `slice.endpoints[${i}]`;
    soundAddress(endpoint.address, `${at}.address`, slice.family);
    for (const field of ['ready', 'serving', 'terminating'] as const) soundBoolean(endpoint[field], `${at}.${field}`);
    sure(typeof endpoint.nodeName === 'string', () => `${at}.nodeName: ${shown(endpoint.nodeName)}`);
    const hint = (value: unknown, where: string) => soundWord(value, where, HINT);
    soundList(endpoint.zoneHints, `${at}.zoneHints`, hint);
    soundList(endpoint.nodeHints, `${at}.nodeHints`, hint);
  }
}

export function soundNode(node: NodeView): void {
  sure(typeof node.zone === 'string', () => `node.zone: ${shown(node.zone)}`);
  soundList(node.addresses, 'node.addresses', soundAddress);
  soundList(node.podCIDRs, 'node.podCIDRs', soundCidr);
  soundBoolean(node.isEligible, 'node.isEligible');
}

export function soundPod(pod: PodView): void {
  soundWord(pod.key, 'pod.key', KEY);
  for (const field of ['name', 'uid', 'nodeName', 'hostname', 'subdomain'] as const)
    sure(typeof pod[field] === 'string', () => `pod.${field}: ${shown(pod[field])}`);
  soundList(pod.addresses, 'pod.addresses', soundAddress);
  for (const [i, { protocol, port }] of pod.ports.entries()) {
    soundChoice(protocol, `pod.ports[${i}].protocol`, PROTOCOLS);
    soundPort(port, `pod.ports[${i}].port`);
  }
  soundTime(pod.readySince, 'pod.readySince');
}

export function soundSelecting(service: SelectingService): void {
  soundTime(service.createdAt, 'createdAt');
  soundList(service.families, 'families', (value, at) => soundChoice(value, at, ['IPv4', 'IPv6']));
  soundChoice(service.distribution, 'distribution', [undefined, ...TRAFFIC_DISTRIBUTIONS]);
  for (const [i, { name, protocol, target }] of service.ports.entries()) {
    sure(typeof name === 'string', () => `ports[${i}].name: ${shown(name)}`);
    soundChoice(protocol, `ports[${i}].protocol`, PROTOCOLS);
    if (typeof target === 'number') soundPort(target, `ports[${i}].target`);
    else soundWord(target, `ports[${i}].target`, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
  }
}

export function soundZonedNode(node: ZonedNode): void {
  soundNumber(node.milliCpu, 'milliCpu', 0, Number.MAX_SAFE_INTEGER);
  soundBoolean(node.ready, 'ready');
}

export function soundSliceObject(slice: SliceObject): void {
  soundList(slice.endpoints, 'endpoints', (value, at) =>
    sure(typeof value === 'object' && value !== null, () => `${at}: ${shown(value)}`),
  );
  sure(slice.kind === 'EndpointSlice', () => 'the kind changed');
}

export function soundEndpoints(endpoints: EndpointsObject): void {
  for (const [i, { addresses = [], notReadyAddresses = [], ports = [] }] of endpoints.subsets.entries()) {
    for (const { ip } of [...addresses, ...notReadyAddresses])
      sure(typeof ip === 'string', () => `subsets[${i}]: ${shown(ip)}`);
    for (const { port } of ports) soundPort(port, `subsets[${i}].port`);
  }
}
