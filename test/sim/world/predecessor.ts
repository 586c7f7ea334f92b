/**
 * The state of a simulated kernel before the first agent, or beside one that runs: that of kube-proxy, which served the cluster IPs of the first objects, in the
 * layouts of its modes (its pkg/proxy/iptables, pkg/proxy/ipvs, pkg/proxy/nftables), without the parts that other frontends need; or the table of an
 * earlier version of the agent.
 */
import { verdict } from '../../../native/nft/expressions.ts';
import { addChain, addRule, addTable } from '../../../native/nft/table-requests.ts';
import { type Address, FAMILIES, type Family, familyOf } from '../../../src/base/address.ts';
import type { Backend, Frontend, ServicePort } from '../../../src/proxy/model/service-port.ts';
import { endpointChain, serviceChains } from '../../../src/proxy/modes/netfilter/balancer.ts';
import { oneIn, type Table } from '../../../src/proxy/modes/netfilter/rules.ts';
import { serverKey } from '../../../src/proxy/modes/virtual-servers/tracked-objects.ts';
import { olderBatches } from '../../helpers/kernel/older-table.ts';
import type { Predecessor } from '../history/actions.ts';
import { editAs } from '../kernel/iptables/others.ts';
import { targetOf } from '../kernel/iptables/restore.ts';
import { isBuiltIn } from '../kernel/iptables/rule-store.ts';
import type { SimIpvs } from '../kernel/ipvs/ipvs.ts';
import type { SimKernel } from '../kernel/kernel.ts';

const WRITER = { pid: 5_999_999, name: 'kube-proxy' };
const TABLE = 'kube-proxy';
/** Bytes for the answers. */
const ROOM = 1 << 26;
const CANARY = 'KUBE-PROXY-CANARY';
const CLUSTER_IPS = 'KUBE-CLUSTER-IP';
const POD_RANGES = { IPv4: '10.244.0.0/16', IPv6: 'fd00:244::/48' } as const;

/** A frontend and the endpoints that its traffic policy takes. */
interface Proxied {
  readonly port: ServicePort;
  readonly frontend: Frontend;
  readonly endpoints: readonly Backend[];
}

/** Writes for these ports, again where it did so before. Returns the addresses of the frontends that are served now. */
export function writeAsPredecessor(
  kernel: SimKernel,
  predecessor: Predecessor,
  ports: readonly ServicePort[],
): ReadonlySet<string> {
  const proxied = ports.flatMap((port) =>
    port.frontends
      .filter(({ role }) => role === 'cluster-ip' && port.affinitySeconds === 0)
      .map((frontend) => ({ port, frontend, endpoints: frontend.policy === 'Local' ? port.local : port.cluster }))
      .filter(({ endpoints }) => endpoints.length > 0),
  );
  if (predecessor === 'earlier version') {
    leaveOlderTable(kernel);
    return new Set();
  }
  for (const family of FAMILIES) {
    const ofFamily = proxied.filter(({ port }) => port.family === family);
    if (predecessor === 'iptables') leaveRules(kernel, family, ofFamily);
    else if (predecessor === 'ipvs') leaveServers(kernel, family, ofFamily);
    else leaveTable(kernel, family);
  }
  return predecessor === 'nftables' ? new Set() : new Set(proxied.map(({ frontend }) => frontend.address ?? ''));
}

/** Its remains that `verify` does not know, for people. */
export function leftOf({ nft }: SimKernel): readonly string[] {
  return FAMILIES.filter((family) => nft.tables(family).includes(TABLE)).map((family) => `${family} table ${TABLE}`);
}

type Chains = Readonly<Record<Table, ReadonlyMap<string, readonly string[]>>>;

function write(kernel: SimKernel, family: Family, chains: Chains): void {
  for (const table of ['mangle', 'nat', 'filter'] as const) {
    editAs(kernel.iptables, {
      ...{ family, table, writer: WRITER },
      edit(all) {
        for (const [name, rules] of chains[table]) {
          const before = isBuiltIn(table, name) ? (all.get(name) ?? []) : [];
          all.set(name, [...rules.filter((rule) => !before.includes(rule)), ...before]);
        }
        deleteUnused(all, chains[table]);
      },
    });
  }
}

