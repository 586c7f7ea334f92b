/** A history's writes, carried out again by a real kernel: it must accept, refuse and then have the same. */
import type { RealNode as Node } from './node.ts';
import { RealNode } from './node.ts';
import type { KernelState, RecordedWrite, WriteRecord } from './record.ts';
import { compareRules, runEdit, runTool } from './tools.ts';
import { compareTables, sendTransaction } from './transactions.ts';

const EMPTY: KernelState = { ruleset: new Map(), tables: new Map(), generation: 1 };
let count = 0;

/** The differences at the first write that has any, as lines; none when the kernels agree. Needs root. */
export async function compareWithReal({ writes, variant }: WriteRecord): Promise<readonly string[]> {
  count += 1;
  const node = await RealNode.make(`sw${process.pid}-honest-${count}`);
  try {
    let before = EMPTY;
    for (const [i, write] of writes.entries()) {
      const [generation, moved] = [node.generation, write.after.generation - before.generation];
      const found = [...(await repeat(node, write, variant)), ...(await contents(node, { write, before, variant }))];
      const really = node.generation - generation;
      if (really !== moved && variant === 'nft') found.push(`the generation: simulated +${moved}, real +${really}`);
      if (found.length > 0) return [`write ${i + 1} of ${writes.length}, ${titleOf(write)}:`, ...found];
      before = write.after;
    }
    return [];
  } finally {
    await node.remove();
  }
}

async function repeat(node: Node, write: RecordedWrite, variant: WriteRecord['variant']): Promise<readonly string[]> {
  switch (write.kind) {
    case 'transaction':
      return sendTransaction(node, write.transaction);
    case 'closed':
      node.closeSocket(write.port);
      return [];
    case 'tool':
      return await runTool(node, write.step, variant);
    case 'edit':
      await runEdit(node, write.edit, variant);
      return [];
    case 'set':
      return await writeSet(node, write.write);
  }
}

async function writeSet(
  node: Node,
  write: Extract<RecordedWrite, { kind: 'set' }>['write'],
): Promise<readonly string[]> {
  const { set } = write;
  const hash =
    typeof set === 'string' || set.type === 'bitmap:port' ? [] : ['family', set.family === 'IPv4' ? 'inet' : 'inet6'];
  const range = typeof set !== 'string' && set.type === 'bitmap:port' ? ['range', '0-65535'] : [];
  const args = typeof set === 'string' ? ['destroy', set] : ['create', set.name, set.type, ...hash, ...range];
  const { exitCode, stderr } = await node.run({ file: 'ipset', args });
  return exitCode === 0 ? [] : [`ipset ${args.join(' ')}: ${stderr}`];
}

interface Comparison {
  readonly write: RecordedWrite;
  readonly before: KernelState;
  readonly variant: WriteRecord['variant'];
}

async function contents(node: Node, { write, before, variant }: Comparison): Promise<readonly string[]> {
  if (write.kind === 'transaction' || write.kind === 'closed')
    return compareTables(node, write.after.ruleset, before.ruleset);
  if (write.kind === 'set') return [];
  const family = write.kind === 'tool' ? write.step.family : write.edit.family;
  if (write.kind === 'tool' && write.step.lines === undefined) return [];
  return await compareRules(node, write.after, family, variant);
}

function titleOf(write: RecordedWrite): string {
  if (write.kind === 'transaction') return `a transaction of ${write.transaction.requests.length} requests`;
  if (write.kind === 'tool') return `${write.step.command.file} ${write.step.command.args.join(' ')}`;
  return write.kind === 'edit' ? `another program writes ${write.edit.family} ${write.edit.table}` : write.kind;
}
