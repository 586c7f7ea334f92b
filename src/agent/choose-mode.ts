/**
 * The mode of `--mode=auto`. Another mode than the one whose rules stand on a node would move its traffic, so that one is kept; where none
 * stands, it is nftables mode if the kernel can do it (KEP-5343: the default from Kubernetes 1.40 on), otherwise iptables mode. The choice
 * only asks: it leaves nothing in the kernel.
 */
import type { Family } from '../base/address.ts';
import { AUTO, type Config } from '../config/config.ts';
import { listText } from '../inspect/wire/format.ts';
import { type RulesProbeOptions, rulesProbe } from '../kernel/chain-probe.ts';
import { SERVICE_DEVICE } from '../kernel/devices.ts';
import type { IptablesTools } from '../kernel/iptables-tools.ts';
import { NftUnusable } from '../kernel/nftables-kernel.ts';
import { SERVICES } from '../proxy/modes/netfilter/names.ts';
import { oneOfEverything } from '../proxy/modes/nftables/check.ts';
import type { Log } from '../telemetry/log.ts';
import type { ChooseMode } from './load-config.ts';
import { nftablesSettings } from './mode-settings.ts';
import type { NodeEvents } from './node-events.ts';
import { type Platform, realPlatform } from './platform.ts';
import { PROXY_TABLES, proxyTables, rulesThere } from './predecessors.ts';
import { type BrokenTools, openTools } from './usable-families.ts';

/** `why`: a clause for people. */
interface ModeDecision {
  readonly mode: Config['mode'];
  readonly why: string;
}

/** Its choice throws CannotRun without NET_ADMIN, FactUnknown, and the signal's reason. */
export function modeChooser(signal: AbortSignal, platform: Platform = realPlatform): ChooseMode {
  return async (ofModes) => {
    const config = ofModes.find(({ mode }) => mode === 'nftables');
    if (config === undefined) throw new Error('nftables mode is not among the modes to choose from');
    const node = { ...(await openTools(config, signal, platform)), signal, platform };
    return (await standing(node)) ?? (await byKernel(config, node));
  };
}

interface InspectedNode {
  readonly families: readonly Family[];
  /** Those of iptables that work. */
  readonly tools: readonly IptablesTools[];
  /** Those of other families. */
  readonly broken: readonly BrokenTools[];
  readonly signal: AbortSignal;
  readonly platform: Platform;
}

/** The mode whose rules stand in this network namespace; undefined: none does. */
async function standing(node: InspectedNode): Promise<ModeDecision | undefined> {
  const { families, platform } = node;
  const tables = proxyTables(platform, families);
  // Only an agent in this mode leaves it: each other mode removes it.
  if (tables.has(PROXY_TABLES.ours))
    return { mode: 'nftables', why: `the nftables table ${PROXY_TABLES.ours} stands on this node` };
  const rules = await rulesOn(node);
  const hasDevice = (await platform.machine.hasServiceDevice()) && (await platform.machine.hasIpvs());
  const hasRules = typeof rules === 'object';
  if (hasDevice && (!hasRules || (await servicesUseSets(node)))) {
    return { mode: 'ipvs', why: `the device ${SERVICE_DEVICE} of IPVS mode stands on this node` };
  }
  const beside = [
    ...(hasDevice ? [`the device ${SERVICE_DEVICE} of IPVS mode`] : []),
    ...(tables.has(PROXY_TABLES.kubeProxy) ? [`the nftables table ${PROXY_TABLES.kubeProxy}`] : []),
  ];
  if (hasRules) return { mode: 'iptables', why: rulesText(rules.chain, beside) };
  if (tables.has(PROXY_TABLES.kubeProxy))
    return { mode: 'nftables', why: `the nftables table ${PROXY_TABLES.kubeProxy} stands on this node` };
  if (rules === 'none') return undefined;
  return {
    mode: 'iptables',
    why: 'another program held the xtables lock, so that rules of a proxy may stand on this node',
  };
}

function rulesText(chain: string, beside: readonly string[]): string {
  const rules = `rules of iptables mode (the chain ${chain}) stand on this node`;
  const both = `, and beside them ${beside.join(' and ')}: a node that has both keeps iptables mode`;
  return beside.length === 0 ? rules : `${rules}${both}`;
}

