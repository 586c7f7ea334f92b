/** Keeps what service proxies have in the kernel of this node, and brings it back. */
import { FAMILIES, type Family } from '../../base/address.ts';
import type { Config } from '../../config/config.ts';
import type { IptablesTools } from '../../kernel/iptables-tools.ts';
import type { TableChange } from '../../kernel/nftables-kernel.ts';
import { MODES } from '../../proxy/model/modes.ts';
import type { NodeView } from '../../proxy/model/objects.ts';
import { ipvsPredecessor } from '../../proxy/modes/ipvs/index.ts';
import type { Mode } from '../../proxy/modes/mode.ts';
import type { TableId } from '../../proxy/modes/nftables/index.ts';
import { type KeptRules, type KeptServers, keepRules } from '../../proxy/modes/way-back/kept.ts';
import { keepServers, removeOtherSets, rulesBack, serversBack } from '../../proxy/modes/way-back/way-back.ts';
import { readIpvsSettings } from '../mode-settings.ts';
import { closeOnError, type OpenNftables, type Platform } from '../platform.ts';
import { hasIpvsLeftovers, mayNeedTools, nftablesFor, PROXY_TABLES, tablesIn } from '../predecessors.ts';
import { openTools } from '../usable-families.ts';
import type { Kept } from './takeover-record.ts';

export interface KeepingInput {
  readonly config: Config;
  readonly node: () => NodeView | undefined;
  readonly platform: Platform;
  readonly signal: AbortSignal;
}

/** Whether the predecessor had nothing that could come back. */
export function isNothing({ rules, servers, tables }: Kept): boolean {
  return tables.length === 0 && servers.length === 0 && rules.every(({ lines }) => lines.length === 0);
}

/** Reads all rules and servers of proxies, whichever mode wrote them. Throws when a part cannot be read. */
export async function keep(input: KeepingInput): Promise<Kept> {
  const { config, platform, signal } = input;
  const tools = (await mayNeedTools({ mode: config.mode, former: undefined }, platform)) ? await toolsOf(input) : [];
  const rules: KeptRules[] = [];
  for (const one of tools) rules.push(await keepRules(one.tools, signal));
  const servers = (await hasIpvsLeftovers(platform.machine))
    ? await withIpvs(input, async (node) => await keepServers(await withSettings(tools, input), node, signal))
    : [];
  return {
    rules,
    servers,
    tables: withNftables(platform, [], (kernel) => tablesIn(kernel, tablesBeside(input), FAMILIES)),
  };
}

/** The table of the agent's own mode is no predecessor. */
function tablesBeside({ config }: Pick<KeepingInput, 'config'>): readonly string[] {
  const { ours, kubeProxy } = PROXY_TABLES;
  return MODES[config.mode].rulesBy === 'nftables' ? [kubeProxy] : [ours, kubeProxy];
}

/**
 * Brings it back, and removes the rules of the agent: what serves is replaced and never absent. Resolves with `gone`, and changes nothing, where
 * another program removed a table that was kept, and with `waiting` where servers of the agent wait for their connections to end. Throws when the
 * kernel cannot be read or written; then it may be called again.
 */
export async function bringBack(kept: Kept, input: KeepingInput): Promise<'done' | 'waiting' | 'gone'> {
  const { platform } = input;
  const { ours } = PROXY_TABLES;
  const isKept = (one: TableId) =>
    kept.tables.some(({ family, table }) => family === one.family && table === one.table);
  const seen = withNftables(platform, { own: [], areThere: kept.tables.length === 0 }, (kernel) => ({
    own: tablesIn(kernel, [ours], FAMILIES).filter((one) => !isKept(one)),
    areThere: kept.tables.every(({ family, table }) => kernel.hasTable(family, table)),
  }));
  if (!seen.areThere) return 'gone';
  const changeTables = () => withNftables(platform, undefined, (kernel) => change(kernel, kept.tables, seen.own));
  // The tables of the agent come before rules of iptables, and those come before nothing.
  const areFirst = seen.own.length === 0;
  if (areFirst) changeTables();
  const isWaiting = await chainsAndServersBack(kept, input);
  if (!areFirst) changeTables();
  return isWaiting ? 'waiting' : 'done';
}

function change(kernel: OpenNftables, kept: readonly TableId[], own: readonly TableId[]): undefined {
  const woken = kept.filter(({ family, table }) => kernel.isDormant(family, table));
  const changes: TableChange[] = [
    ...woken.map((id) => ({ ...id, to: 'awake' as const })),
    ...own.map((id) => ({ ...id, to: 'gone' as const })),
  ];
  if (changes.length > 0) kernel.changeTables(changes);
}

