/** What a history wrote to a simulated kernel, in its order, with what the kernel had after each write. */
import type { KernelWrite as IpvsWrite } from '../../../src/kernel/ipvs-kernel.ts';
import type { RulesEdit, ToolStep } from '../kernel/iptables/iptables.ts';
import type { Chains } from '../kernel/iptables/rule-store.ts';
import type { SimKernel } from '../kernel/kernel.ts';
import type { TakenTransaction } from '../kernel/nft/kernel.ts';
import type { Ruleset } from '../kernel/nft/ruleset.ts';

type SetWrite = Extract<IpvsWrite, { kind: 'add-set' | 'remove-set' }>;

export type WriteKind =
  | { readonly kind: 'transaction'; readonly transaction: TakenTransaction }
  /** A program closed its socket of nftables. */
  | { readonly kind: 'closed'; readonly port: number }
  | { readonly kind: 'tool'; readonly step: ToolStep }
  | { readonly kind: 'edit'; readonly edit: RulesEdit }
  /** Rules of IPVS mode refer to sets. */
  | { readonly kind: 'set'; readonly write: SetWrite };

/** What the kernel has. None of it changes later. */
export interface KernelState {
  readonly ruleset: Ruleset;
  /** Of the variant of the command `iptables`, by family and name of the table. */
  readonly tables: ReadonlyMap<string, Chains>;
  /** How often it was written: of nftables and iptables-nft together. */
  readonly generation: number;
}

export type RecordedWrite = WriteKind & { readonly after: KernelState };

export interface WriteRecord {
  readonly variant: 'nft' | 'legacy';
  readonly writes: readonly RecordedWrite[];
}

/** Records all writes from now on; the result grows. */
export function recordOf(kernel: SimKernel): WriteRecord {
  const writes: RecordedWrite[] = [];
  const { state } = kernel.nft;
  const { iptables, ipvs } = kernel;
  const ports = new Set<number>();
  const add = (write: WriteKind) => {
    const tables = iptables.stores[iptables.variant].snapshot();
    writes.push({ ...write, after: { ruleset: state.ruleset, tables, generation: state.generation } });
  };
  state.onTaken = (transaction) => {
    ports.add(transaction.port);
    add({ kind: 'transaction', transaction });
  };
  state.onClosed = (port) => {
    if (ports.delete(port)) add({ kind: 'closed', port });
  };
  iptables.onTool = (step) => {
    // Two steps of one tool, between which nobody wrote, are one.
    const last = writes.at(-1);
    const joined = last?.kind === 'tool' ? joinedSteps(last.step, step) : undefined;
    if (joined !== undefined) writes.pop();
    add({ kind: 'tool', step: joined ?? step });
  };
  iptables.onEdit = (edit) => add({ kind: 'edit', edit });
  ipvs.onWrite = (write) => {
    if (write.kind === 'add-set' || write.kind === 'remove-set') add({ kind: 'set', write });
  };
  return { variant: iptables.variant, writes };
}

function joinedSteps(first: ToolStep, next: ToolStep): ToolStep | undefined {
  if (first.command !== next.command || first.lines === undefined || next.lines === undefined) return undefined;
  return { ...next, lines: [...first.lines, ...next.lines], offset: first.offset };
}
