/**
 * Replaces names and addresses in a recording, each by the same one everywhere. The plans differ after that, so their digests are left out.
 */

import { createHmac } from 'node:crypto';
import { type Address, addressOctets, addressOfBytes, type Cidr, parseAddress, parseCidr } from '../../base/address.ts';
import type { PackedEndpoint, PackedService } from './delta.ts';
import type { RecordedDelta, RecordedParts, RecordingLine, StartLine } from './shapes.ts';

/** Names that every cluster has, and that some rules know. */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  namespace: ['default', 'kube-system'],
  service: ['kubernetes', 'kube-dns'],
  port: ['', 'http', 'https', 'dns', 'dns-tcp', 'metrics', 'grpc'],
};

type NameKind = 'namespace' | 'service' | 'slice' | 'node' | 'zone' | 'port' | 'device' | 'uid';

class Pseudonyms {
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<NameKind, number>();

  of(kind: NameKind, name: string): string {
    if (name === '' || KNOWN[kind]?.includes(name) === true) return name;
    const id = `${kind} ${name}`;
    const known = this.#names.get(id);
    if (known !== undefined) return known;
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    this.#names.set(id, `${kind}-${count}`);
    return `${kind}-${count}`;
  }

  /** `namespace/name` */
  key(kind: NameKind, key: string): string {
    const [namespace = '', name = ''] = key.split('/');
    // A name belongs to its namespace, except for those that every cluster has.
    const own = KNOWN[kind]?.includes(name) === true ? name : this.of(kind, key);
    return `${this.of('namespace', namespace)}/${own}`;
  }
}

/** `secret`: random bytes, which decide the new addresses. */
export async function* anonymized(
  lines: AsyncIterable<RecordingLine>,
  secret: Uint8Array,
): AsyncGenerator<RecordingLine> {
  const anonymizer = new Anonymizer(secret);
  for await (const line of lines) yield anonymizer.line(line);
}

class Anonymizer {
  readonly #names = new Pseudonyms();
  readonly #addresses: AnonymousAddresses;

  constructor(secret: Uint8Array) {
    this.#addresses = new AnonymousAddresses(secret);
  }

