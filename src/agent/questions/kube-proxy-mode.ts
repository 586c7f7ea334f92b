/** The mode of kube-proxy on this node, by the rules that it has in the kernel. Nothing is written. */

import { WrongQuestion } from '../../inspect/wire/envelope.ts';
import type { IptablesTools } from '../../kernel/iptables-tools.ts';
import type { ModeName } from '../../proxy/model/modes.ts';
import { HAIRPIN, POSTROUTING, SERVICES } from '../../proxy/modes/netfilter/names.ts';
import { isOfIpvs } from '../choose-mode.ts';
import type { ChooseMode } from '../load-config.ts';
import { type Platform, realPlatform } from '../platform.ts';
import { PROXY_TABLES, proxyTables } from '../predecessors.ts';
import { type BrokenTools, openTools } from '../usable-families.ts';

/** Its choice throws WrongQuestion where kube-proxy has no rules, or those of two modes; and as `openTools`. */
export function kubeProxyMode(signal: AbortSignal, platform: Platform = realPlatform): ChooseMode {
  return async ([config]) => {
    if (config === undefined) throw new Error('there is no mode to choose from');
    const { families, tools, broken } = await openTools(config, signal, platform);
    const tables = proxyTables(platform, families);
    const chains = await chainsOn(tools, signal);
    const hasTable = tables.has(PROXY_TABLES.kubeProxy);
    const ofChains = chains === 'none' || chains === 'of slicewire' ? undefined : chains;
    if (ofChains !== undefined && hasTable) throw new WrongQuestion(twoText(ofChains));
    if (ofChains !== undefined && broken.length > 0) throw new WrongQuestion(brokenText(broken));
    if (ofChains !== undefined) return { mode: ofChains, why: `kube-proxy has the chain ${SERVICES} on this node` };
    if (hasTable)
      return { mode: 'nftables', why: `kube-proxy has the nftables table ${PROXY_TABLES.kubeProxy} on this node` };
    if (broken.length > 0) throw new WrongQuestion(brokenText(broken));
    const isOurs = chains === 'of slicewire' || tables.has(PROXY_TABLES.ours);
    throw new WrongQuestion(isOurs ? OURS : NO_RULES);
  };
}

export const NO_RULES =
  'kube-proxy has no rules in this network namespace: ask on a node where it runs, as root of the node, or leave out --of';
const OURS = "the rules on this node are slicewire's, and kube-proxy has none here: leave out --of";

function brokenText(broken: readonly BrokenTools[]): string {
  const problems = broken.map(({ problem }) => problem).join('; ');
  return `kube-proxy's rules of iptables cannot be read: ${problems}; ask where iptables of the node's variant is installed`;
}

function twoText(mode: ModeName): string {
  return `kube-proxy has rules of ${mode} mode and of nftables mode on this node, and packets pass both: one of them is left from before, and "kube-proxy --cleanup" removes both before kube-proxy starts again`;
}

/**
 * Rules that slicewire alone has, in chains that kube-proxy writes anew when it takes over: a jump of iptables mode, and a set of IPVS mode.
 * slicewire's other chains may stay (docs/install/kubeadm.md, "Back").
 */
const OUR_JUMP = `-j ${HAIRPIN}`;
const OUR_SETS = ['--match-set KUBE-IPVS-DETOUR ', '--match-set KUBE-6-IPVS-DETOUR '];

/** Whose chain KUBE-SERVICES of the table nat is; of kube-proxy the mode. */
async function chainsOn(
  tools: readonly IptablesTools[],
  signal: AbortSignal,
): Promise<ModeName | 'of slicewire' | 'none'> {
  let [isThere, usesSets] = [false, false];
  for (const tool of tools) {
    const services = await tool.rules({ table: 'nat', chain: SERVICES }, signal);
    if (services === undefined) continue;
    const postrouting = (await tool.rules({ table: 'nat', chain: POSTROUTING }, signal)) ?? [];
    const isOurs =
      postrouting.some((rule) => `${rule} `.includes(OUR_JUMP)) ||
      services.some((rule) => OUR_SETS.some((words) => rule.includes(words)));
    if (isOurs) return 'of slicewire';
    isThere = true;
    usesSets ||= isOfIpvs(services);
  }
  if (!isThere) return 'none';
  return usesSets ? 'ipvs' : 'iptables';
}
