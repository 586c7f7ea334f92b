/** Reads FROM: who sends, from which address, and by which device. Pure. */
import { type Address, cidrContains, type Family, familyOf, isLoopback, parseAddress } from '../../base/address.ts';
import { WrongQuestion } from '../wire/problem.ts';
import type { ExplainFacts, FamilyFacts } from './facts.ts';
import { nearest } from './nearest.ts';
import type { AskedDestination, PacketQuestion, PacketSender } from './packet-question.ts';

/** A device whose name no setting means: where packets come in from other machines. */
const OTHER_DEVICE = 'uplink0';

/** Addresses for documentation (RFC 5737, RFC 3849), which no Pod and no node has. */
const OUTSIDE: Readonly<Record<Family, Address>> = { IPv4: '192.0.2.77' as Address, IPv6: '2001:db8::77' as Address };

export function readSender(text: string, to: AskedDestination, facts: ExplainFacts): PacketSender {
  const family = facts.families.get(to.family);
  if (family === undefined) throw new WrongQuestion(`this node does not serve ${to.family}`);
  if (text === 'node') return theNode(text, to, family);
  if (text === 'outside') return outside(text, { address: OUTSIDE[to.family], isExample: true }, family);
  if (text.startsWith('pod/')) return aPod(text, to, facts);
  const word = text.includes('/') || /[.:]/.test(text) ? undefined : nearest(text.toLowerCase(), ['node', 'outside']);
  if (word !== undefined) throw new WrongQuestion(`FROM ${text} is no sender; did you mean ${word}?`);
  const address = readAddress(text, 'FROM');
  if (familyOf(address) !== to.family) {
    throw new WrongQuestion(
      `FROM ${text} is an ${familyOf(address)} address, and ${to.text} is ${to.family}: a connection needs both in one family`,
    );
  }
  if (family.localAddresses.has(address) || isLoopback(address)) return theNode(text, to, family, address);
  return isPodAddress(address, family, facts)
    ? pod(text, { address, isHere: true }, family)
    : outside(text, { address, isExample: false }, family);
}

function theNode(text: string, to: AskedDestination, family: FamilyFacts, own?: Address): PacketSender {
  const address = own ?? assumedSource(to, family);
  const isLocalPod = isInRange(address, family);
  return { text, what: 'node', address, device: undefined, isLocalPod, isExample: false };
}

/** The kernel takes the destination as the source where the node has it: loopback, its own addresses, and Services in IPVS mode. */
function assumedSource({ address }: AskedDestination, family: FamilyFacts): Address {
  const { localAddresses, stands, nodeAddresses } = family;
  if (isLoopback(address) || localAddresses.has(address) || stands.servers?.addresses.has(address) === true) {
    return address;
  }
  const own = [...nodeAddresses, ...localAddresses].filter((each) => !isLoopback(each));
  // The bridge of the Pods has an address as well, and leads to them alone.
  return own.find((each) => !isInRange(each, family)) ?? own[0] ?? address;
}

/** The same question as this node's routes tell it: the source of what the node sends, and the device by which others come in. */
export async function asRouted(question: PacketQuestion, facts: ExplainFacts): Promise<Routed> {
  const { from, to } = question;
  const family = facts.families.get(to.family);
  const known = { question, hasRoute: true };
  if (family === undefined || facts.routeTo === undefined) return known;
  const isNamed = parseAddress(from.text) !== undefined;
  if (from.what !== 'node') {
    if (!isNamed || family.localDetector.kind !== 'interface') return known;
    const device = (await facts.routeTo(from.address))?.device;
    return device !== undefined && fits(family.localDetector.name, device)
      ? { question: { from: { ...from, what: 'pod', device, isLocalPod: true }, to }, hasRoute: true }
      : known;
  }
  if (isNamed) return known;
  const route = await facts.routeTo(to.address);
  if (route === undefined) return { question, hasRoute: false };
  return { question: { from: theNode(from.text, to, family, route.source), to }, hasRoute: true };
}

/** Whether a device has a name of iptables' form, such as `veth+`. */
function fits(name: string, device: string): boolean {
  return name.endsWith('+') ? device.startsWith(name.slice(0, -1)) : device === name;
}

interface Routed {
  readonly question: PacketQuestion;
  /** False: this node has no route to the destination. */
  readonly hasRoute: boolean;
}

function outside(text: string, who: { address: Address; isExample: boolean }, family: FamilyFacts): PacketSender {
  return { text, what: 'outside', ...who, device: OTHER_DEVICE, isLocalPod: isInRange(who.address, family) };
}

function aPod(text: string, to: AskedDestination, facts: ExplainFacts): PacketSender {
  const key = /^pod\/([^/]+\/[^/]+)$/.exec(text)?.[1];
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
  if (family.localAddresses.has(address)) return theNode(text, to, family, address);
  return pod(text, { address, isHere: known.nodeName === facts.node.name }, family);
}

function pod(text: string, who: { address: Address; isHere: boolean }, family: FamilyFacts): PacketSender {
  const { localDetector } = family;
  const device = localDetector.kind === 'interface' && who.isHere ? deviceOf(localDetector.name) : OTHER_DEVICE;
  const isLocalPod = localDetector.kind === 'interface' ? who.isHere : isInRange(who.address, family);
  return { text, what: 'pod', address: who.address, device, isLocalPod, isExample: false };
}

/** `veth+` matches every device whose name begins so. */
function deviceOf(name: string): string {
  return name.endsWith('+') ? `${name.slice(0, -1)}0` : name;
}

function isInRange(address: Address, { localDetector }: FamilyFacts): boolean {
  return localDetector.kind === 'cidr' && cidrContains(localDetector.cidr, address);
}

/** By the range of Pods, the Node's, or an endpoint on this node. */
function isPodAddress(address: Address, family: FamilyFacts, { node }: ExplainFacts): boolean {
  return isInRange(address, family) || node.podCIDRs.some((cidr) => cidrContains(cidr, address));
}

// The addresses of FROM and TO. Pure.

/** An address of FROM or TO. Throws WrongQuestion. */
export function readAddress(text: string, of: 'FROM' | 'TO'): Address {
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
