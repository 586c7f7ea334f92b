/** A query of `explain`: FROM and TO as people write them, and the packet that they mean. Pure. */
import {
  type Address,
  cidrContains,
  endpointText,
  FAMILIES,
  type Family,
  familyOf,
  isLoopback,
  type Protocol,
  parseAddress,
} from '../../base/address.ts';
import { faultText, type Service, type ServicePortSpec } from '../../proxy/model/objects.ts';
import { WrongQuestion } from '../wire/envelope.ts';
import { capitalized, listText } from '../wire/format.ts';
import { type ExplainFacts, type FamilyFacts, protocolOf } from './facts.ts';
import { nearest, nearestService } from './nearest.ts';
import { isDeviceNamed } from './packet.ts';

export interface PacketSender {
  /** As the query has it. */
  readonly text: string;
  readonly what: 'pod' | 'node' | 'outside';
  readonly address: Address;
  /** The device that the packet comes in by; undefined when the node sends it. */
  readonly device: string | undefined;
  /** The mode recognises the sender as a Pod of this node (docs/semantics.md 5). */
  readonly isLocalPod: boolean;
  /** The address is an example: FROM named none. */
  readonly isExample: boolean;
}

export interface PacketDestination {
  /** As the query has it. */
  readonly text: string;
  readonly address: Address;
  readonly port: number;
  readonly protocol: Protocol;
  readonly family: Family;
}

export interface PacketQuery {
  readonly from: PacketSender;
  readonly to: PacketDestination;
}

/** A destination before its family is chosen: an address for each family that has one. */
interface WantedDestination {
  readonly addresses: readonly Address[];
  readonly port: number;
  readonly protocol: Protocol;
}

/** `flow` for UDP, which has no connections. */
export function packetWord({ protocol }: Pick<PacketDestination, 'protocol'>): string {
  return protocol === 'UDP' ? 'flow' : 'connection';
}

/** `10.96.0.10:80 (TCP)` */
export function destinationText({ address, port, protocol }: PacketDestination): string {
  return `${endpointText(address, port)} (${protocol})`;
}

/** Whether an address of this node takes node ports (docs/semantics.md 6.9, 6.10). */
export function takesNodePorts(
  address: Address,
  family: { readonly nodePortAddresses: readonly Address[]; readonly localhostNodePorts: boolean },
): boolean {
  if (isLoopback(address)) return family.localhostNodePorts && familyOf(address) === 'IPv4';
  return family.nodePortAddresses.includes(address);
}

/** Throws WrongQuestion with a sentence for the person who asked. */
export function readQuery(from: string, to: string, facts: ExplainFacts): PacketQuery {
  const wanted = readDestination(to.trim(), facts);
  const address = chosen(to, wanted, { from, facts });
  const family = familyOf(address);
  if (!facts.families.has(family)) {
    throw new WrongQuestion(`${to}: ${address} is an ${family} address, and this node serves ${served(facts)} only`);
  }
  const { port, protocol } = wanted;
  const destination = { text: to, address, port, protocol, family };
  return { from: readSender(from.trim(), destination, facts), to: destination };
}

interface Routed {
  readonly query: PacketQuery;
  /** False when the node sends and has no route to the destination. */
  readonly hasRoute: boolean;
}

/** The query with what this node's routes decide: the source address of what the node sends, and the device of other senders. */
export async function withRoute(query: PacketQuery, facts: ExplainFacts): Promise<Routed> {
  const { from, to } = query;
  const family = facts.families.get(to.family);
  const known = { query, hasRoute: true };
  if (family === undefined || facts.routeTo === undefined) return known;
  const isNamed = parseAddress(from.text) !== undefined;
  if (from.what !== 'node') {
    if (!isNamed || family.localDetector.kind !== 'interface') return known;
    const device = (await facts.routeTo(from.address))?.device;
    return device !== undefined && isDeviceNamed(family.localDetector.name, device)
      ? { query: { from: { ...from, what: 'pod', device, isLocalPod: true }, to }, hasRoute: true }
      : known;
  }
  if (isNamed) return known;
  const route = await facts.routeTo(to.address);
  if (route === undefined) return { query, hasRoute: false };
  return { query: { from: nodeSender(from.text, to, family, route.source), to }, hasRoute: true };
}

