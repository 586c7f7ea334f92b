/**
 * Connections to frontends, from the counters of the rules that lead to the chains of Services. Only the first packet of a connection
 * meets the nat table (net/netfilter/nf_nat_core.c, nf_nat_inet_fn), so packets of such a rule are connections.
 *
 * A restore that rewrites a chain sets the counters of all its rules to 0. So the counters are read right before, and written with the
 * rules (-c of iptables). Connections in the milliseconds between the reading and the commit are not counted.
 */

import { causeOf } from '../../../base/cause.ts';
import { breath } from '../../../base/clock.ts';
import type { ChainProbe } from '../../../kernel/chain-probe.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { ConnectionCount, CounterReading } from '../mode.ts';
import { type ChainKey, isDispatchChain, splitChainKey } from './names.ts';
import { type Chain, ownerInComment, type Rule } from './rules.ts';
import { frontendOfRule, type RuleFrontend } from './rules-view.ts';

/** The rule of a frontend. */
interface CountedFrontend extends RuleFrontend {
  readonly service: ServiceKey;
}

/** Counted packets, by the name of the frontend. */
export type RulePackets = ReadonlyMap<string, CountedFrontend & { readonly packets: number }>;

export const NO_PACKETS: RulePackets = new Map();

type Writable = Map<string, CountedFrontend & { readonly packets: number }>;
type ChainMap = ReadonlyMap<ChainKey, Chain | undefined>;

/** Chains that are read before a sync may begin: a few milliseconds. */
export const CHAINS_AT_ONCE = 16;
/** The legacy variant reads the counters of so many chains before a write: more would delay the write by a second. */
const MAX_COUNTED_CHAINS = 2000;
/** Limit of frontends whose rules were removed since the last scrape. */
const MAX_ENDED = 10_000;

export interface RuleConnectionsOptions {
  readonly tools: IptablesTools;
  readonly probe?: ChainProbe | undefined;
}

export class RuleConnections {
  readonly #options: RuleConnectionsOptions;
  /** Connections to frontends whose rules were removed since the last scrape. */
  #ended: ConnectionCount[] = [];
  /** Counters that the last scrape read from the legacy variant. */
  #lastRead: Writable = new Map();
  /** Why counters could not be read before a write. */
  #problem: string | undefined;

  constructor(options: RuleConnectionsOptions) {
    this.#options = options;
  }