  line(line: RecordingLine): RecordingLine {
    const service = (key: string) => (key === '' ? '' : this.#names.key('service', key));
    if (line.type === 'start') return { ...line, parts: this.#parts(line.parts), ...this.#growing(line) };
    if (line.type === 'object') return { ...line, delta: this.#delta(line.delta) };
    if (line.type === 'change') return { ...line, service: service(line.service), delta: this.#delta(line.delta) };
    if (line.type === 'started') return line;
    const { record } = line;
    const plans = record.plans.map(({ steps }) => ({ steps, digest: '' }));
    const lists = { without: record.without.map(service), services: record.services.map(service) };
    // Texts of the kernel may hold anything.
    const drift = record.drift.map((each) => ({ ...each, table: '', name: LEFT_OUT, target: '' }));
    // Names of the node's programs. Recordings from before 0.1.0 have them in the trigger.
    const by = record.by === '' ? '' : LEFT_OUT;
    const [trigger = ''] = record.trigger.split(':', 1);
    const texts = { drift, by, trigger, failed: record.failed.map(() => LEFT_OUT) };
    return { ...line, record: { ...record, ...lists, ...texts, ...this.#growing(record), plans } };
  }

  #growing({ growing }: Pick<StartLine, 'growing'>): Pick<StartLine, 'growing'> {
    if (growing === undefined) return {};
    const ramps = growing.ramps.map(({ service, address, since }) => {
      return { service: this.#names.key('service', service), address: this.#addresses.address(address), since };
    });
    return { growing: { ...growing, ramps } };
  }

  #delta(delta: RecordedDelta): RecordedDelta {
    const names = this.#names;
    if (delta.kind === 'Service') {
      const key = names.key('service', delta.key);
      if ('set' in delta.delta) return { ...delta, key, delta: { set: this.#service(delta.delta.set) } };
      const { all } = delta.delta;
      return { ...delta, key, delta: { all: all === null ? null : { ...all, ...this.#service(all) } } };
    }
    if (delta.kind === 'EndpointSlice') return this.#slice(delta);
    const { all } = delta.delta;
    if (all === null) return { ...delta, key: names.of('node', delta.key) };
    const node = {
      ...all,
      name: names.of('node', all.name),
      zone: names.of('zone', all.zone),
      addresses: this.#list(all.addresses),
      podCIDRs: this.#ranges(all.podCIDRs),
      ...(all.suspects === undefined ? {} : { suspects: all.suspects.map((name) => names.of('node', name)) }),
    };
    return { ...delta, key: names.of('node', delta.key), delta: { all: node } };
  }

  /** The given fields. */
  #service(service: Partial<PackedService>): Partial<PackedService> {
    const names = this.#names;
    const { key, uid, clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, ports, ...rest } = service;
    return {
      ...rest,
      ...(key === undefined ? {} : { key: names.key('service', key) }),
      ...(uid === undefined ? {} : { uid: uid === null ? null : names.of('uid', uid) }),
      ...(clusterIPs === undefined ? {} : { clusterIPs: this.#list(clusterIPs) }),
      ...(externalIPs === undefined ? {} : { externalIPs: this.#list(externalIPs) }),
      ...(loadBalancerIPs === undefined ? {} : { loadBalancerIPs: this.#list(loadBalancerIPs) }),
      ...(sourceRanges === undefined
        ? {}
        : { sourceRanges: sourceRanges === null ? null : this.#ranges(sourceRanges) }),
      ...(ports === undefined ? {} : { ports: this.#ports(ports) }),
    };
  }

  #slice(delta: Extract<RecordedDelta, { kind: 'EndpointSlice' }>): RecordedDelta {
    const key = this.#names.key('slice', delta.key);
    const inner = delta.delta;
    const endpoints = (list: readonly PackedEndpoint[]) => list.map((endpoint) => this.#endpoint(endpoint));
    if ('all' in inner) {
      const { all } = inner;
      if (all === null) return { ...delta, key };
      const { service, ports } = all;
      const head = { ...all, service: this.#names.key('service', service), ports: this.#ports(ports) };
      return { ...delta, key, delta: { all: { ...head, endpoints: endpoints(all.endpoints) } } };
    }
    const { service, ports } = inner.set;
    const set = {
      ...inner.set,
      ...(service === undefined ? {} : { service: this.#names.key('service', service) }),
      ...(ports === undefined ? {} : { ports: this.#ports(ports) }),
    };
    if (inner.endpoints === undefined) return { ...delta, key, delta: { set } };
    const between = endpoints(inner.endpoints.between);
    return { ...delta, key, delta: { set, endpoints: { ...inner.endpoints, between } } };
  }

  #endpoint([address, conditions, node, zones, nodes, weight]: PackedEndpoint): PackedEndpoint {
    const names = this.#names;
    const replaced = this.#addresses.address(address);
    const name = node === undefined || node === '' ? '' : names.of('node', node);
    const zoneHints = (zones ?? []).map((zone) => names.of('zone', zone));
    const nodeHints = (nodes ?? []).map((hint) => names.of('node', hint));
    if (weight !== undefined) return [replaced, conditions, name, zoneHints, nodeHints, weight];
    if (nodes !== undefined) return [replaced, conditions, name, zoneHints, nodeHints];
    if (zones !== undefined) return [replaced, conditions, name, zoneHints];
    return node === undefined ? [replaced, conditions] : [replaced, conditions, name];
  }

  #ports<P extends { readonly name: string }>(ports: readonly P[]): P[] {
    return ports.map((port) => ({ ...port, name: this.#names.of('port', port.name) }));
  }

  #list(addresses: readonly Address[]): Address[] {
    return addresses.map((address) => this.#addresses.address(address));
  }

  #ranges(cidrs: readonly Cidr[]): Cidr[] {
    return cidrs.map((cidr) => this.#addresses.cidr(cidr));
  }

  #parts(parts: RecordedParts): RecordedParts {
    return {
      ...parts,
      nodeName: this.#names.of('node', parts.nodeName),
      interfaces: this.#list(parts.interfaces),
      settings: this.#settings(parts.settings),
      config: Object.fromEntries(Object.entries(parts.config).map(([name, value]) => [name, this.#configured(value)])),
    };
  }

  #settings(settings: RecordedParts['settings']): RecordedParts['settings'] {
    const ports = (addresses: 'all' | readonly Address[]) => (addresses === 'all' ? addresses : this.#list(addresses));
    const ranges = (cidrs: 'all' | readonly Cidr[]) => (cidrs === 'all' ? cidrs : this.#ranges(cidrs));
    const shared = (one: (typeof settings.families)[number]) => ({
      localDetector: this.#detector(one.localDetector),
      nodeAddresses: this.#list(one.nodeAddresses),
    });
    if (settings.mode === 'ipvs') {
      const families = settings.families.map((one) => ({
        ...one,
        ...shared(one),
        excludeCidrs: this.#ranges(one.excludeCidrs),
        nodePortCidrs: ranges(one.nodePortCidrs),
      }));
      return { ...settings, families };
    }
    if (settings.mode === 'iptables') {
      const families = settings.families.map((one) => ({
        ...one,
        ...shared(one),
        nodePortAddresses: ports(one.nodePortAddresses),
      }));
      return { ...settings, families };
    }
    const families = settings.families.map((one) => ({
      ...one,
      ...shared(one),
      nodePortAddresses: ports(one.nodePortAddresses),
      serviceCidrs: one.serviceCidrs === null ? null : this.#ranges(one.serviceCidrs),
    }));
    return { ...settings, families };
  }

  #detector(detector: RecordedParts['settings']['families'][number]['localDetector']) {
    if (detector.kind === 'cidr') return { kind: detector.kind, cidr: this.#addresses.cidr(detector.cidr) };
    if (detector.kind === 'interface') return { kind: detector.kind, name: this.#names.of('device', detector.name) };
    return detector;
  }

  /** A value of the configuration. Words that the configuration defines stay; any other text is left out. */
  #configured(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.#configured(one));
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.#configured(one)]));
    }
    if (typeof value !== 'string' || CONFIGURED.test(value)) return value;
    const [address, cidr] = [parseAddress(value), parseCidr(value)];
    if (address !== undefined) return this.#addresses.address(address);
    return cidr === undefined ? LEFT_OUT : this.#addresses.cidr(cidr);
  }
}

const LEFT_OUT = '(left out)';
/** Durations, and words of a KubeProxyConfiguration. */
const CONFIGURED =
  /^(|[\d.]+(ns|us|ms|s|m|h)([\d.]+(ms|s|m))*|iptables|ipvs|nftables|text|json|KubeProxyConfiguration|kubeproxy\.config\.k8s\.io\/v1alpha1|ClusterCIDR|NodeCIDR|BridgeInterface|InterfaceNamePrefix|application\/[a-z.]+|rr|wrr|lc|wlc|sh|dh|sed|nq|mh)$/;

// Replaces addresses so that the real ones stay secret and their relations remain: equal ones stay equal, families stay, and two addresses
// that share the first bits share as many afterwards, so that each is in the ranges that it was in (the method of Crypto-PAn,
// https://en.wikipedia.org/wiki/Crypto-PAn).

/** First bytes that real IPv4 addresses rarely have (class E, RFC 1112), then others. */
const FIRST_V4 = [...range(240, 255), ...range(1, 127), ...range(128, 224)];

export class AnonymousAddresses {
  readonly #secret: Uint8Array;
  readonly #flips = new Map<string, Uint8Array>();
  /** New first bytes of IPv4, and first words of IPv6, by the real ones. */
  readonly #first = { v4: new Map<number, number>(), v6: new Map<number, number>() };

  /** The secret must not be in the recording. */
  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  address(address: Address): Address {
    const octets = addressOctets(address);
    return isSpecial(octets) ? address : addressOfBytes(this.#replaced(octets));
  }

  /** Very large ranges stay as they are: they reveal nothing about a network. */
  cidr(cidr: Cidr): Cidr {
    const [base = '', length = ''] = cidr.split('/');
    const real = parseAddress(base);
    const octets = real === undefined ? new Uint8Array() : addressOctets(real);
    const bits = Number(length);
    if (bits < (octets.length === 4 ? 8 : 16)) return cidr;
    return parseCidr(`${addressOfBytes(this.#replaced(octets))}/${bits}`) ?? cidr;
  }

  #replaced(octets: Uint8Array): Uint8Array {
    const kept = keptBytes(octets);
    if (kept === octets.length) return octets;
    const replaced = Uint8Array.from(octets);
    let start = kept;
    if (kept === 0) start = octets.length === 4 ? this.#firstOfV4(replaced) : this.#firstOfV6(replaced);
    for (let i = start; i < octets.length; i++) {
      const flips = this.#flipsAfter(octets.subarray(0, i));
      replaced[i] = flipped(octets[i] ?? 0, flips);
    }
    return replaced;
  }

  #firstOfV4(octets: Uint8Array): number {
    const real = octets[0] ?? 0;
    const { v4 } = this.#first;
    const used = new Set([...v4.keys(), ...v4.values(), real]);
    const fresh = v4.get(real) ?? FIRST_V4.find((first) => !used.has(first)) ?? real;
    v4.set(real, fresh);
    octets[0] = fresh;
    return 1;
  }

  #firstOfV6(octets: Uint8Array): number {
    const real = (octets[0] ?? 0) * 256 + (octets[1] ?? 0);
    const { v6 } = this.#first;
    // 3ffe::/16 and below: given back, and in no use (RFC 3701).
    let fresh = v6.get(real) ?? 0x3ffe - v6.size;
    while (fresh === real || (v6.has(fresh) && !v6.has(real))) fresh -= 1;
    v6.set(real, fresh);
    octets[0] = fresh >> 8;
    octets[1] = fresh & 0xff;
    return 2;
  }

  /** A bit for each node of the tree of the next byte's bits. */
  #flipsAfter(prefix: Uint8Array): Uint8Array {
    const name = `${prefix.join('.')}`;
    const known = this.#flips.get(name);
    if (known !== undefined) return known;
    const flips = createHmac('sha256', this.#secret).update(name).digest();
    this.#flips.set(name, flips);
    return flips;
  }
}

/** Whether this is the unspecified or the loopback address of IPv6. A range that begins with one has other addresses in it. */
function isSpecial(octets: Uint8Array): boolean {
  return octets.length === 16 && octets.subarray(0, 15).every((octet) => octet === 0) && (octets[15] ?? 0) <= 1;
}

/**
 * The number of bytes at the start with a meaning of their own: loopback, unspecified, link-local, reserved. An address of which all bytes
 * are kept stays as it is.
 */
function keptBytes(octets: Uint8Array): number {
  const [a, b] = octets;
  if (octets.length === 4) return a === 127 || a === 0 ? 4 : a === 169 && b === 254 ? 2 : 0;
  return (a === 0 && b === 0) || (a === 0xfe && b === 0x80) ? 2 : 0;
}

function flipped(byte: number, flips: Uint8Array): number {
  let [result, node] = [0, 0];
  for (let bit = 7; bit >= 0; bit--) {
    const real = (byte >> bit) & 1;
    const flip = ((flips[node >> 3] ?? 0) >> (node & 7)) & 1;
    result = result * 2 + (real ^ flip);
    node = node * 2 + 1 + real;
  }
  return result;
}

function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, i) => first + i);
}
