/** The Node of the agent as its source has it, and the Nodes that do not answer it, which no source knows (docs/semantics.md 3.6). */
import { sameData } from '../../base/equal.ts';
import type { NodeView, ServiceKey } from '../../proxy/model/objects.ts';

const NONE: readonly string[] = [];

export class OwnNode {
  #node: NodeView | undefined;
  #suspects = NONE;
  #view: NodeView | undefined;
  #ejections = 0;
  readonly #onTouch: (service: ServiceKey) => void;

  /** `onTouch` is called for each Service that has endpoints on a Node which became a suspect, or is one no more. */
  constructor(onTouch: (service: ServiceKey) => void) {
    this.#onTouch = onTouch;
  }

  /** The Node with the suspects; undefined: there is none. */
  get view(): NodeView | undefined {
    return this.#view;
  }

  /** Sorted. In a recording, the Node brings them along. */
  get suspects(): readonly string[] {
    return this.#suspects.length > 0 ? this.#suspects : (this.#node?.suspects ?? NONE);
  }

  /** Times that a Node became a suspect. */
  get ejections(): number {
    return this.#ejections;
  }

  /** Takes the Node of the source. Returns the suspects that came or went with it; undefined: it is the same as before. */
  set(node: NodeView | undefined): ReadonlySet<string> | undefined {
    if (sameData(node, this.#node)) return undefined;
    const before = this.suspects;
    this.#node = node;
    this.#compose();
    return new Set(before).symmetricDifference(new Set(this.suspects));
  }

  /** Replaces the suspects, which are sorted. `services`: those with endpoints on a Node that became one, or is one no more. */
  suspect(nodes: readonly string[], services: Iterable<ServiceKey>): void {
    for (const key of services) this.#onTouch(key);
    if (sameData(nodes, this.#suspects)) return;
    this.#ejections += nodes.filter((name) => !this.#suspects.includes(name)).length;
    this.#suspects = nodes;
    this.#compose();
  }

  #compose(): void {
    const suspects = this.#suspects;
    this.#view = this.#node === undefined || suspects.length === 0 ? this.#node : { ...this.#node, suspects };
  }
}
