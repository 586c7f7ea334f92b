/**
 * The mode of `--mode=auto`. Another mode than the one whose rules stand on a node would move its traffic, so that one is kept; where none
 * stands, it is nftables mode if the kernel can do it (KEP-5343: the default from Kubernetes 1.40 on), otherwise iptables mode. The choice
 * only asks: it leaves nothing in the kernel.
 */
import type { Config } from '../config/config.ts';
import { rulesProbe } from '../host/chain-probe.ts';
import { SERVICE_DEVICE } from '../host/devices.ts';
import type { IptablesTools } from '../host/iptables-tools.ts';
import { NftUnusable } from '../host/nftables-kernel.ts';
import type { Family } from '../model/address.ts';
import { SERVICES } from '../modes/netfilter/names.ts';
import { oneOfEverything } from '../modes/nftables/check.ts';
import type { ChooseMode } from './load-config.ts';
import { nftablesSettings } from './mode-settings.ts';
import { type Outside, realOutside } from './outside.ts';
import { PROXY_TABLES, proxyTables, rulesThere } from './predecessors.ts';
import { openTools } from './usable-families.ts';

/** `why`: a clause for people. */
interface Chosen {
  readonly mode: Config['mode'];
  readonly why: string;
}

/** Its choice throws CannotRun without NET_ADMIN, FactUnknown, and the signal's reason. */
export function modeChooser(signal: AbortSignal, outside: Outside = realOutside): ChooseMode {
  return async (ofModes) => {
    const config = ofModes.find(({ mode }) => mode === 'nftables');
    if (config === undefined) throw new Error('nftables mode is not among the modes to choose from');
    const { families, tools } = await openTools(config, signal, outside);
    return (await standing({ families, tools, signal, outside })) ?? (await byKernel(config, families, outside));
  };
}

interface Node {
  readonly families: readonly Family[];
  /** Those of iptables that work. */
  readonly tools: readonly IptablesTools[];
  readonly signal: AbortSignal;
  readonly outside: Outside;
}

/** The mode whose rules stand in this network namespace; undefined: none does. */
async function standing(node: Node): Promise<Chosen | undefined> {
  const { families, outside } = node;
  const tables = proxyTables(outside, families);
  // Only an agent in this mode leaves it: each other mode removes it.
  if (tables.has(PROXY_TABLES.ours))
    return { mode: 'nftables', why: `the nftables table ${PROXY_TABLES.ours} stands on this node` };
  const rules = await rulesOn(node);
  const hasDevice = (await outside.machine.hasServiceDevice()) && (await outside.machine.hasIpvs());
  if (hasDevice && (rules !== 'some' || (await servicesUseSets(node)))) {
    return { mode: 'ipvs', why: `the device ${SERVICE_DEVICE} of IPVS mode stands on this node` };
  }
  const beside = [
    ...(hasDevice ? [`the device ${SERVICE_DEVICE} of IPVS mode`] : []),
    ...(tables.has(PROXY_TABLES.kubeProxy) ? [`the nftables table ${PROXY_TABLES.kubeProxy}`] : []),
  ];
  if (rules === 'some') return { mode: 'iptables', why: rulesText(beside) };
  if (tables.has(PROXY_TABLES.kubeProxy))
    return { mode: 'nftables', why: `the nftables table ${PROXY_TABLES.kubeProxy} stands on this node` };
  if (rules === 'none') return undefined;
  return {
    mode: 'iptables',
    why: 'another program held the xtables lock, so that rules of a proxy may stand on this node',
  };
}

function rulesText(beside: readonly string[]): string {
  const rules = `rules of iptables mode (the chain ${SERVICES}) stand on this node`;
  const both = `, and beside them ${beside.join(' and ')}: a node that has both keeps iptables mode`;
  return beside.length === 0 ? rules : `${rules}${both}`;
}

async function rulesOn({ tools, signal, outside }: Node): ReturnType<typeof rulesThere> {
  // A probe that gets no answer from the kernel asks the tool.
  const onProblem = () => undefined;
  const members = tools.map((tool) => ({
    tools: tool,
    probe: rulesProbe({ tools: tool, onProblem, open: outside.kernel.openRules }),
  }));
  try {
    return await rulesThere({ members, signal });
  } finally {
    for (const { probe } of members) probe.close();
  }
}

/** Whether the chain of Services is that of IPVS mode, whose rules ask sets. kube-proxy leaves the device when it changes to iptables mode. */
async function servicesUseSets({ tools, signal }: Node): Promise<boolean> {
  for (const tool of tools) {
    const rules = (await tool.rules({ table: 'nat', chain: SERVICES }, signal)) ?? [];
    if (rules.some((rule) => rule.includes('--match-set KUBE-'))) return true;
  }
  return false;
}

const NOTHING = 'no rules of a proxy stand on this node';

/** By the check that nftables mode makes at its start. */
async function byKernel(config: Config, families: readonly Family[], outside: Outside): Promise<Chosen> {
  try {
    const kernel = outside.kernel.openNftables();
    try {
      for (const family of families) {
        const input = { config, node: undefined, serviceCidrs: undefined, family, outside };
        kernel.check(family, oneOfEverything(await nftablesSettings(input)));
      }
    } finally {
      kernel.close();
    }
    return { mode: 'nftables', why: `${NOTHING}, and its kernel can do nftables mode` };
  } catch (error) {
    if (!(error instanceof NftUnusable)) throw error;
    return { mode: 'iptables', why: `${NOTHING}, and nftables mode cannot work: ${error.message}` };
  }
}
