/**
 * Which endpoints questions of preStop hooks were answered for. A hook of all Pods of a Deployment asks with one path, so its question
 * means the terminating endpoints of a Service on the Node that it comes from, and one endpoint may not answer for two Pods. Pure.
 */
import type { ServiceKey } from '../model/objects.ts';

/** Of one Service on one Node. */
interface Group {
  /** Questions that wait. */
  waiting: number;
  /** Endpoints that a question was answered for, or ended for. */
  readonly claimed: Set<string>;
}

export class Claims {
  readonly #services = new Map<ServiceKey, Map<string, Group>>();

  /** A question waits. */
  enter(service: ServiceKey, node: string): void {
    let nodes = this.#services.get(service);
    if (nodes === undefined) {
      nodes = new Map();
      this.#services.set(service, nodes);
    }
    const group = nodes.get(node) ?? { waiting: 0, claimed: new Set() };
    group.waiting += 1;
    nodes.set(node, group);
  }

  /** A question ended: one of the endpoints that terminate stands for it from now on. */
  leave(service: ServiceKey, node: string, endpoints: readonly string[]): void {
    const group = this.#services.get(service)?.get(node);
    if (group === undefined) return;
    group.waiting -= 1;
    const free = endpoints.find((endpoint) => !group.claimed.has(endpoint));
    if (free !== undefined) group.claimed.add(free);
    this.#tidy(service, node, group);
  }

  /** Why fewer endpoints terminate than questions wait, as a sentence; undefined: there are enough. */
  shortage(service: ServiceKey, node: string, endpoints: readonly string[]): string | undefined {
    const group = this.#services.get(service)?.get(node);
    if (group === undefined) return undefined;
    const free = endpoints.filter((endpoint) => !group.claimed.has(endpoint)).length;
    if (free >= group.waiting) return undefined;
    const asked = group.waiting === 1 ? '1 Pod asks' : `${group.waiting} Pods ask`;
    return `${asked} on Node ${node}, and ${free} endpoints of Service ${service} terminate there`;
  }

  /** The Service changed: an endpoint that no longer terminates stands for no question. `endpointsOn`: those that terminate on a Node. */
  refresh(service: ServiceKey, endpointsOn: (node: string) => readonly string[]): void {
    for (const [node, group] of this.#services.get(service) ?? []) {
      const endpoints = endpointsOn(node);
      for (const claimed of group.claimed) if (!endpoints.includes(claimed)) group.claimed.delete(claimed);
      this.#tidy(service, node, group);
    }
  }

  /** Services with questions that wait, or endpoints that stand for one. */
  get size(): number {
    return this.#services.size;
  }

  #tidy(service: ServiceKey, node: string, group: Group): void {
    if (group.waiting > 0 || group.claimed.size > 0) return;
    const nodes = this.#services.get(service);
    nodes?.delete(node);
    if (nodes?.size === 0) this.#services.delete(service);
  }
}