async function rulesOn({ tools, broken, signal, platform }: InspectedNode): ReturnType<typeof rulesThere> {
  // A probe that gets no answer from the kernel asks the tool.
  const onProblem = () => undefined;
  const { openRules: open } = platform.kernel;
  const members = [
    ...tools.map((tool) => ({ tools: tool, probe: rulesProbe({ tools: tool, onProblem, open }) })),
    ...broken.map(({ tools: tool }) => ({
      tools: tool,
      probe: rulesProbe({ tools: kernelAlone(tool.family), onProblem, open }),
    })),
  ];
  try {
    return await rulesThere({ members, signal });
  } finally {
    for (const { probe } of members) probe.close();
  }
}

/** In the place of a tool that does not work: the kernel knows the chains of the nft variant by name, and those of the other one not. */
function kernelAlone(family: Family): RulesProbeOptions['tools'] {
  const hasChain = () => Promise.resolve(false);
  return { family, variant: 'nft', writes: 0, hasChain, counters: () => Promise.resolve([]) };
}

/**
 * Whether the chain of Services is that of IPVS mode, whose rules ask sets. kube-proxy leaves the device when it changes to iptables mode.
 * Where no tool can read the rules, it counts as that of IPVS mode: neither mode can start there.
 */
async function servicesUseSets({ tools, signal }: InspectedNode): Promise<boolean> {
  if (tools.length === 0) return true;
  for (const tool of tools) {
    const rules = (await tool.rules({ table: 'nat', chain: SERVICES }, signal)) ?? [];
    if (rules.some((rule) => rule.includes('--match-set KUBE-'))) return true;
  }
  return false;
}

/** Rules of iptables' legacy variant are seen by its tool alone. */
function nothingText(broken: readonly BrokenTools[]): string {
  if (broken.length === 0) return 'no rules of a proxy stand on this node';
  const families = listText(broken.map(({ tools }) => tools.family));
  return `no rules of a proxy were found on this node (iptables does not work for ${families})`;
}

/** By the check that nftables mode makes at its start. */
async function byKernel(config: Config, { families, broken, platform }: InspectedNode): Promise<ModeDecision> {
  const nothing = nothingText(broken);
  try {
    const kernel = platform.kernel.openNftables();
    try {
      for (const family of families) {
        const input = { config, node: undefined, serviceCidrs: undefined, family, platform };
        kernel.check(family, oneOfEverything(await nftablesSettings(input)));
      }
    } finally {
      kernel.close();
    }
    return { mode: 'nftables', why: `${nothing}, and its kernel can do nftables mode` };
  } catch (error) {
    if (!(error instanceof NftUnusable)) throw error;
    return { mode: 'iptables', why: `${nothing}, and nftables mode cannot work: ${error.message}` };
  }
}

// Words about a mode that nobody named: for the log, and for an event.

/** kube-proxy 1.37 warns likewise, in the log and by an event (KEP-5343, k8s#139957). */
const NOT_SET =
  'the mode is not set, so the agent works in iptables mode. The default becomes nftables in Kubernetes 1.40 (KEP-5343). ' +
  'Set the mode (--mode, or the field mode of the file) to iptables to keep it then, or to nftables or auto to change it now';

/** Log how the mode came about where no flag or field names one. `former`: the configuration before, whose choice was logged. */
export function warnOfMode(
  { mode, modeChoice }: Config,
  former: Config | undefined,
  log: Pick<Log, 'info' | 'warn'>,
): void {
  if (modeChoice.by === former?.modeChoice.by) return;
  if (modeChoice.by === 'default') log.warn({ mode }, NOT_SET);
  if (modeChoice.by === AUTO) log.info({ mode }, `auto chose ${mode} mode, because ${modeChoice.why}`);
}

/** Emit an event on the Node where the mode is not set, unless it was not set before either. Its action is that of kube-proxy's start. */
export function emitModeWarning(
  { modeChoice }: Config,
  former: Config | undefined,
  events: Pick<NodeEvents, 'emitNode'>,
): void {
  if (modeChoice.by !== 'default' || former?.modeChoice.by === 'default') return;
  events.emitNode({ type: 'Warning', reason: 'ModeNotSet', action: 'StartKubeProxy', note: NOT_SET });
}