  /** `chains` returns those believed to be installed, or undefined while unknown. Throws when the counters cannot be read. */
  async counts(chains: () => ChainMap | undefined, { signal, between }: CounterReading): Promise<ConnectionCount[]> {
    const [problem, ended] = [this.#problem, this.#ended];
    this.#problem = undefined;
    if (problem !== undefined) throw new Error(problem);
    this.#ended = [];
    try {
      return [...ended, ...(await this.#installedCounts(chains, { signal, between }))];
    } catch (error) {
      // The next scrape that succeeds reports them.
      this.#ended = [...ended, ...this.#ended].slice(-MAX_ENDED);
      throw error;
    }
  }

  /** Counts of the installed rules. */
  async #installedCounts(
    chains: () => ChainMap | undefined,
    { signal, between }: CounterReading,
  ): Promise<ConnectionCount[]> {
    const found: ConnectionCount[] = [];
    const keys = [...(chains()?.keys() ?? [])].filter(isCounted);
    for (let at = 0; at < keys.length; at += CHAINS_AT_ONCE) {
      const portion = keys.slice(at, at + CHAINS_AT_ONCE);
      const packets = await between(() => this.#probed(picked(portion, chains()), signal));
      // The legacy variant cannot read one chain: one process reads all.
      if (packets === undefined) return await this.#saved(chains, { signal, between });
      found.push(...this.#countsOf(packets));
      await breath();
      signal.throwIfAborted();
    }
    return found;
  }

  /**
   * The packets of the rules in chains that a write is about to change. When they cannot be read, the rules are written without them,
   * and the next `counts` throws the cause.
   */
  async before(changed: Iterable<ChainKey>, applied: ChainMap | undefined, signal: AbortSignal): Promise<RulePackets> {
    const chains = picked([...changed].filter(isCounted), applied);
    if (chains.size === 0) return NO_PACKETS;
    try {
      const packets = await this.#probed(chains, signal);
      if (packets !== undefined) return packets;
      if ((applied?.size ?? 0) > MAX_COUNTED_CHAINS) return this.#remembered(chains);
      return await savedPackets(this.#options.tools, chains, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#problem = `counters could not be read before their rules were written anew: ${causeOf(error)}`;
      return NO_PACKETS;
    }
  }

  /** Record that these chains were written with these packets. */
  wrote(chains: ChainMap, packets: RulePackets): void {
    if (packets.size === 0) return;
    const stays = new Set([...chains.values()].flatMap((chain) => (chain ?? []).map((rule) => counted(rule)?.name)));
    const gone = [...packets].filter(([name, { packets: count }]) => count > 0 && !stays.has(name));
    for (const [name] of gone) this.#lastRead.delete(name);
    for (const count of this.#countsOf(new Map(gone))) this.#ended.push({ ...count, hasEnded: true });
    this.#ended.splice(0, this.#ended.length - MAX_ENDED);
  }

  /** Returns undefined when the kernel cannot read a single chain. */
  async #probed(chains: ReadonlyMap<ChainKey, Chain>, signal: AbortSignal): Promise<RulePackets | undefined> {
    const { probe } = this.#options;
    const packets: Writable = new Map();
    let read = 0;
    for (const [key, chain] of chains) {
      if (++read % CHAINS_AT_ONCE === 0) await breath();
      const counters = await probe?.kernelCounters?.(splitChainKey(key), signal);
      if (counters === undefined) return undefined;
      addPackets(packets, chain, counters);
    }
    return packets;
  }

  /** The reading begins between two syncs and may run beside one. When we wrote meanwhile it proves nothing, and the result is empty. */
  async #saved(chains: () => ChainMap | undefined, { signal, between }: CounterReading): Promise<ConnectionCount[]> {
    const { tools } = this.#options;
    const [present, writes] = await between(() => Promise.resolve([chains() ?? new Map(), tools.writes] as const));
    const packets = await savedPackets(tools, picked([...present.keys()].filter(isCounted), present), signal);
    if (tools.writes !== writes) return [];
    this.#lastRead = packets;
    return this.#countsOf(packets);
  }

  /** Counters of these chains that the last scrape read. */
  #remembered(chains: ReadonlyMap<ChainKey, Chain>): RulePackets {
    const packets: Writable = new Map();
    for (const rule of [...chains.values()].flat()) {
      const name = counted(rule)?.name;
      const known = name === undefined ? undefined : this.#lastRead.get(name);
      if (name !== undefined && known !== undefined) packets.set(name, known);
    }
    return packets;
  }

  #countsOf(packets: RulePackets): ConnectionCount[] {
    const { family } = this.#options.tools;
    return [...packets.values()].map(({ packets: count, ...frontend }) => ({ family, ...frontend, count }));
  }
}

/** The chains of these keys that exist. */
function picked(keys: readonly ChainKey[], chains: ChainMap | undefined): Map<ChainKey, Chain> {
  const found = new Map<ChainKey, Chain>();
  for (const key of keys) {
    const chain = chains?.get(key);
    if (chain !== undefined) found.set(key, chain);
  }
  return found;
}

/** Whether rules of the chain may lead to chains of Services, and only new connections meet it. */
function isCounted(key: ChainKey): boolean {
  const { table, chain } = splitChainKey(key);
  return table === 'nat' && isDispatchChain(chain);
}

/** Another number of counters means that another program changed the chain. */
function addPackets(into: Writable, chain: Chain, counters: readonly number[]): void {
  if (counters.length !== chain.length) return;
  for (const [i, rule] of chain.entries()) {
    const found = counted(rule);
    if (found !== undefined) into.set(found.name, { ...found.frontend, packets: counters[i] ?? 0 });
  }
}

/** The frontend of a rule, and its name among those of a family; undefined for any other rule. */
function counted({ text, owner }: Rule): { readonly name: string; readonly frontend: CountedFrontend } | undefined {
  const frontend = frontendOfRule(text);
  const service = owner ?? ownerInComment(text);
  if (frontend === undefined || service === undefined) return undefined;
  const { protocol, port, address = '' } = frontend;
  return { name: `${service} ${protocol} ${port} ${address}`, frontend: { ...frontend, service } };
}

/** The packets that a rule counted before; 0 when unknown. */
export function packetsOf(rule: Rule, packets: RulePackets): number {
  return packets.get(counted(rule)?.name ?? '')?.packets ?? 0;
}

/** The counters of these chains. Throws when the tool fails. */
async function savedPackets(
  tools: IptablesTools,
  chains: ReadonlyMap<ChainKey, Chain>,
  signal: AbortSignal,
): Promise<Writable> {
  const counters = await savedCounters(tools, signal);
  const packets: Writable = new Map();
  for (const [key, chain] of chains) addPackets(packets, chain, counters.get(splitChainKey(key).chain) ?? []);
  return packets;
}

/** The packets of all rules of nat by their chain, in order, as iptables-save prints them. Throws when the tool fails. */
export async function savedCounters(
  tools: IptablesTools,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const counters = new Map<string, number[]>();
  await tools.saveCounters(
    'nat',
    (line) => {
      // [12:720] -A KUBE-SERVICES -d …
      const match = /^\[(\d+):\d+\] -A (\S+)/.exec(line);
      if (match === null) return;
      const [, count, chain = ''] = match;
      const known = counters.get(chain);
      if (known === undefined) counters.set(chain, [Number(count)]);
      else known.push(Number(count));
    },
    signal,
  );
  return counters;
}
