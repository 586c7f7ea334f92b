/** What the fleet answers to `/programmed` and `/live`. Pure. */

import type { Clock } from '../base/clock.ts';
import type { Latency } from '../base/latencies.ts';
import type { NodeBehind } from '../inspect/wire/drained.ts';
import { API_VERSION, momentOf } from '../inspect/wire/envelope.ts';
import type { FleetLive, FleetProgrammed, FleetNode as ShownNode } from '../inspect/wire/fleet.ts';
import { NoAnswer, WrongQuestion } from '../inspect/wire/problem.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { Need } from './agent-state.ts';
import { nodeBehind } from './drain-answer.ts';
import type { Drains } from './drains.ts';
import type { FleetObjects } from './fleet-objects.ts';
import type { FleetNodes } from './nodes.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import { type ShownAt, shownNode, stateOf } from './shown-node.ts';
import type { NodeState } from './tracked-node.ts';
import { WallClock } from './wall-clock.ts';

/** Nodes that an answer names of each sort. */
const NAMED = 100;

export interface FleetAnswersOptions {
  readonly clock: Clock;
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
  readonly drains: Drains;
  readonly programming: ProgrammingLatency;
  /** Name of this replica, the version of the program, and the API server. */
  readonly replica: string;
  readonly version: string;
  readonly source: string;
}

export class FleetAnswers {
  readonly #options: FleetAnswersOptions;
  readonly #wallClock: WallClock;
  readonly #startedAt: number;

  constructor(options: FleetAnswersOptions) {
    this.#options = options;
    this.#wallClock = new WallClock(options.clock);
    this.#startedAt = options.clock.now();
  }

  /**
   * How far the nodes are with one Service (`NS/NAME`), or with all; undefined: of the whole cluster. Throws WrongQuestion where there is
   * no such Service, NoAnswer before the lists are complete.
   */
  programmed(service: ServiceKey | undefined): FleetProgrammed {
    const { objects, nodes, programming } = this.#options;
    if (!objects.isComplete || !nodes.isComplete) throw new NoAnswer('The fleet has not read all objects yet.');
    const need = this.#needOf(service);
    const behind: NodeBehind[] = [];
    const leftOut: NodeBehind[] = [];
    for (const node of nodes.counted.all) {
      const lack = nodeBehind(node, need, programming, this.#wallClock);
      if (lack !== undefined) (node.isLeftOut ? leftOut : behind).push(lack);
    }
    return {
      ...{ apiVersion: API_VERSION, kind: 'FleetProgrammed' },
      service: service ?? null,
      versions: need.versions,
      programmed: nodes.counted.all.length - behind.length - leftOut.length,
      behind: behind.slice(0, NAMED),
      behindCount: behind.length,
      leftOut: leftOut.slice(0, NAMED),
      latency: latencyOf(programming.summary()),
    };
  }

  /** All that the page shows. */
  live(): FleetLive {
    const { clock, drains, programming, replica, version, source } = this.#options;
    const now = clock.now();
    const shown = this.#nodes();
    return {
      ...{ replica, version, source },
      at: this.#wallClock.of(now),
      startedAt: this.#wallClock.of(this.#startedAt),
      sentence: this.#sentence(shown),
      nodes: shown,
      gone: [],
      latency: latencyOf(programming.summary()),
      minutes: programming.minutes().map(({ since, changes, p50, p99, most }) => ({
        at: momentOf(since),
        ...{ count: changes, p50, p99, most },
      })),
      slowest: programming
        .slowest()
        .map(({ service, milliseconds, at, node }) => ({ service, milliseconds, at: this.#wallClock.of(at), node })),
      waiting: drains.waiting,
      drained: { ...drains.answered },
    };
  }

  /** Nodes by state. */
  states(): Readonly<Record<NodeState, number>> {
    const at = this.#at();
    return countsOf(this.#options.nodes.counted.all.map((node) => stateOf(node, at)));
  }

  #needOf(service: ServiceKey | undefined): Need {
    const { objects } = this.#options;
    if (service === undefined) {
      return { versions: objects.versions.newest, services: [], namespace: '', families: objects.families };
    }
    const versions = objects.services.newestOf(service);
    if (versions === undefined) throw new WrongQuestion(`there is no Service ${service}, and no EndpointSlice of it`);
    return { versions, services: [service], families: objects.services.familiesOf(service) };
  }

  #at(): ShownAt {
    const { clock, nodes, programming } = this.#options;
    return { now: clock.now(), pace: nodes.pace, programming };
  }

  /** By name. */
  #nodes(): ShownNode[] {
    const at = this.#at();
    const shown = this.#options.nodes.counted.all.map((node) => shownNode(node, at));
    return shown.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  #sentence(nodes: readonly ShownNode[]): string {
    const { objects, nodes: known } = this.#options;
    if (!objects.isComplete || !known.isComplete) return 'The fleet is still reading the objects of the cluster.';
    if (nodes.length === 0) return 'The fleet knows no agent.';
    const counts = countsOf(nodes);
    const all = nodes.length === 1 ? 'The only node is' : `All ${nodes.length} nodes are`;
    if (counts.current === nodes.length) return `${all} up to date.`;
    const list = OTHERS.filter(([state]) => counts[state] > 0)
      .map(([state, says]) => `${counts[state]} ${says}`)
      .join(', ');
    return `${counts.current} of ${nodes.length} nodes are up to date: ${list}.`;
  }
}

/** States of nodes that are not up to date, and how they read after a number. */
const OTHERS: readonly (readonly [NodeState, string])[] = [
  ['behind', 'behind'],
  ['no answer', 'without an answer'],
  ['no agent', 'without an agent'],
  ['too old', 'with an agent that is too old'],
  ['left out', 'left out because not ready'],
];

function countsOf(nodes: readonly { readonly state: NodeState }[]): Record<NodeState, number> {
  const counts = { current: 0, behind: 0, 'no answer': 0, 'no agent': 0, 'too old': 0, 'left out': 0 };
  for (const { state } of nodes) counts[state] += 1;
  return counts;
}

function latencyOf(latency: Latency | undefined): FleetLive['latency'] {
  if (latency === undefined) return null;
  const { changes, p50, p99, most, since } = latency;
  return { count: changes, p50, p99, most, since: momentOf(since) };
}