function served({ families }: ExplainFacts): string {
  return [...families.keys()].join(' and ');
}

/** The address in the family of FROM, where FROM has one; otherwise the first. */
function chosen(to: string, wanted: WantedDestination, asked: { from: string; facts: ExplainFacts }): Address {
  const isServed = (address: Address) => asked.facts.families.has(familyOf(address));
  // An address that this node does not serve is for the message alone.
  const addresses = wanted.addresses.some(isServed) ? wanted.addresses.filter(isServed) : wanted.addresses;
  const [first] = addresses;
  if (first === undefined) throw new WrongQuestion(`${to} has no address on this node`);
  const families = familiesOfSender(asked.from.trim(), asked.facts);
  const own = addresses.find((address) => families.includes(familyOf(address)));
  if (own !== undefined) return own;
  const [is] = families;
  throw new WrongQuestion(
    `FROM ${asked.from} sends by ${is} only, and TO ${to} has ${familyOf(first)} only: a connection needs both in one family`,
  );
}

/** The families in which FROM can send. */
function familiesOfSender(from: string, { pod }: ExplainFacts): readonly Family[] {
  const podKey = podKeyOf(from);
  const known = podKey === undefined ? undefined : pod?.(podKey)?.addresses;
  if (known !== undefined && known.length > 0) return known.map(familyOf);
  if (!/[.:]/.test(from) || from.includes('/')) return FAMILIES;
  return [familyOf(readAddress(from, 'FROM'))];
}

/** `shop/client` of `pod/shop/client`. */
function podKeyOf(from: string): string | undefined {
  return /^pod\/([^/]+\/[^/]+)$/.exec(from)?.[1];
}

const TO_FORMS =
  'ADDRESS:PORT, [IPV6]:PORT, svc/NAMESPACE/NAME[:PORT] or nodeport:PORT, each with /udp or /sctp if it is not TCP';

