/** The list of Services: the search, and a Service as a row with its state and the reason. Pure. */

import { type Address, endpointText, type Family, parseAddress } from '../../base/address.ts';
import { firstLine } from '../../base/cause.ts';
import {
  type Fault,
  faultText,
  type Service,
  type ServiceKey,
  type ServicePortSpec,
  type Slice,
} from '../../proxy/model/objects.ts';
import type { Backend, Frontend, ServicePort } from '../../proxy/model/service-port.ts';
import { countText, listText } from '../wire/format.ts';
import type { ServiceRow, ServiceState } from '../wire/services.ts';

/** A word of the search. */
export interface Term {
  /** In small letters. */
  readonly text: string;
  /** The same address in canonical text, where the word is an address. */
  readonly address: Address | undefined;
  readonly isNumber: boolean;
  /** It may be the beginning of an address. */
  readonly isAddress: boolean;
}

/** Words of a search; a Service fits it when it fits each of them. */
export function termsOf(search: string): Term[] {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  return [...new Set(words)].map((text) => ({
    text,
    address: parseAddress(text),
    isNumber: /^\d+$/.test(text),
    isAddress: /^[0-9a-f:.[\]]*[.:][0-9a-f:.[\]]*$/.test(text),
  }));
}

/**
 * A word fits a Service whose namespace/name contains it, that has it as port, node port or health check port, or that has an address,
 * or an endpoint, that begins with it: `10.96.`, `10.96.0.10:80`, `[2001:db8::1]:80`. `slices` is called when nothing else fits.
 */
export function fits(terms: readonly Term[], service: Service, slices: () => readonly Slice[]): boolean {
  return terms.every(
    (term) => fitsName(term, service.key) || fitsNumber(term, service) || fitsAddress(term, service, slices),
  );
}

/** undefined when the name alone does not decide. */
export function fitsByName(terms: readonly Term[], key: string): boolean | undefined {
  if (terms.every((term) => fitsName(term, key))) return true;
  // A word that is neither a number nor an address can only be a part of the name.
  return terms.some((term) => !term.isNumber && !term.isAddress && !fitsName(term, key)) ? false : undefined;
}

function fitsName({ text }: Term, key: string): boolean {
  return key.includes(text);
}

function fitsNumber({ isNumber, text }: Term, { ports, healthCheckNodePort }: Service): boolean {
  if (!isNumber) return false;
  const number = Number(text);
  if (number === 0) return false;
  return healthCheckNodePort === number || ports.some(({ port, nodePort }) => port === number || nodePort === number);
}

function fitsAddress(term: Term, service: Service, slices: () => readonly Slice[]): boolean {
  if (!term.isAddress) return false;
  const { clusterIPs, externalIPs, loadBalancerIPs, ports } = service;
  const own = [...clusterIPs, ...externalIPs, ...loadBalancerIPs];
  if (own.some((address) => begins(term, address, ports))) return true;
  return slices().some((slice) => slice.endpoints.some(({ address }) => begins(term, address, slice.ports)));
}

function begins(
  { text, address: asked }: Term,
  address: Address,
  ports: readonly { readonly port: number }[],
): boolean {
  if (address === asked || address.startsWith(text)) return true;
  // The text of a port follows an address that the word holds as a whole.
  return text.includes(address) && ports.some(({ port }) => endpointText(address, port).startsWith(text));
}

export interface RowFacts {
  /** The ServicePorts as they are desired; none before the first sync, and in families that are not served. */
  portsOf(service: ServiceKey): readonly ServicePort[];
  /** Faults of the Service and of its EndpointSlices, and those between objects. */
  faultsOf(service: ServiceKey): readonly Fault[];
  isPending(service: ServiceKey): boolean;
  /** Services that the kernel refuses, each with the kernel's words. */
  readonly refused: ReadonlyMap<ServiceKey, string>;
  /** Families that this node serves. */
  readonly families: readonly Family[];
}

/** Addresses and ports that a row lists. */
const MAX_ADDRESSES = 4;
const MAX_PORTS = 8;

export function serviceRow(service: Service, facts: RowFacts): ServiceRow {
  const { key, type, clusterIPs, externalIPs, loadBalancerIPs, ports } = service;
  const served = facts.portsOf(key);
  return {
    service: key,
    type,
    addresses: [...new Set([...clusterIPs, ...externalIPs, ...loadBalancerIPs])].slice(0, MAX_ADDRESSES),
    ports: ports.slice(0, MAX_PORTS).map(portText),
    endpoints: new Set(served.flatMap(usedBackends).map(({ address }) => address)).size,
    ...stateOf(key, served, facts),
  };
}

/** The row of a Service that is set aside as a whole. */
export function setAsideRow(service: ServiceKey, faults: readonly Fault[]): ServiceRow {
  const state = { state: 'fault', why: faultWhy(faults) } as const;
  return { service, type: '', addresses: [], ports: [], endpoints: 0, ...state };
}

/** `80/TCP`, or `80:30080/TCP` with a node port. */
function portText({ port, nodePort, protocol }: ServicePortSpec): string {
  return nodePort === 0 ? `${port}/${protocol}` : `${port}:${nodePort}/${protocol}`;
}

/** The endpoints that new connections go to, wherever these come from. */
function usedBackends(port: ServicePort): readonly Backend[] {
  return port.frontends.flatMap((frontend) => backendsOf(port, frontend));
}

/** The endpoints of a frontend, for traffic to which its policy applies. */
export function backendsOf(port: ServicePort, { policy }: Pick<Frontend, 'policy'>): readonly Backend[] {
  return policy === 'Local' ? port.local : port.cluster;
}

function stateOf(
  key: ServiceKey,
  ports: readonly ServicePort[],
  facts: RowFacts,
): { readonly state: ServiceState; readonly why: string } {
  const refused = facts.refused.get(key);
  if (refused !== undefined) return { state: 'refused', why: refusedWhy(refused) };
  const faults = facts.faultsOf(key).filter(isHarm);
  if (faults.length > 0) return { state: 'fault', why: faultWhy(faults) };
  if (facts.isPending(key)) return { state: 'waiting', why: 'A change of it is not in the kernel yet.' };
  if (ports.length === 0) return { state: 'not proxied', why: notProxiedWhy(facts.families) };
  if (ports.some((port) => usedBackends(port).length > 0)) return { state: 'served', why: '' };
  return { state: 'no endpoints', why: noEndpointsWhy(ports) };
}

function refusedWhy(cause: string): string {
  return cause === '' ? 'The kernel refuses it.' : `The kernel refuses it: ${firstLine(cause)}`;
}

/** Whether something is not programmed because of it. */
function isHarm({ effect }: Fault): boolean {
  return effect === 'object set aside' || effect === 'part left out';
}

function faultWhy(faults: readonly Fault[]): string {
  const [first, ...others] = faults;
  if (first === undefined) return '';
  const more = others.length === 0 ? '' : `; and ${countText(others.length, 'more fault')}`;
  return `${faultText(first)}${more}`;
}

function notProxiedWhy(families: readonly Family[]): string {
  if (families.length === 0) return 'The first sync has not begun yet.';
  return `This node serves ${listText(families)}, and the Service has no cluster IP of ${families.length === 1 ? 'it' : 'them'}.`;
}

function noEndpointsWhy(ports: readonly ServicePort[]): string {
  if (!ports.some(({ hasAny }) => hasAny)) return 'No endpoint is ready. New connections are refused.';
  return 'Its policy is Local, and none of its endpoints is on this node. New connections are dropped.';
}
