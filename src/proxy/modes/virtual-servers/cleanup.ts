/** Remove our objects of one family at once, without waiting for connections. Objects of other programs stay (k8s#55857). */
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { IpvsKernel, KernelWrite } from '../../../kernel/ipvs-kernel.ts';
import { cleanupTables } from '../netfilter/cleanup.ts';
import { setName, spareName } from './sets.ts';
import { isOursOrSource } from './source-chain.ts';
import { type OwnedServer, serverText } from './tracked-objects.ts';
import type { ObservedServers } from './trackers.ts';

export interface CleanupParts {
  readonly tools: IptablesTools;
  readonly kernel: IpvsKernel;
  readonly seen: ObservedServers;
  readonly signal: AbortSignal;
}

/** Returns a line for each removed object. If a part fails, it removes the rest and throws. */
export async function cleanupServers({ tools, kernel, seen, signal }: CleanupParts): Promise<string[]> {
  const { family } = tools;
  const removed: string[] = [];
  const problems: string[] = [];
  const remove = async (items: readonly { readonly write: KernelWrite; readonly line: string }[]) => {
    const outcomes = await kernel.write(
      items.map(({ write }) => write),
      signal,
    );
    for (const [i, { line }] of items.entries()) {
      const error = outcomes[i];
      if (error === undefined) removed.push(`${family} ${line}`);
      else if (error.failure !== 'missing') problems.push(`${line}: ${error.message}`);
    }
  };
  await remove([...seen.servers.values()].map(serverRemoval));
  await remove(
    [...seen.addresses.keys()].map((address) => ({
      write: { kind: 'remove-address', address },
      line: `address ${address}`,
    })),
  );
  // Rules refer to sets.
  removed.push(...(await cleanupTables(tools, isOursOrSource, signal)));
  await remove(
    [...seen.sets.keys().map((id) => setName(family, id)), ...(seen.hasSpare ? [spareName(family)] : [])].map((set) => {
      return { write: { kind: 'remove-set', set }, line: `set ${set}` };
    }),
  );
  if (problems.length > 0) throw new Error(problems.join('; '));
  return removed;
}

function serverRemoval(one: OwnedServer): { write: KernelWrite; line: string } {
  return { write: { kind: 'remove-server', server: one.server }, line: `server ${serverText(one)}` };
}
