/**
 * The way back from a takeover, as a mode like any other: it desires what the predecessor had when it was kept. So a plan is the difference to
 * what the kernel has now, chains lead to endpoints before jumps lead to them, and connections of servers that go may end in their own time.
 */
import type { IpvsKernel } from '../../../kernel/ipvs-kernel.ts';
import type { Sysctls } from '../../../kernel/sysctls.ts';
import { familiesMode } from '../families.ts';
import type { Mode } from '../mode.ts';
import { OwnWrites } from '../netfilter/change-detection.ts';
import { FamilyRules, type TablesOptions } from '../netfilter/family-rules.ts';
import { RulesFamily } from '../netfilter/rules-family.ts';
import { IpvsNode } from '../virtual-servers/node-parts.ts';
import { ServersFamily } from '../virtual-servers/servers-family.ts';
import { isProxySet } from '../virtual-servers/sets.ts';
import { isOursOrSource } from '../virtual-servers/source-chain.ts';
import type { ServersSettings } from '../virtual-servers/state.ts';
import { entryKey, serverKey } from '../virtual-servers/tracked-objects.ts';
import { type KeptRules, type KeptServers, keptServers, readKeptRules } from './kept.ts';

type Tools = Pick<TablesOptions, 'tools'>;

/** Where nothing was balanced by virtual servers. Throws SyntaxError where the kept rules cannot be read. */
export function rulesBack(families: readonly (Tools & { readonly kept: KeptRules })[]): Mode {
  return familiesMode({
    name: 'iptables',
    readsApart: true,
    families: families.map((one) => new RulesFamily(keptTables(one, new OwnWrites()))),
  });
}

interface FamilyBack extends Tools {
  readonly settings: ServersSettings;
  readonly rules: KeptRules;
  readonly servers: KeptServers;
}

export interface NodeBack {
  readonly kernel: IpvsKernel;
  readonly sysctls: Sysctls;
}

/** Where there were virtual servers when the state was kept. Throws SyntaxError where the kept rules cannot be read. */
export function serversBack(families: readonly FamilyBack[], { kernel, sysctls }: NodeBack): Mode {
  const own = new OwnWrites();
  const node = new IpvsNode({ kernel, sysctls });
  const members = families.map(({ settings, rules, servers, ...tools }) => {
    return new ServersBack(settings, keptTables({ ...tools, kept: rules }, own), { node, kept: servers });
  });
  return familiesMode({ name: 'ipvs', readsApart: false, families: members, node });
}

function keptTables({ tools, kept }: Tools & { readonly kept: KeptRules }, own: OwnWrites): FamilyRules {
  const { chains, jumps } = readKeptRules(kept);
  const rules = new FamilyRules({ tools, own, isOurs: isOursOrSource, jumps });
  for (const [key, chain] of chains) rules.desire(key, chain);
  return rules;
}

class ServersBack extends ServersFamily {
  constructor(
    settings: ServersSettings,
    tables: FamilyRules,
    { node, kept }: { readonly node: IpvsNode; readonly kept: KeptServers },
  ) {
    super(settings, tables, node);
    const owner = undefined;
    const destinations = Map.groupBy(kept.destinations, ({ server }) => serverKey(server));
    this.state.desire({
      servers: new Map(
        kept.servers.map((server) => {
          const of = (destinations.get(serverKey(server)) ?? []).map((one) => ({ ...one, owner }));
          return [serverKey(server), { server, owner, destinations: of }];
        }),
      ),
      addresses: new Map(kept.addresses.map((address) => [address, { address, owner }])),
      entries: new Map(kept.entries.map(({ set, entry }) => [entryKey(set, entry), { set, entry, owner }])),
      chains: new Map(),
    });
    for (const [id, spec] of kept.sets) this.state.sets.desire(id, spec);
  }
}

/** Removes the sets that the predecessor did not have, once no rule names them. Throws when the kernel refuses it. */
export async function removeOtherSets(
  servers: readonly KeptServers[],
  kernel: IpvsKernel,
  signal: AbortSignal,
): Promise<void> {
  const families = servers.map(({ family }) => family);
  const kept = new Set(servers.flatMap(({ sets }) => sets.map(([, { name }]) => name)));
  const others = (await kernel.setNames()).filter((name) => isProxySet(name, families) && !kept.has(name));
  const outcomes = await kernel.write(
    others.map((set) => ({ kind: 'remove-set', set })),
    signal,
  );
  const failed = outcomes.find((outcome) => outcome !== undefined && outcome.failure !== 'missing');
  if (failed !== undefined) throw failed;
}

/** Reads the virtual servers of service proxies in these families. Throws when the read fails. */
export async function keepServers(
  families: readonly (Tools & { readonly settings: ServersSettings })[],
  { kernel, sysctls }: NodeBack,
  signal: AbortSignal,
): Promise<readonly KeptServers[]> {
  const node = new IpvsNode({ kernel, sysctls });
  const kept: KeptServers[] = [];
  for (const { settings, ...tools } of families) {
    const family = new ServersFamily(settings, new FamilyRules({ ...tools, isOurs: isOursOrSource, jumps: [] }), node);
    await family.observe(signal);
    kept.push(keptServers(family.state));
  }
  return kept;
}