/** Chains of Services that nothing leads to any more, whoever wrote them. */
function deleteUnused(all: Map<string, readonly string[]>, wanted: ReadonlyMap<string, readonly string[]>): void {
  for (let isDone = false; !isDone; ) {
    const targets = new Set([...all.values()].flat().map(targetOf));
    const unused = [...all.keys()].filter(
      (name) => /^KUBE-S(?:VC|EP)-/.test(name) && !wanted.has(name) && !targets.has(name),
    );
    for (const name of unused) all.delete(name);
    isDone = unused.length === 0;
  }
}

const MASQUERADE = '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully';
const FORWARDED = [
  '-m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
  '-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
];
const PORTALS = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES';

/** Of all modes with iptables rules. */
const COMMON = {
  'KUBE-MARK-MASQ': ['-j MARK --set-xmark 0x4000/0x4000'],
  POSTROUTING: ['-m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING'],
  PREROUTING: [PORTALS],
  OUTPUT: [PORTALS],
  [CANARY]: [],
} as const;

function leaveRules(kernel: SimKernel, family: Family, proxied: readonly Proxied[]): void {
  const nat = new Map<string, readonly string[]>([
    ...Object.entries(COMMON),
    ['KUBE-POSTROUTING', ['-m mark ! --mark 0x4000/0x4000 -j RETURN', '-j MARK --set-xmark 0x4000/0x0', MASQUERADE]],
    ['KUBE-NODEPORTS', []],
  ]);
  const services: string[] = [];
  for (const { port, frontend, endpoints } of proxied) {
    const protocol = port.protocol.toLowerCase();
    const chain = serviceChains(port.id, port.protocol)('SVC');
    const match = `-d ${frontend.address}/${family === 'IPv4' ? 32 : 128} -p ${protocol} -m comment --comment "${port.id} cluster IP" -m ${protocol} --dport ${frontend.port}`;
    services.push(`${match} -j ${chain}`);
    const rules = [`! -s ${POD_RANGES[family]} ${match} -j KUBE-MARK-MASQ`];
    for (const [i, { address, text: endpoint }] of endpoints.entries()) {
      const target = endpointChain(port.id, port.protocol, endpoint);
      const left = endpoints.length - i;
      const chance = left > 1 ? ` ${oneIn(left)}` : '';
      rules.push(`-m comment --comment "${port.id} -> ${endpoint}"${chance} -j ${target}`);
      nat.set(target, [
        `-s ${address}/${family === 'IPv4' ? 32 : 128} -m comment --comment "${port.id}" -j KUBE-MARK-MASQ`,
        `-p ${protocol} -m comment --comment "${port.id}" -m ${protocol} -j DNAT --to-destination ${endpoint}`,
      ]);
    }
    nat.set(chain, rules);
  }
  nat.set('KUBE-SERVICES', [
    ...services,
    '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
  ]);
  const filter = new Map<string, readonly string[]>([
    [CANARY, []],
    ['KUBE-EXTERNAL-SERVICES', []],
    ['KUBE-NODEPORTS', []],
    ['KUBE-PROXY-FIREWALL', []],
    ['KUBE-SERVICES', []],
    ['KUBE-FORWARD', ['-m conntrack --ctstate INVALID -j DROP', ...FORWARDED]],
    ['FORWARD', ['-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD']],
  ]);
  write(kernel, family, { nat, filter, mangle: new Map([[CANARY, []]]) });
}

