/**
 * The mode of `--mode=auto`. A node keeps the mode whose rules it already has, because another one would move its traffic. A node without
 * rules gets nftables mode if its kernel can do it (KEP-5343: the default from Kubernetes 1.40 on), otherwise iptables mode. Choosing only
 * reads: it leaves nothing in the kernel.
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

/** `why` is a clause for the log and for answers. */
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
    return (await installedMode(node)) ?? (await byKernel(config, node));
  };
}

interface InspectedNode {
  readonly families: readonly Family[];
  /** The iptables tools that work. */
  readonly tools: readonly IptablesTools[];
  /** The iptables tools of the other families, which do not work. */
  readonly broken: readonly BrokenTools[];
  readonly signal: AbortSignal;
  readonly platform: Platform;
}

/** The mode whose rules are in this network namespace; undefined when there are none. */
async function installedMode(node: InspectedNode): Promise<ModeDecision | undefined> {
  const { families, platform } = node;
  const tables = proxyTables(platform, families);
  // Only an agent in nftables mode leaves this table; each other mode removes it.
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
  // Problems are not logged, because a probe without an answer from the kernel uses the tool.
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

/** Replaces a tool that does not work. The kernel finds chains of the nft variant by name, but not those of the legacy variant. */
function kernelAlone(family: Family): RulesProbeOptions['tools'] {
  const hasChain = () => Promise.resolve(false);
  return { family, variant: 'nft', writes: 0, hasChain, counters: () => Promise.resolve([]) };
}

/**
 * Tells IPVS mode from iptables mode by the rules of the chain KUBE-SERVICES, which match sets in IPVS mode. The device alone is no proof:
 * kube-proxy leaves it when it changes to iptables mode. Where no tool can read the rules, the answer is IPVS mode: neither mode can start
 * there.
 */
async function servicesUseSets({ tools, signal }: InspectedNode): Promise<boolean> {
  if (tools.length === 0) return true;
  for (const tool of tools) {
    const rules = (await tool.rules({ table: 'nat', chain: SERVICES }, signal)) ?? [];
    if (isOfIpvs(rules)) return true;
  }
  return false;
}

/** Whether these rules of KUBE-SERVICES are those of IPVS mode. */
export function isOfIpvs(rules: readonly string[]): boolean {
  return rules.some((rule) => rule.includes('--match-set KUBE-'));
}

/** Names the families without a working tool: rules of the legacy variant are visible to its tool alone. */
function nothingText(broken: readonly BrokenTools[]): string {
  if (broken.length === 0) return 'no rules of a proxy stand on this node';
  const families = listText(broken.map(({ tools }) => tools.family));
  return `no rules of a proxy were found on this node (iptables does not work for ${families})`;
}

/** nftables mode if the kernel passes the check that this mode makes at its start, otherwise iptables mode. */
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

/** Text for the log and an event where the mode is not set. kube-proxy 1.37 warns likewise (KEP-5343, k8s#139957). */
const NOT_SET =
  'the mode is not set, so the agent works in iptables mode. The default becomes nftables in Kubernetes 1.40 (KEP-5343). ' +
  'Set the mode (--mode, or the field mode of the file) to iptables to keep it then, or to nftables or auto to change it now';

/** Log how the mode was chosen where no flag or field names one. `former` is the configuration before, whose choice is in the log already. */
export function warnOfMode(
  { mode, modeChoice }: Config,
  former: Config | undefined,
  log: Pick<Log, 'info' | 'warn'>,
): void {
  if (modeChoice.by === former?.modeChoice.by) return;
  if (modeChoice.by === 'default') log.warn({ mode }, NOT_SET);
  if (modeChoice.by === AUTO) log.info({ mode }, `auto chose ${mode} mode, because ${modeChoice.why}`);
}

/**
 * Emit an event on the Node where the mode is not set, unless the configuration before caused it already. Its action is that of
 * kube-proxy's start.
 */
export function emitModeWarning(
  { modeChoice }: Config,
  former: Config | undefined,
  events: Pick<NodeEvents, 'emitNode'>,
): void {
  if (modeChoice.by !== 'default' || former?.modeChoice.by === 'default') return;
  events.emitNode({ type: 'Warning', reason: 'ModeNotSet', action: 'StartKubeProxy', note: NOT_SET });
}
