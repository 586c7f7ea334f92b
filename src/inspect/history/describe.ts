/** Objects as lines for people. */
import type { Service, Slice } from '../../proxy/model/objects.ts';
import { endpointName, servicePortText, slicePortText, stateOf } from './changes.ts';

/** Most endpoints of a slice that have a line of their own. */
const ENDPOINTS = 100;

/** A Service: a line for each field that is set. */
export function serviceLines(service: Service): string[] {
  const { type, clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, ports, affinitySeconds } = service;
  const listed = (field: string, values: readonly string[]) =>
    values.length === 0 ? [] : [`${field}: ${values.join(', ')}`];
  return [
    `spec.type: ${type}`,
    ...listed('spec.clusterIPs', clusterIPs),
    ...ports.map((port) => `port ${`${port.name} ${servicePortText(port)}`.trim()}`),
    ...listed('spec.externalIPs', externalIPs),
    ...listed('status.loadBalancer.ingress', loadBalancerIPs),
    ...(sourceRanges === undefined
      ? []
      : [`spec.loadBalancerSourceRanges: ${sourceRanges.join(', ') || 'none valid'}`]),
    ...(service.internalTrafficPolicy === 'Local' ? ['spec.internalTrafficPolicy: Local'] : []),
    ...(service.externalTrafficPolicy === 'Local' ? ['spec.externalTrafficPolicy: Local'] : []),
    ...(affinitySeconds === 0 ? [] : [`spec.sessionAffinity: ClientIP, ${affinitySeconds} s`]),
    ...(service.healthCheckNodePort === 0 ? [] : [`spec.healthCheckNodePort: ${service.healthCheckNodePort}`]),
  ];
}

/** A slice: its ports, and a line for each endpoint. */
export function sliceLines(slice: Slice): string[] {
  const ports = slice.ports.map((port) => `port ${`${port.name} ${slicePortText(port)}`.trim()}`);
  const lines = slice.endpoints.slice(0, ENDPOINTS).map((endpoint) => {
    const { nodeName, zoneHints, nodeHints, address } = endpoint;
    const parts = [
      `${endpointName(address, slice)} ${stateOf(endpoint)}`,
      ...(nodeName === '' ? [] : [`node ${nodeName}`]),
      ...(zoneHints.length === 0 ? [] : [`hints of zones ${zoneHints.join(', ')}`]),
      ...(nodeHints.length === 0 ? [] : [`hints of nodes ${nodeHints.join(', ')}`]),
    ];
    return parts.join('; ');
  });
  const more = slice.endpoints.length - lines.length;
  return [...ports, ...lines, ...(more > 0 ? [`and ${more} more endpoints`] : [])];
}
