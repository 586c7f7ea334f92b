/** The nodes whose kernels count, in the order in which they came to count. Pure. */
import type { Need } from './agent-state.ts';
import { hasNeeded } from './lacks.ts';
import type { TrackedNode } from './tracked-node.ts';

export class TrackedNodes {
  #nodes: TrackedNode[] = [];
  #serials = 0;

  get all(): readonly TrackedNode[] {
    return this.#nodes;
  }

  /** The serial of the last; 0: there is none. */
  get last(): number {
    return this.#nodes.at(-1)?.serial ?? 0;
  }

  /** The node counts, or counts no more. One that comes is behind those that are there. */
  keep(node: TrackedNode): void {
    if (node.counts && node.serial === 0) {
      this.#serials += 1;
      node.serial = this.#serials;
      this.#nodes.push(node);
    } else if (!node.counts && node.serial !== 0) {
      node.serial = 0;
      this.#nodes = this.#nodes.filter((each) => each !== node);
    }
  }

  /**
   * The first node after a serial that must be waited for; undefined: there is none. A node that is left out is not waited for, and told
   * to `leftOut` where it lacks what is needed.
   */
  firstBehind(need: Need, after: number, leftOut: (node: TrackedNode) => void): TrackedNode | undefined {
    for (let i = this.#indexAfter(after); i < this.#nodes.length; i += 1) {
      const node = this.#nodes[i];
      if (node === undefined || hasNeeded(node, need)) continue;
      if (!node.isLeftOut) return node;
      leftOut(node);
    }
    return undefined;
  }

  #indexAfter(serial: number): number {
    let low = 0;
    let high = this.#nodes.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#nodes[middle]?.serial ?? 0) > serial) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
