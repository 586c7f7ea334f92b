/**
 * Admission of manifests, which no API server checks: refuses addresses that mean another machine on every node, or no machine, and
 * node ports outside the range. Pure.
 *
 * Kubernetes refuses such an address in Endpoints, EndpointSlices and spec.externalIPs (ValidateNonSpecialIP in
 * pkg/apis/core/validation: unspecified, loopback, link-local), and takes cluster IPs and node ports from its own ranges.
 * slicewire also refuses all multicast and the broadcast address, and checks the addresses of load balancers.
 * Otherwise a manifest could lead clients to programs that a node serves to itself alone (CVE-2020-8558, CVE-2021-25737).
 */

import { type Address, parseAddress } from '../../../base/address.ts';
import { compact, type Fault, type Service, type Slice } from '../../../proxy/model/objects.ts';
import { isInRange, type PortRange, rangeText } from '../../../proxy/model/port-range.ts';
import { specialKind } from '../../../proxy/model/special-address.ts';
import { FaultList } from '../../api/decode/checks.ts';
import type { ApiService, ApiSlice } from '../../api/decode/schema.ts';
import type { EndpointsObject, PodView } from '../../producers/api-objects.ts';
import type { DecodedManifest, ManifestKind } from './kinds.ts';

const INSTEAD = 'give an address that other machines can reach';

/** The problem of an address that can be neither a frontend nor an endpoint; undefined for any other address. */
export function specialProblem(address: Address): string | undefined {
  const kind = specialKind(address);
  return kind === undefined ? undefined : `must not be ${kind}; ${INSTEAD}`;
}

export interface AdmissionInput {
  readonly kind: ManifestKind;
  readonly key: string;
  /** The object as it was received. */
  readonly object: unknown;
  readonly nodePorts: PortRange;
}

/** The decoded object without its refused parts. */
export function admitted(decoded: DecodedManifest, input: AdmissionInput): DecodedManifest {
  const { event, input: made } = decoded;
  const faults = new FaultList(input.kind, input.key, input.object);
  const withFaults = (now: DecodedManifest): DecodedManifest => {
    if (faults.list.length === 0 || !('faults' in now.event)) return decoded;
    return { ...now, event: { ...now.event, faults: [...now.event.faults, ...faults.list] } };
  };
  // The object was decoded, so it has the shape of its kind.
  if (event.kind === 'service' && event.service !== undefined) {
    const service = admittedService(event.service, input, faults);
    const isAside = service === undefined && made?.kind === 'Service';
    return withFaults({
      event: { ...event, service },
      ...(made === undefined ? {} : { input: isAside ? { kind: 'Service', value: undefined } : made }),
    });
  }
  if (event.kind === 'slice' && event.slice !== undefined) {
    return withFaults({ event: { ...event, slice: admittedSlice(event.slice, input.object as ApiSlice, faults) } });
  }
  if (made?.kind === 'Pod' && made.value !== undefined) {
    return withFaults({ event, input: { kind: 'Pod', value: admittedPod(made.value, input.object, faults) } });
  }
  if (made?.kind === 'Endpoints' && made.value !== undefined) {
    return withFaults({ event, input: { kind: 'Endpoints', value: admittedEndpoints(made.value, faults) } });
  }
  return decoded;
}

function admittedService(service: Service, { object, nodePorts }: AdmissionInput, faults: FaultList) {
  const { spec, status } = object as ApiService;
  for (const [i, text] of (spec.clusterIPs?.length ? spec.clusterIPs : [spec.clusterIP ?? '']).entries()) {
    const problem = problemOf(text);
    const field = spec.clusterIPs?.length ? `spec.clusterIPs[${i}]` : 'spec.clusterIP';
    if (problem !== undefined) faults.setAside(field, text, problem);
  }
  if (faults.list.length > 0) return undefined;
  for (const [i, text] of (spec.externalIPs ?? []).entries()) leaveOut(faults, `spec.externalIPs[${i}]`, text);
  for (const [i, { ip }] of (status?.loadBalancer?.ingress ?? []).entries()) {
    leaveOut(faults, `status.loadBalancer.ingress[${i}].ip`, ip ?? '');
  }
  const isOutside = (port: number) => port !== 0 && !isInRange(nodePorts, port);
  const outside = `is outside --service-node-port-range, which is ${rangeText(nodePorts)}; choose a port in the range, or widen the range`;
  for (const [i, { nodePort }] of (spec.ports ?? []).entries()) {
    if (isOutside(nodePort ?? 0)) faults.leaveOut(`spec.ports[${i}].nodePort`, nodePort, outside);
  }
  const { healthCheckNodePort } = service;
  if (isOutside(healthCheckNodePort)) faults.leaveOut('spec.healthCheckNodePort', healthCheckNodePort, outside);
  return {
    ...service,
    externalIPs: compact(service.externalIPs.filter(isUsable)),
    loadBalancerIPs: compact(service.loadBalancerIPs.filter(isUsable)),
    ports: service.ports.map((port) => (isOutside(port.nodePort) ? { ...port, nodePort: 0 } : port)),
    healthCheckNodePort: isOutside(healthCheckNodePort) ? 0 : healthCheckNodePort,
  };
}

function admittedSlice(slice: Slice, api: ApiSlice, faults: FaultList): Slice {
  for (const [i, { addresses }] of (api.endpoints ?? []).entries()) {
    leaveOut(faults, `endpoints[${i}].addresses[0]`, addresses?.[0] ?? '', 'endpoint');
  }
  if (faults.list.length === 0) return slice;
  return { ...slice, endpoints: compact(slice.endpoints.filter(({ address }) => isUsable(address))) };
}

function admittedPod(pod: PodView, object: unknown, faults: FaultList): PodView {
  if (pod.addresses.length === 0) return pod;
  const { podIP, podIPs } = (object as { status: { podIP?: string; podIPs?: readonly { ip?: string }[] } }).status;
  if ((podIPs ?? []).length === 0) leaveOut(faults, 'status.podIP', podIP ?? '');
  for (const [i, { ip }] of (podIPs ?? []).entries()) leaveOut(faults, `status.podIPs[${i}].ip`, ip ?? '');
  return { ...pod, addresses: compact(pod.addresses.filter(isUsable)) };
}

function admittedEndpoints(endpoints: EndpointsObject, faults: FaultList): EndpointsObject {
  const subsets = (endpoints.subsets ?? []).map((subset, i) => {
    const usable = (of: 'addresses' | 'notReadyAddresses') => {
      const list = subset[of]?.filter(({ ip }, j) => leaveOut(faults, `subsets[${i}].${of}[${j}].ip`, ip));
      return list === undefined ? {} : { [of]: list };
    };
    return { ...subset, ...usable('addresses'), ...usable('notReadyAddresses') };
  });
  return { ...endpoints, subsets };
}

/** Whether the address is admitted. The decoder has reported invalid addresses already. */
function leaveOut(faults: FaultList, field: string, text: string, part?: Fault['part']): boolean {
  const problem = problemOf(text);
  if (problem !== undefined) faults.leaveOut(field, text, problem, part);
  return problem === undefined;
}

function problemOf(text: string): string | undefined {
  const address = parseAddress(text);
  return address === undefined ? undefined : specialProblem(address);
}

function isUsable(address: Address): boolean {
  return specialProblem(address) === undefined;
}
