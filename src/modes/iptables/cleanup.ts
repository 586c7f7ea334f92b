/** Remove every chain and jump of a service proxy from one family. */
import type { IptablesTools } from '../../host/iptables-tools.ts';
import { cleanupTables } from '../netfilter/cleanup.ts';
import { isOurs } from '../netfilter/names.ts';

/** Returns what was removed, a line each. KUBE-FIREWALL stays: it is the kubelet's as well. Throws when a read or write fails. */
export async function cleanupFamily(tools: IptablesTools, signal: AbortSignal): Promise<string[]> {
  return await cleanupTables(tools, isOurs, signal);
}