function readDestination(text: string, facts: ExplainFacts): WantedDestination {
  if (/^(svc|service|services)\//.test(text)) return destinationOf(text, facts);
  const { rest, protocol } = splitProtocol(text);
  if (/^nodeport:/i.test(rest)) return nodePort(rest, protocol ?? 'TCP', facts);
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(rest);
  const colon = rest.lastIndexOf(':');
  const isBareV6 = bracketed === null && rest.indexOf(':') !== colon;
  if (isBareV6) {
    const [address, port] = split(rest, colon);
    const isBoth = parseAddress(address) !== undefined && /^\d+$/.test(port ?? '') && !address.endsWith(':');
    const example = isBoth ? endpointText(address as Address, Number(port)) : endpointText(rest as Address, 80);
    throw new WrongQuestion(`TO ${text}: an IPv6 address is written in brackets before its port, such as ${example}`);
  }
  const [host, port] = bracketed !== null ? [bracketed[1] ?? '', bracketed[2]] : split(rest, colon);
  if (host === '') throw new WrongQuestion(`TO ${text || '""'} is no destination; write ${TO_FORMS}`);
  if (/^[a-z][-a-z0-9]*\/[a-z]/i.test(host)) {
    const guess = `svc/${host}`;
    throw new WrongQuestion(
      `TO ${text} is no destination; a Service is written ${guess}${port === undefined ? '' : `:${port}`}`,
    );
  }
  const address = readAddress(host, 'TO');
  if (port === undefined || port === '') {
    throw new WrongQuestion(`TO ${text}: the port is missing; write ${endpointText(address, 80)}, for example`);
  }
  return { addresses: [address], port: readPort(port, text), protocol: protocol ?? 'TCP' };
}

function split(text: string, colon: number): [string, string | undefined] {
  return colon < 0 ? [text, undefined] : [text.slice(0, colon), text.slice(colon + 1)];
}

/** `10.0.0.1:53/udp` → the part before, and the protocol. */
function splitProtocol(text: string): { rest: string; protocol: Protocol | undefined } {
  const slash = text.lastIndexOf('/');
  if (slash < 0) return { rest: text, protocol: undefined };
  const rest = text.slice(0, slash);
  const protocol = protocolOf(text.slice(slash + 1));
  if (protocol !== undefined) return { rest, protocol };
  if (!/:[^/]*$/.test(rest)) return { rest: text, protocol: undefined };
  throw new WrongQuestion(`TO ${text}: ${text.slice(slash + 1) || '""'} is no protocol; write /tcp, /udp or /sctp`);
}

function readPort(text: string, whole: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new WrongQuestion(`TO ${whole}: port ${text || '""'} must be a number from 1 to 65535`);
}

/** A node port at the first address of each family that takes node ports. */
function nodePort(rest: string, protocol: Protocol, { families, relay }: ExplainFacts): WantedDestination {
  const port = readPort(rest.slice(rest.indexOf(':') + 1), rest);
  const addresses = [...families.values()].flatMap(({ family, nodePortAddresses }) => {
    const relayed = protocol === 'TCP' ? relay.addresses.filter((address) => familyOf(address) === family) : [];
    return [...nodePortAddresses, ...relayed].slice(0, 1);
  });
  if (addresses.length > 0) return { addresses, port, protocol };
  throw new WrongQuestion(
    `TO ${rest}: no address of this node takes node ports; --nodeport-addresses admits none that an interface has`,
  );
}

/** The cluster IPs of a Service, and one of its ports. Throws WrongQuestion. */
function destinationOf(text: string, facts: ExplainFacts): WantedDestination {
  const parts = /^[a-z]+\/([^/:]+)\/([^/:]+)(?::([^/]*))?(?:\/(.*))?$/.exec(text);
  if (parts === null) {
    const near = nearestService(text.slice(text.indexOf('/')), keysOf(facts.objects.services()));
    const meant = near === undefined ? '' : `; did you mean svc/${near}?`;
    throw new WrongQuestion(`TO ${text}: a Service is written svc/NAMESPACE/NAME, or svc/NAMESPACE/NAME:PORT${meant}`);
  }
  const [, namespace = '', name = '', port, protocolText] = parts;
  const protocol = protocolText === undefined ? undefined : protocolOf(protocolText);
  if (protocolText !== undefined && protocol === undefined) {
    throw new WrongQuestion(`TO ${text}: ${protocolText || '""'} is no protocol; write /tcp, /udp or /sctp`);
  }
  const key = `${namespace}/${name}`;
  const service = facts.objects.service(key);
  if (service === undefined) throw new WrongQuestion(unknownService(key, facts));
  const fitting = service.ports.filter((spec) => fits(spec, port) && (protocol ?? spec.protocol) === spec.protocol);
  const tcp = fitting.filter((spec) => spec.protocol === 'TCP');
  const [found, another] = fitting.length > 1 && port !== undefined && tcp.length === 1 ? tcp : fitting;
  if (found === undefined || another !== undefined) throw new WrongQuestion(whichPort(service, port, protocolText));
  return { addresses: service.clusterIPs, port: found.port, protocol: found.protocol };
}

function fits({ name, port }: ServicePortSpec, asked: string | undefined): boolean {
  return asked === undefined || asked === name || asked === String(port);
}

/** `no Service shop/wbe; did you mean shop/web?` */
function unknownService(key: string, facts: ExplainFacts): string {
  const [fault] = facts.faultsOf('Service', key).filter(({ effect }) => effect === 'object set aside');
  if (fault !== undefined) return `Service ${key} is set aside, and nothing of it is programmed: ${faultText(fault)}`;
  const slices = facts.objects.slicesOf(key).length;
  if (slices > 0) {
    return `Service ${key} is not served: it has EndpointSlices, but it is headless, of type ExternalName, another proxy's, or deleted`;
  }
  const near = nearestService(key, keysOf(facts.objects.services()));
  return near === undefined
    ? `no Service ${key}; headless Services and those of type ExternalName are not served`
    : `no Service ${key}; did you mean ${near}?`;
}

/** `http (80/TCP)`. */
function portName({ name, port, protocol }: ServicePortSpec): string {
  return name === '' ? `${port}/${protocol}` : `${name} (${port}/${protocol})`;
}

function whichPort(service: Service, asked: string | undefined, protocol: string | undefined): string {
  const { key, ports } = service;
  const [first] = ports;
  const has = `Service ${key} has ${ports.length === 1 ? 'port' : 'ports'} ${listText(ports.map(portName))}`;
  const isTwice = ports.some((a) => ports.some((b) => a !== b && a.port === b.port));
  const example = first === undefined ? '' : `svc/${key}:${first.name === '' ? first.port : first.name}`;
  if (asked === undefined && protocol === undefined) return `${has}: name one, such as ${example}`;
  const what = [asked, protocol].filter((each) => each !== undefined).join('/');
  const isAmbiguous = asked !== undefined && ports.filter((spec) => fits(spec, asked)).length > 1;
  if (isAmbiguous && isTwice) return `${has}: name the protocol as well, such as svc/${key}:${asked}/udp`;
  const near =
    asked === undefined
      ? undefined
      : nearest(
          asked,
          ports.map(({ name }) => name).filter((name) => name !== ''),
        );
  return capitalized(
    near === undefined ? `${has}, not ${what}` : `${has}, not ${what}; did you mean svc/${key}:${near}?`,
  );
}

function* keysOf(services: Iterable<Service>): Generator<string> {
  for (const { key } of services) yield key;
}

/** An address of FROM or TO. Throws WrongQuestion. */
function readAddress(text: string, of: 'FROM' | 'TO'): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  const forms =
    of === 'FROM'
      ? 'write pod/NAMESPACE/NAME, an IP address, node or outside'
      : 'write ADDRESS:PORT, svc/NAMESPACE/NAME[:PORT] or nodeport:PORT';
  const isName = /^[a-z0-9][-a-z0-9.]*$/i.test(text) && /[a-z]/i.test(text);
  const why = isName ? 'is a name, and names are not looked up' : 'is not an IP address';
  throw new WrongQuestion(`${of} ${text === '' ? '""' : text} ${why}; ${forms}`);
}

