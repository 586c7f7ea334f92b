/**
 * Which endpoints questions of preStop hooks were answered for. A hook of all Pods of a Deployment asks with one path, so its question
 * means the terminating endpoints of a Service on the Node that it comes from, and one endpoint may not answer for two Pods. Pure.
 */
import type { ServiceKey } from '../proxy/model/objects.ts';

/** An endpoint that terminates. */
export interface Ending {
  /** Its Pod, or its address. */
  readonly endpoint: string;
  /** When the fleet saw that it terminates, in milliseconds of the clock. */
  readonly since: number;
}

/**
 * Milliseconds that an endpoint may terminate before the hook of its Pod asks. One that terminates for longer belongs to a Pod without a
 * hook, or whose hook is over.
 */
const EARLY = 10_000;

/** Of one Service on one Node. */
interface HookGroup {
  /** When the questions that wait were asked, in milliseconds of the clock. */
  readonly waiting: number[];
  /** Endpoints that a question was answered for, or ended for. */
  readonly claimed: Set<string>;
}

export class HookAssignments {
  readonly #services = new Map<ServiceKey, Map<string, HookGroup>>();

  /** A question waits since this moment. */
  enter(service: ServiceKey, node: string, startedAt: number): void {
    let nodes = this.#services.get(service);
    if (nodes === undefined) {
      nodes = new Map();
      this.#services.set(service, nodes);
    }
    const group = nodes.get(node) ?? { waiting: [], claimed: new Set() };
    group.waiting.push(startedAt);
    nodes.set(node, group);
  }

  /** A question of this moment ended: one of the endpoints that terminate stands for it from now on, the oldest that may. */
  leave(service: ServiceKey, node: string, startedAt: number, endings: readonly Ending[]): void {
    const group = this.#services.get(service)?.get(node);
    if (group === undefined) return;
    group.waiting.splice(group.waiting.indexOf(startedAt), 1);
    const [free] = freeOf(group, endings, startedAt).sort((a, b) => a.since - b.since);
    if (free !== undefined) group.claimed.add(free.endpoint);
    this.#tidy(service, node, group);
  }

  /**
   * Why the question of this moment has no endpoint for itself, as a sentence; undefined: it has. Each question that waits needs one that
   * has not terminated for long when it was asked, and those of earlier questions may take newer ones.
   */
  shortage(service: ServiceKey, node: string, startedAt: number, endings: readonly Ending[]): string | undefined {
    const group = this.#services.get(service)?.get(node);
    if (group === undefined) return undefined;
    for (const moment of new Set(group.waiting)) {
      if (moment > startedAt) continue;
      const free = freeOf(group, endings, moment).length;
      const waiting = group.waiting.filter((each) => each >= moment).length;
      if (free >= waiting) continue;
      const asked = waiting === 1 ? '1 Pod asks' : `${waiting} Pods ask`;
      const seen = `its slices show ${free} that began to end there, at most ${EARLY / 1000} s earlier`;
      return `${asked} on Node ${node} for Service ${service}, and ${seen}`;
    }
    return undefined;
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

  #tidy(service: ServiceKey, node: string, group: HookGroup): void {
    if (group.waiting.length > 0 || group.claimed.size > 0) return;
    const nodes = this.#services.get(service);
    nodes?.delete(node);
    if (nodes?.size === 0) this.#services.delete(service);
  }
}

/** The endpoints that may stand for a question of this moment. */
function freeOf({ claimed }: HookGroup, endings: readonly Ending[], startedAt: number): Ending[] {
  return endings.filter(({ endpoint, since }) => !claimed.has(endpoint) && since >= startedAt - EARLY);
}
