/** The answers of the fleet to `/programmed` and `/live`. Pure. */
import type { Clock } from '../base/clock.ts';
import type { Latency } from '../base/latencies.ts';
import type { NodeBehind } from '../inspect/wire/drained.ts';
import { API_VERSION, momentOf, NoAnswer, WrongQuestion } from '../inspect/wire/envelope.ts';
import type { FleetLive, FleetProgrammed, FleetNode as ShownNode } from '../inspect/wire/fleet.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { Drains } from './drains.ts';
import type { FleetNodes } from './fleet-nodes.ts';
import type { FleetObjects } from './fleet-objects.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import { type Lag, type Need, type NodeState, obstacleOf, slownessOf, type TrackedNode } from './tracked-node.ts';
import { nodeBehind } from './waiting-question.ts';
import { WallClock } from './wall-clock.ts';

/** An answer names at most so many nodes that are behind, and so many that are left out. */
const MAX_NAMED_NODES = 100;

interface FleetAnswersOptions {
  readonly clock: Clock;
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
  readonly drains: Drains;
  readonly programming: ProgrammingLatency;
  /** The name of this replica. */
  readonly replica: string;
  readonly version: string;
  /** The API server. */
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
   * The progress of the nodes with one Service (`NS/NAME`), or with the whole cluster for undefined. Throws WrongQuestion when there is no
   * such Service, and NoAnswer before the lists are complete.
   */
  programmed(service: ServiceKey | undefined): FleetProgrammed {
    const { objects, nodes, programming } = this.#options;
    if (!objects.isComplete || !nodes.isComplete) throw new NoAnswer('The fleet has not read all objects yet.');
    const need = this.#needOf(service);
    const behind: NodeBehind[] = [];
    const leftOut: NodeBehind[] = [];
    for (const node of nodes.tracked.all) {
      const lag = nodeBehind(node, need, programming, this.#wallClock);
      if (lag !== undefined) (node.isLeftOut ? leftOut : behind).push(lag);
    }
    return {
      ...{ apiVersion: API_VERSION, kind: 'FleetProgrammed' },
      service: service ?? null,
      versions: need.versions,
      programmed: nodes.tracked.all.length - behind.length - leftOut.length,
      behind: behind.slice(0, MAX_NAMED_NODES),
      behindCount: behind.length,
      leftOut: leftOut.slice(0, MAX_NAMED_NODES),
      latency: latencyOf(programming.summary()),
    };
  }

  /** The content of the page. */
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
    return countsOf(this.#options.nodes.tracked.all.map((node) => stateOf(node, at)));
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

  /** Sorted by name. */
  #nodes(): ShownNode[] {
    const at = this.#at();
    const shown = this.#options.nodes.tracked.all.map((node) => shownNode(node, at));
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
      .map(([state, words]) => `${counts[state]} ${words}`)
      .join(', ');
    return `${counts.current} of ${nodes.length} nodes are up to date: ${list}.`;
  }
}

/** States of nodes that are not up to date, with their words after a number. */
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

/** The page shows a node as behind only after this time and the pace of the agents' events. Most agents sync once a second. */
const MIN_LAG_MS = 3000;

interface ShownAt {
  /** Milliseconds of the clock. */
  readonly now: number;
  /** Milliseconds between two events of an agent. */
  readonly pace: number;
  readonly programming: Pick<ProgrammingLatency, 'behindSince'>;
}

/** The state of a node, its lag in milliseconds (0 when current), and the reason. */
function stateOf(
  node: TrackedNode,
  { now, pace, programming }: ShownAt,
): { readonly state: NodeState; readonly lag: number; readonly why: string } {
  const since = programming.behindSince(node.agent.marks);
  // In whole seconds, so that a node that stays behind does not change four times a second.
  const lagOf = (at: number | undefined) => (at === undefined ? 0 : Math.max(0, Math.floor((now - at) / 1000) * 1000));
  const obstacle = obstacleOf(node) ?? '';
  if (node.isLeftOut) return { state: 'left out', lag: lagOf(since), why: 'its Node is not ready' };
  if (node.address === undefined) return { state: 'no agent', lag: lagOf(since), why: obstacle };
  if (node.link.state === 'too old') return { state: 'too old', lag: lagOf(since), why: obstacle };
  if (node.link.state !== 'open') return { state: 'no answer', lag: lagOf(since), why: obstacle };
  const shown = shownLag(node, since, now - pace - MIN_LAG_MS);
  return shown === undefined
    ? { state: 'current', lag: 0, why: '' }
    : { state: 'behind', lag: lagOf(shown.since), why: shown.why };
}

/** The reason why a node is behind; undefined when it lacks nothing that the fleet saw before `moment`. */
function shownLag(
  node: TrackedNode,
  since: number | undefined,
  moment: number,
): (Lag & { readonly since: number }) | undefined {
  const { agent } = node;
  if (agent.stuck !== undefined) {
    return { why: `its agent cannot write: ${agent.stuck.why}`, since: agent.stuck.since ?? moment };
  }
  if (agent.behind.size > 0) {
    const [[service, lag] = ['', undefined]] = agent.behind;
    const sinces = [...agent.behind.values()].map((each) => each.since ?? moment);
    const more = agent.behind.size === 1 ? '' : ` and ${agent.behind.size - 1} more`;
    return {
      why: `an older version of Service ${service}${more} is in the kernel: ${lag?.why ?? ''}`,
      since: Math.min(...sinces),
    };
  }
  if (agent.marks.slices === '' && node.linkSince < moment) {
    return { why: slownessOf(node), since: node.linkSince };
  }
  if (since === undefined || since >= moment) return undefined;
  return { why: slownessOf(node), since };
}

function shownNode(node: TrackedNode, at: ShownAt): ShownNode {
  const { agent } = node;
  return {
    name: node.name,
    ...stateOf(node, at),
    mode: agent.mode,
    version: agent.version,
    healthy: agent.health.healthy,
    reasons: agent.health.reasons,
    drift: agent.counts.drift,
    faults: agent.counts.faults,
    behind: agent.behind.size,
  };
}