/** The device of packets from other machines: a name that no setting matches. */
const OTHER_DEVICE = 'uplink0';

/** Addresses for documentation (RFC 5737, RFC 3849), which no Pod and no node has. */
const OUTSIDE: Readonly<Record<Family, Address>> = { IPv4: '192.0.2.77' as Address, IPv6: '2001:db8::77' as Address };

/** A sender of verify: a Pod of this node with this address, this node, or a client outside, by default with an example address. */
export function senderTo(
  to: PacketDestination,
  { what, address }: { readonly what: PacketSender['what']; readonly address?: Address | undefined },
  family: FamilyFacts,
): PacketSender {
  if (what === 'node') return nodeSender('node', to, family);
  if (what === 'pod' && address !== undefined) return podSender(address, { address, isHere: true }, family);
  const isExample = address === undefined;
  return outsideSender(address ?? 'outside', { address: address ?? OUTSIDE[to.family], isExample }, family);
}

function readSender(text: string, to: PacketDestination, facts: ExplainFacts): PacketSender {
  const family = facts.families.get(to.family);
  if (family === undefined) throw new WrongQuestion(`this node does not serve ${to.family}`);
  if (text === 'node') return nodeSender(text, to, family);
  if (text === 'outside') return outsideSender(text, { address: OUTSIDE[to.family], isExample: true }, family);
  if (text.startsWith('pod/')) return namedPod(text, to, facts);
  const word = text.includes('/') || /[.:]/.test(text) ? undefined : nearest(text.toLowerCase(), ['node', 'outside']);
  if (word !== undefined) throw new WrongQuestion(`FROM ${text} is no sender; did you mean ${word}?`);
  const address = readAddress(text, 'FROM');
  if (familyOf(address) !== to.family) {
    throw new WrongQuestion(
      `FROM ${text} is an ${familyOf(address)} address, and ${to.text} is ${to.family}: a connection needs both in one family`,
    );
  }
  if (family.localAddresses.has(address) || isLoopback(address)) return nodeSender(text, to, family, address);
  return isPodAddress(address, family, facts)
    ? podSender(text, { address, isHere: true }, family)
    : outsideSender(text, { address, isExample: false }, family);
}

