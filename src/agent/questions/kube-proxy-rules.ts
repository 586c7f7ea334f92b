/** The rules of kube-proxy on this node, read for a question. Nothing is written. */
import { type Address, addressBytes, FAMILIES, type Family } from '../../base/address.ts';
import { breath } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import { WrongQuestion } from '../../inspect/wire/envelope.ts';
import type { AnyTable, Latin1Bytes, LookedUpTable, NftSet } from '../../kernel/nftables-kernel.ts';
import { type NftNetlink, openNftables } from '../../kernel/nftables-netlink.ts';
import type { FrontendAt } from '../../proxy/model/claims.ts';
import { MODES } from '../../proxy/model/modes.ts';
import type { Memories, ModeInspection } from '../../proxy/modes/inspection.ts';
import { amongOthers, everyChain } from '../../proxy/modes/netfilter/every-chain.ts';
import { NODE_PORTS, SERVICES } from '../../proxy/modes/netfilter/names.ts';
import { frontendOfRule } from '../../proxy/modes/netfilter/rules-view.ts';
import { anyTableView, lookedUpView } from '../../proxy/modes/nft-table/any-table.ts';
import { frontendOf } from '../../proxy/modes/nftables/table-layout.ts';
import type { FamilyView, RulesView } from '../../proxy/modes/view.ts';
import { setName } from '../../proxy/modes/virtual-servers/sets.ts';
import { realPlatform } from '../platform.ts';
import { PROXY_TABLES } from '../predecessors.ts';
import { openTools } from '../usable-families.ts';
import { NO_RULES } from './kube-proxy-mode.ts';

export interface KubeProxyRules extends Pick<ModeInspection, 'remembered'> {
  readonly views: readonly FamilyView[];
  /** The destinations that the rules name. */
  served(): Promise<readonly FrontendAt[]>;
  /** The rules of slicewire in the place of kube-proxy's: where packets should go, with all that other programs do to them. */
  replacedBy(own: readonly FamilyView[]): readonly FamilyView[];
}

interface RulesInput {
  /** In the mode of kube-proxy. */
  readonly config: Config;
  /** Of slicewire in the same mode: virtual servers and sets have the same form. */
  readonly inspection: ModeInspection;
  readonly signal: AbortSignal;
}

/** Throws WrongQuestion where kube-proxy has none in that mode, and the errors of reading the kernel. */
export async function kubeProxyRules(input: RulesInput): Promise<KubeProxyRules> {
  return MODES[input.config.mode].rulesBy === 'nftables' ? await ofTables() : await ofChains(input);
}

/** Tables of nftables mode, by the names that kube-proxy has given its table since 1.29. */
async function ofTables(): Promise<KubeProxyRules> {
  const kernel = openNftables();
  try {
    const views: FamilyView[] = [];
    const served: FrontendAt[] = [];
    let isThere = false;
    for (const family of FAMILIES) {
      const table = await kernel.readTable(family, PROXY_TABLES.kubeProxy);
      views.push({ family, table: anyTableView(PROXY_TABLES.kubeProxy, table ?? NO_TABLE, family) });
      if (table === undefined) continue;
      isThere = true;
      for (const set of table.sets.values()) {
        for (const { key } of table.elements.get(set.name) ?? []) {
          const frontend = destinationOf(set, key, family);
          if (frontend !== undefined) served.push(frontend);
        }
      }
    }
    if (!isThere) throw new WrongQuestion(NO_RULES);
    return {
      views,
      served: () => Promise.resolve(served),
      remembered: rememberedInTable,
      replacedBy: (own) => own,
    };
  } finally {
    kernel.close();
  }
}

/** The maps of verdicts in which kube-proxy has its Services and node ports, with and without endpoints. */
const MAPS = ['service-ips', 'service-nodeports', 'no-endpoint-services', 'no-endpoint-nodeports'] as const;

/** Tables of nftables mode that are read where a packet passes: they are as they are at each walk. Throws as `kubeProxyRules`. */
export function lookedUpRules(
  kernel: Pick<NftNetlink, 'expiration'>,
  tables: readonly { readonly family: Family; readonly table: LookedUpTable }[],
): KubeProxyRules {
  if (!tables.some(({ table }) => table.isThere)) throw new WrongQuestion(NO_RULES);
  return {
    views: tables.map(({ family, table }) => ({ family, table: lookedUpView(PROXY_TABLES.kubeProxy, table, family) })),
    async served() {
      const served: FrontendAt[] = [];
      for (const { family, table } of tables) {
        for (const name of MAPS) {
          const set = table.set(name);
          if (set === undefined) continue;
          for (const { key } of table.elements(name)) {
            const frontend = destinationOf(set, key, family);
            if (frontend !== undefined) served.push(frontend);
          }
          await breath();
        }
      }
      return served;
    },
    remembered: (...asked) => rememberedIn(kernel, ...asked),
    replacedBy: (own) => own,
  };
}

