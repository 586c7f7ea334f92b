/** Mutations of bytes that are a tree of lengths: netlink's attributes, protobuf's fields. Lengths are written anew, mostly right. */
import type { Random } from '../random.ts';
import { mutateBytes } from './bytes.ts';

/** A leaf has bytes, a branch has nodes. `mark` is a type, or the number of a field. */
export interface Node {
  mark: number;
  content: Buffer | Node[];
  /** A length to write instead of the right one. */
  lie?: number;
}

function nodesOf(nodes: Node[], found: { readonly holder: Node[]; readonly at: number }[] = []): typeof found {
  for (const [at, { content }] of nodes.entries()) {
    found.push({ holder: nodes, at });
    if (Array.isArray(content)) nodesOf(content, found);
  }
  return found;
}

function copyOf(node: Node): Node {
  return { ...node, content: Array.isArray(node.content) ? node.content.map(copyOf) : Buffer.from(node.content) };
}

/** One to four changes in place. `others`: nodes of another seed; `seeds`: bytes to splice in. */
export function mutateTree(random: Random, nodes: Node[], others: Node[], seeds: readonly Buffer[]): void {
  const foreign = nodesOf(others);
  for (let left = 1 + random.below(4); left > 0; left--) {
    const places = nodesOf(nodes);
    if (places.length === 0) return;
    const { holder, at } = random.pick(places);
    const node = holder[at];
    if (node !== undefined) change(random, { holder, at, node, foreign, seeds });
  }
}

interface Changed {
  readonly holder: Node[];
  readonly at: number;
  readonly node: Node;
  readonly foreign: readonly { readonly holder: Node[]; readonly at: number }[];
  readonly seeds: readonly Buffer[];
}

function change(random: Random, { holder, at, node, foreign, seeds }: Changed): void {
  switch (random.below(8)) {
    case 0:
      node.mark = random.once(2) ? random.below(32) : random.below(65_536);
      break;
    case 1:
      node.lie = random.pick([0, 1, 3, 4, 5, 255, 4096, 65_535, random.below(64)]);
      break;
    case 2:
      holder.splice(at, 1);
      break;
    case 3: {
      const times = random.once(100) ? random.below(400) : 1;
      for (let i = 0; i < times; i++) holder.splice(at, 0, copyOf(node));
      break;
    }
    case 4: {
      const other = foreign.length === 0 ? undefined : random.pick(foreign);
      const found = other?.holder[other.at];
      if (found !== undefined) holder[at] = { ...copyOf(found), mark: random.once(2) ? node.mark : found.mark };
      break;
    }
    case 5:
      node.content = [
        { mark: random.below(8), content: Array.isArray(node.content) ? [...node.content] : node.content },
      ];
      break;
    case 6:
      node.content = Buffer.alloc(random.pick([0, 1, 2, 3, 5, 8, 16, 17, 200]), random.below(256));
      break;
    default:
      if (Array.isArray(node.content)) node.content = [];
      else node.content = mutateBytes(random, node.content.length === 0 ? Buffer.alloc(4) : node.content, seeds);
  }
}