function nodeSender(text: string, to: PacketDestination, family: FamilyFacts, own?: Address): PacketSender {
  const address = own ?? assumedSource(to, family);
  const isLocalPod = isInRange(address, family);
  return { text, what: 'node', address, device: undefined, isLocalPod, isExample: false };
}

/** The kernel takes the destination as the source where the node has it: loopback, its own addresses, and Services in IPVS mode. */
function assumedSource({ address }: PacketDestination, family: FamilyFacts): Address {
  const { localAddresses, installed, nodeAddresses } = family;
  if (isLoopback(address) || localAddresses.has(address) || installed.servers?.hasAddress(address) === true) {
    return address;
  }
  const own = [...nodeAddresses, ...localAddresses].filter((each) => !isLoopback(each));
  // The bridge of the Pods has an address as well, and leads to them alone.
  return own.find((each) => !isInRange(each, family)) ?? own[0] ?? address;
}

function outsideSender(text: string, who: { address: Address; isExample: boolean }, family: FamilyFacts): PacketSender {
  return { text, what: 'outside', ...who, device: OTHER_DEVICE, isLocalPod: isInRange(who.address, family) };
}

function namedPod(text: string, to: PacketDestination, facts: ExplainFacts): PacketSender {
  const key = podKeyOf(text);
  if (key === undefined) throw new WrongQuestion(`FROM ${text}: a Pod is written pod/NAMESPACE/NAME`);
  const [namespace = '', name = ''] = key.split('/');
  if (facts.pod === undefined) {
    throw new WrongQuestion(
      `${text}: this agent does not know Pods; use the Pod's address (kubectl get pod -n ${namespace} ${name} -o wide)`,
    );
  }
  const known = facts.pod(key);
  if (known === undefined) throw new WrongQuestion(`FROM ${text}: there is no Pod ${key}`);
  const address = known.addresses.find((each) => familyOf(each) === to.family);
  if (address === undefined) {
    const has =
      known.addresses.length === 0 ? 'no address yet' : `no ${to.family} address, and ${to.text} is ${to.family}`;
    throw new WrongQuestion(`FROM ${text}: the Pod has ${has}`);
  }
  const family = facts.families.get(to.family);
  if (family === undefined) throw new WrongQuestion(`this node does not serve ${to.family}`);
  // A Pod of the host's network sends as the node.
  if (family.localAddresses.has(address)) return nodeSender(text, to, family, address);
  return podSender(text, { address, isHere: known.nodeName === facts.node.name }, family);
}

function podSender(text: string, who: { address: Address; isHere: boolean }, family: FamilyFacts): PacketSender {
  const { localDetector } = family;
  const device = localDetector.kind === 'interface' && who.isHere ? deviceOf(localDetector.name) : OTHER_DEVICE;
  const isLocalPod = localDetector.kind === 'interface' ? who.isHere : isInRange(who.address, family);
  return { text, what: 'pod', address: who.address, device, isLocalPod, isExample: false };
}

/** A device with this name: of `veth+`, `veth0`. */
function deviceOf(name: string): string {
  return name.endsWith('+') ? `${name.slice(0, -1)}0` : name;
}

function isInRange(address: Address, { localDetector }: FamilyFacts): boolean {
  return localDetector.kind === 'cidr' && cidrContains(localDetector.cidr, address);
}

/** In the range by which the mode recognises Pods, or in one of the Node's own. */
function isPodAddress(address: Address, family: FamilyFacts, { node }: ExplainFacts): boolean {
  return isInRange(address, family) || node.podCIDRs.some((cidr) => cidrContains(cidr, address));
}
