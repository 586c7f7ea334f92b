/** What IPVS mode needs on this machine, whether it comes or goes. */
import type { IptablesTools } from '../host/iptables-tools.ts';
import type { IpvsKernel } from '../host/ipvs-kernel.ts';
import { realSysctls } from '../host/sysctls.ts';
import { type OnMachine, readIpvsSettings } from './mode-settings.ts';

export async function ipvsOptions<M extends { readonly tools: IptablesTools }>(
  { config, node, members }: OnMachine & { readonly members: readonly M[] },
  kernel: IpvsKernel,
) {
  const families = await Promise.all(
    members.map(async (member) => ({
      ...member,
      settings: await readIpvsSettings({ config, node }, member.tools.family),
    })),
  );
  return { families, node: config.ipvs, kernel, sysctls: realSysctls };
}