function leaveServers(kernel: SimKernel, family: Family, proxied: readonly Proxied[]): void {
  const { ipvs } = kernel;
  const set = family === 'IPv4' ? CLUSTER_IPS : `KUBE-6-${CLUSTER_IPS.slice('KUBE-'.length)}`;
  const wanted = new Set(proxied.map(({ port, frontend }) => keyOf(port, frontend)));
  const addresses = new Set(proxied.map(({ frontend }) => frontend.address));
  ipvs.write({ kind: 'add-device' });
  if (!ipvs.state.sets.has(set))
    ipvs.write({ kind: 'add-set', set: { name: set, type: 'hash:ip,port', family, maxelem: 65_536 } });
  removeServers(ipvs, family, { set, wanted, addresses });
  for (const { port, frontend, endpoints } of proxied) {
    const { address } = frontend;
    if (address === undefined) continue;
    const entry = keyOf(port, frontend);
    const server = { protocol: port.protocol, address, port: frontend.port, scheduler: 'rr', flags: 0, timeout: 0 };
    ipvs.write({ kind: 'add-server', server });
    for (const destination of ipvs.state.servers.get(serverKey(server))?.destinations.values() ?? [])
      if (!endpoints.some(({ address: to, port: number }) => to === destination.address && number === destination.port))
        ipvs.write({ kind: 'remove-destination', server, destination });
    for (const { address: to, port: number } of endpoints)
      ipvs.write({ kind: 'add-destination', server, destination: { address: to, port: number, weight: 1 } });
    ipvs.write({ kind: 'add-entry', set, entry });
    ipvs.write({ kind: 'add-address', address });
  }
  const nat = new Map<string, readonly string[]>([
    ...Object.entries(COMMON),
    [
      'KUBE-SERVICES',
      [
        `! -s ${POD_RANGES[family]} -m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" -m set --match-set ${set} dst,dst -j KUBE-MARK-MASQ`,
        '-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
        `-m set --match-set ${set} dst,dst -j ACCEPT`,
      ],
    ],
    ['KUBE-NODE-PORT', []],
    ['KUBE-LOAD-BALANCER', ['-j KUBE-MARK-MASQ']],
    ['KUBE-POSTROUTING', ['-m mark ! --mark 0x4000/0x4000 -j RETURN', '-j MARK --set-xmark 0x4000/0x0', MASQUERADE]],
  ]);
  const filter = new Map<string, readonly string[]>([
    [CANARY, []],
    ['KUBE-FORWARD', FORWARDED],
    ['FORWARD', ['-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD']],
  ]);
  write(kernel, family, { nat, filter, mangle: new Map([[CANARY, []]]) });
}

/** As the entry of a set. */
function keyOf(
  { protocol }: Pick<ServicePort, 'protocol'>,
  { address, port }: Pick<Frontend, 'address' | 'port'>,
): string {
  return `${address ?? ''},${protocol.toLowerCase()}:${port}`;
}

/** What it does not want, whoever wrote it (its cleanLegacyService): servers of its device, addresses, and entries of its set. */
function removeServers(
  ipvs: SimIpvs,
  family: Family,
  {
    set,
    wanted,
    addresses,
  }: {
    readonly set: string;
    readonly wanted: ReadonlySet<string>;
    readonly addresses: ReadonlySet<string | undefined>;
  },
): void {
  const { state } = ipvs;
  const isOfFamily = (address: Address) => familyOf(address) === family;
  for (const entry of state.sets.get(set)?.entries ?? [])
    if (!wanted.has(entry)) ipvs.write({ kind: 'remove-entry', set, entry });
  for (const { server } of [...state.servers.values()])
    if (isOfFamily(server.address) && state.addresses.has(server.address) && !wanted.has(keyOf(server, server)))
      ipvs.write({ kind: 'remove-server', server });
  for (const address of [...state.addresses].filter(isOfFamily))
    if (!addresses.has(address)) ipvs.write({ kind: 'remove-address', address });
}

/** Its Services are none of the history: nothing of them may be left. */
function leaveOlderTable({ nft }: SimKernel): void {
  const socket = nft.state.socket(ROOM);
  for (const batch of olderBatches()) nft.state.take(elsewhere(batch), socket, { pid: WRITER.pid, name: 'slicewire' });
}

/** With cluster IPs of 10.98.0.0/24 instead of 10.96.0.0/24, where a history has its own. */
function elsewhere(batch: Buffer): Buffer {
  const [from, to] = [Buffer.from([10, 96, 0]), Buffer.from([10, 98, 0])];
  for (let at = batch.indexOf(from); at >= 0; at = batch.indexOf(from, at + to.length)) to.copy(batch, at);
  return batch;
}

/** Its packets are not followed: only that it goes. */
function leaveTable({ nft }: SimKernel, family: Family): void {
  if (nft.tables(family).includes(TABLE)) return;
  const id = { family, table: TABLE };
  nft.others.writeAs(WRITER, [
    addTable(id, 'rules for kube-proxy'),
    addChain(id, 'services'),
    addChain(id, 'nat-prerouting', { type: 'nat', hook: 'prerouting', priority: -100 }),
    addRule(id, 'nat-prerouting', [verdict({ kind: 'jump', chain: 'services' })], ''),
  ]);
}