/** Of a family in which kube-proxy has none: its Services are not served. */
const NO_TABLE: AnyTable = { chains: new Map(), sets: new Map(), elements: new Map() };

/** The destination that the key of a map of verdicts names, in kube-proxy's maps of Services and node ports. */
function destinationOf(set: NftSet, key: Latin1Bytes, family: Family): FrontendAt | undefined {
  const kinds = set.key.join(' ');
  if (set.data !== 'verdict' || (kinds !== 'address protocol port' && kinds !== 'protocol port')) return undefined;
  const { protocol, ...at } = frontendOf(set, key, family);
  return protocol && { family, protocol, ...at };
}

async function rememberedInTable(
  family: Family,
  memories: Memories,
  client: Address,
): Promise<ReadonlyMap<string, number>> {
  if (memories.lists.length === 0) return new Map();
  const kernel = openNftables();
  try {
    return await rememberedIn(kernel, family, memories, client);
  } finally {
    kernel.close();
  }
}

function rememberedIn(
  kernel: Pick<NftNetlink, 'expiration'>,
  family: Family,
  { lists }: Memories,
  client: Address,
): Promise<ReadonlyMap<string, number>> {
  const left = new Map<string, number>();
  for (const set of lists) {
    const seconds = kernel.expiration(family, PROXY_TABLES.kubeProxy, { set, key: addressBytes(client) });
    if (seconds !== undefined) left.set(set, seconds);
  }
  return Promise.resolve(left);
}

/** Chains of iptables mode and of IPVS mode, with all that other programs have around them. */
async function ofChains({ config, inspection, signal }: RulesInput): Promise<KubeProxyRules> {
  const { tools } = await openTools(config, signal);
  const hasServers = MODES[config.mode].balancesBy === 'virtual servers';
  const own = hasServers ? await inspection.read(signal) : [];
  const views: (FamilyView & { readonly rules: RulesView })[] = [];
  const served = hasServers ? await frontendsOfServers(signal) : [];
  for (const tool of tools) {
    const { family } = tool;
    const rules = await everyChain(tool, signal);
    views.push({ family, rules, servers: own.find((one) => one.family === family)?.servers });
    for (const frontend of frontendsIn(rules, family)) served.push(frontend);
  }
  if (!views.some(({ rules }) => rules.chain('nat', SERVICES) !== undefined)) throw new WrongQuestion(NO_RULES);
  return {
    views,
    served: () => Promise.resolve(served),
    remembered: (...asked) => inspection.remembered(...asked),
    replacedBy: (desired) =>
      desired.map((view) => {
        const all = views.find(({ family }) => family === view.family)?.rules;
        return all === undefined || view.rules === undefined ? view : { ...view, rules: amongOthers(view.rules, all) };
      }),
  };
}

/** Node ports that kube-proxy lists in sets, because their servers are at addresses of the node. */
const NODE_PORT_SETS = [
  ['KUBE-NODE-PORT-TCP', 'TCP'],
  ['KUBE-NODE-PORT-UDP', 'UDP'],
  ['KUBE-NODE-PORT-SCTP-HASH', 'SCTP'],
] as const;

/** Virtual servers at the addresses of Services, and node ports. Servers at other addresses may be another program's. */
async function frontendsOfServers(signal: AbortSignal): Promise<FrontendAt[]> {
  const kernel = await realPlatform.kernel.openIpvs(signal);
  try {
    const found: FrontendAt[] = [];
    const servers = await kernel.servers();
    for (const family of FAMILIES) {
      const ours = new Set((await kernel.addresses(family)).ours);
      for (const { protocol, address, port } of servers)
        if (ours.has(address)) found.push({ family, protocol, address, port });
      for (const [set, protocol] of NODE_PORT_SETS) {
        const entries = (await kernel.readSet(setName(family, set)))?.entries ?? [];
        // `30080`, or `192.0.2.1,sctp:30080`.
        const ports = new Set(entries.map((entry) => Number(entry.slice(entry.lastIndexOf(':') + 1))));
        for (const port of ports) found.push({ family, protocol, address: undefined, port });
      }
    }
    return found;
  } finally {
    kernel.close();
  }
}

/** In IPVS mode no rule names a destination. */
function* frontendsIn(rules: RulesView, family: Family): Generator<FrontendAt> {
  for (const chain of [SERVICES, NODE_PORTS]) {
    for (const { text } of rules.chain('nat', chain) ?? []) {
      const frontend = frontendOfRule(text);
      if (frontend !== undefined) yield { family, ...frontend };
    }
  }
}