/**
 * Removes virtual servers of the agent whose connections have ended, where nothing was balanced by such before. It touches no rules. Resolves with
 * whether some are left. Throws as `bringBack`.
 */
export async function removeServersLeft(input: KeepingInput): Promise<boolean> {
  if (!(await hasIpvsLeftovers(input.platform.machine))) return false;
  const families = await withSettings(await toolsOf(input), input);
  return await withIpvs(input, async (node) => await applyAll(ipvsPredecessor({ ...node, families }), input));
}

/** Syncs of the way back in a row: chains and servers need each other, and each of these takes what the one before made possible. */
const MAX_ROUNDS = 4;

async function chainsAndServersBack(kept: Kept, input: KeepingInput): Promise<boolean> {
  const { config, platform } = input;
  const hadRules = kept.rules.some(({ lines }) => lines.length > 0);
  const mayHaveRules = hadRules || (await mayNeedTools({ mode: config.mode, former: undefined }, platform));
  const tools = mayHaveRules ? await toolsOf(input) : [];
  const lost = kept.rules.find(
    ({ family, lines }) => lines.length > 0 && !tools.some((one) => one.tools.family === family),
  );
  if (lost !== undefined) throw new Error(`the tools of iptables do not work for ${lost.family}`);
  const rulesOf = (family: Family) => kept.rules.find((one) => one.family === family) ?? { family, lines: [] };
  if (kept.servers.length === 0) {
    const back = rulesBack(tools.map((one) => ({ ...one, kept: rulesOf(one.tools.family) })));
    return (await applyAll(back, input)) || (await removeServersLeft(input));
  }
  // Servers that wait for their last connection are those of the next proxy in IPVS mode to remove.
  await withIpvs(input, async (node) => {
    const families = (await withSettings(tools, input)).map((one) => {
      const { family } = one.settings;
      const servers = kept.servers.find((each) => each.family === family) ?? noServers(family);
      return { ...one, rules: rulesOf(family), servers };
    });
    await applyAll(serversBack(families, node), input);
    await removeOtherSets(kept.servers, node.kernel, input.signal);
  });
  return false;
}

function noServers(family: Family): KeptServers {
  return { family, sets: [], entries: [], servers: [], destinations: [], addresses: [] };
}

/** Throws with the causes of what could not be written. Resolves with whether something waits. */
async function applyAll(mode: Mode, { signal }: KeepingInput): Promise<boolean> {
  for (let round = 1; ; round++) {
    const seen = await mode.observe(signal);
    if (seen.kind === 'unknown') throw new Error(seen.cause);
    // A family that is not known has no plan.
    if (!mode.isObserved) throw new Error(seen.value.unread.join('; '));
    const plan = mode.plan();
    if (plan.steps.length === 0) return mode.isWaiting;
    const { outcome, failed } = await plan.apply(signal);
    if (round < MAX_ROUNDS) continue;
    if (outcome !== 'complete') throw new Error(failed.map(({ key, cause }) => `${key}: ${cause}`).join('; '));
    return mode.isWaiting;
  }
}

type ToolsOfFamily = { readonly tools: IptablesTools };

async function toolsOf({ config, platform, signal }: KeepingInput): Promise<readonly ToolsOfFamily[]> {
  const { tools } = await openTools(config, signal, platform);
  return tools.map((one) => ({ tools: one }));
}

async function withSettings(tools: readonly ToolsOfFamily[], { config, node, platform }: KeepingInput) {
  return await Promise.all(
    tools.map(async (one) => {
      const settings = await readIpvsSettings({ config, node, platform }, one.tools.family);
      return { ...one, settings };
    }),
  );
}

async function withIpvs<T>(
  { platform, signal }: KeepingInput,
  use: (node: Parameters<typeof keepServers>[1]) => Promise<T>,
): Promise<T> {
  const kernel = await platform.kernel.openIpvs(signal);
  const result = await closeOnError(kernel, () => use({ kernel, sysctls: platform.kernel.settings }));
  kernel.close();
  return result;
}

/** `otherwise`: without nftables in the kernel. */
function withNftables<T>(platform: Platform, otherwise: T, use: (kernel: OpenNftables) => T): T {
  const kernel = nftablesFor(Object.values(PROXY_TABLES), platform);
  if (kernel === undefined) return otherwise;
  try {
    return use(kernel);
  } finally {
    kernel.close();
  }
}
