/**
 * The questions of `/drained`, and which endpoint each question of a preStop hook stands for. An endpoint is drained when it takes no new
 * connections by the newest objects, and every node that counts has the versions in its kernel that were the newest when that became true
 * (k8s#106476). Pure.
 */
import type { Clock } from '../base/clock.ts';
import type { Drained } from '../inspect/wire/drained.ts';
import { NoAnswer } from '../inspect/wire/envelope.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { FleetNodes } from './fleet-nodes.ts';
import type { FleetObjects } from './fleet-objects.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import type { TrackedNode } from './tracked-node.ts';
import type { DrainTarget, Ending, FleetEndpoint } from './types.ts';
import { drainAnswer, WaitingQuestion } from './waiting-question.ts';
import { WallClock } from './wall-clock.ts';

/** Questions that may wait at once. */
const MAX_QUESTIONS = 10_000;
/** Changes within this time cause one check of a question. */
const GATHER_MS = 20;

const UNREAD = 'the fleet has not read all Services, EndpointSlices, Nodes and endpoints of agents yet';
const NO_NODES =
  'the fleet knows no agent: none has an endpoint in the Service of the agents (--agents-service) and a Node object';

interface DrainsOptions {
  readonly clock: Clock;
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
  readonly programming: ProgrammingLatency;
}

interface QuestionLimits {
  /** Milliseconds. */
  readonly timeout: number;
  /** Ends the question: the promise rejects with its reason. */
  readonly signal: AbortSignal;
}

export class Drains {
  /** Answers since the start: `yes` for drained, `late` for not drained within the time. */
  readonly answered = { yes: 0, late: 0 };
  readonly #options: DrainsOptions;
  readonly #wallClock: WallClock;
  readonly #questions = new QuestionIndex();
  readonly #assignments = new HookAssignments();
  readonly #queue: Coalescer<WaitingQuestion>;
  #stopped: string | undefined;

  constructor(options: DrainsOptions) {
    const { clock, objects, nodes } = options;
    this.#options = options;
    this.#wallClock = new WallClock(clock);
    this.#queue = new Coalescer(clock, GATHER_MS, (question) => this.#check(question));
    objects.changes.add((...change) => this.#onObjects(...change));
    nodes.changes.add((node) => this.#onNode(node));
  }

  /** Questions that wait. */
  get waiting(): number {
    return this.#questions.all.size;
  }

  /**
   * Resolves as soon as the target is drained, or with `drained: false` when the time is over. Rejects with NoAnswer when the fleet knew
   * too little until then (its lists are not complete, or no node counts), when too many questions wait, and when it stops. Rejects with the
   * signal's reason when it aborts.
   */
  ask(target: DrainTarget, { timeout, signal }: QuestionLimits): Promise<Drained> {
    const { promise, resolve, reject } = Promise.withResolvers<Drained>();
    const overload =
      this.waiting < MAX_QUESTIONS
        ? undefined
        : `${MAX_QUESTIONS} questions wait already, and that is the limit: ask again later`;
    const refusal = this.#stopped ?? overload;
    if (signal.aborted || refusal !== undefined) {
      reject(signal.aborted ? signal.reason : new NoAnswer(refusal));
      return promise;
    }
    const { clock } = this.#options;
    const onAbort = () => this.#end(question, () => reject(signal.reason));
    const question = new WaitingQuestion(target, clock.now(), { resolve, reject });
    const cancel = clock.after(timeout, () => this.#late(question));
    question.release = () => {
      cancel();
      signal.removeEventListener('abort', onAbort);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    this.#questions.add(question);
    this.#update(question);
    if (target.kind === 'terminating') {
      this.#assignments.enter(target, question.startedAt);
      // There may now be more questions about these endpoints than endpoints.
      for (const each of this.#questions.ofHooks(target)) this.#update(each);
    }
    this.#check(question);
    return promise;
  }

  /** The fleet stops: questions that wait, and later ones, are rejected with a NoAnswer of this text. */
  stop(why: string): void {
    this.#stopped = why;
    for (const question of [...this.#questions.all]) this.#end(question, () => question.reject(new NoAnswer(why)));
  }

  get #isComplete(): boolean {
    return this.#options.objects.isComplete && this.#options.nodes.isComplete;
  }

  #onObjects(service: ServiceKey, added: readonly FleetEndpoint[], isEvent: boolean): void {
    const { objects } = this.#options;
    if (this.#assignments.size > 0) {
      this.#assignments.refresh(service, (node) => objects.stateOf({ kind: 'terminating', service, node }).endpoints);
    }
    if (this.waiting === 0) return;
    if (service === '') {
      // After new lists: earlier versions may be those of another store.
      for (const question of this.#questions.all) question.need = undefined;
      this.#onNode(undefined);
    }
    const changed = (question: WaitingQuestion) => {
      // The target may have taken connections since the last event, and nodes may have written that: they need what is newest now.
      if (!isEvent) question.need = undefined;
      this.#changed(question);
    };
    // Another Service may have the target now.
    for (const name of added.flatMap(({ pod, address }) => [pod, address])) {
      for (const question of this.#questions.ofName(name)) changed(question);
    }
    for (const question of this.#questions.ofService(service)) {
      const isAsBefore = isEvent && question.target.kind !== 'terminating' && question.need !== undefined;
      if (!isAsBefore || objects.takes(question.target) !== undefined) changed(question);
    }
  }

  #onNode(node: TrackedNode | undefined): void {
    if (node === undefined) for (const question of this.#questions.all) this.#changed(question);
    else for (const question of this.#questions.waitingFor(node)) this.#queue.add(question);
    for (const question of this.#questions.waitingFor(undefined)) this.#queue.add(question);
  }

  /** Updates the question at once, not with the next check: it must not miss a state that lasts for a moment only. */
  #changed(question: WaitingQuestion): void {
    this.#update(question);
    if (question.need !== undefined) this.#queue.add(question);
  }

  #update(question: WaitingQuestion): void {
    if (!this.#isComplete) return;
    const { target } = question;
    const { objects } = this.#options;
    const before = question.state.services;
    const state = objects.stateOf(target);
    const shortage =
      target.kind === 'terminating'
        ? this.#assignments.shortage(target, question.startedAt, objects.endings(target.service, state.endpoints))
        : undefined;
    question.update(objects, state, shortage);
    this.#questions.setServices(question, before, state.services);
  }

  #check(question: WaitingQuestion): void {
    const { tracked: counted } = this.#options.nodes;
    if (!this.#isComplete || question.need === undefined || !this.#questions.all.has(question)) return;
    if (counted.all.length === 0 || !question.isDone(counted)) {
      this.#questions.setBlockingNode(question, question.blockingNode);
      return;
    }
    this.answered.yes += 1;
    this.#answer(question);
  }

  #late(question: WaitingQuestion): void {
    // Changes of the last moment count.
    this.#check(question);
    if (!this.#questions.all.has(question)) return;
    const hasNodes = this.#options.nodes.tracked.all.length > 0;
    if (this.#isComplete && (question.need === undefined || hasNodes)) {
      this.answered.late += 1;
      this.#answer(question);
    } else this.#end(question, () => question.reject(new NoAnswer(this.#isComplete ? NO_NODES : UNREAD)));
  }

  #answer(question: WaitingQuestion): void {
    const { nodes, programming, clock } = this.#options;
    const options = { nodes: nodes.tracked.all, programming, wallClock: this.#wallClock, now: clock.now() };
    this.#end(question, () => question.resolve(drainAnswer(question, options)));
  }

  #end(question: WaitingQuestion, settle: () => void): void {
    const { target, startedAt } = question;
    question.release();
    this.#questions.remove(question);
    this.#queue.delete(question);
    if (target.kind === 'terminating') {
      const { objects } = this.#options;
      this.#assignments.leave(target, startedAt, objects.endings(target.service, objects.stateOf(target).endpoints));
    }
    settle();
  }
}

/** Gathers items for a moment, and passes each of them on once. */
class Coalescer<T> {
  readonly #clock: Pick<Clock, 'after'>;
  readonly #milliseconds: number;
  readonly #handle: (item: T) => void;
  readonly #items = new Set<T>();
  #isScheduled = false;

  constructor(clock: Pick<Clock, 'after'>, milliseconds: number, handle: (item: T) => void) {
    this.#clock = clock;
    this.#milliseconds = milliseconds;
    this.#handle = handle;
  }

  add(item: T): void {
    this.#items.add(item);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.after(this.#milliseconds, () => {
      this.#isScheduled = false;
      const items = [...this.#items];
      this.#items.clear();
      for (const each of items) this.#handle(each);
    });
  }

  delete(item: T): void {
    this.#items.delete(item);
  }
}

type HookTarget = Extract<DrainTarget, { kind: 'terminating' }>;

const EMPTY: ReadonlySet<WaitingQuestion> = new Set();

/** Questions that wait, by the Services and names that concern them, and by the node that they wait for. */
class QuestionIndex {
  readonly all = new Set<WaitingQuestion>();
  readonly #byService = new Map<ServiceKey, Set<WaitingQuestion>>();
  /** By Pod or address. */
  readonly #byName = new Map<string, Set<WaitingQuestion>>();
  readonly #byBlockingNode = new Map<TrackedNode | undefined, Set<WaitingQuestion>>();
  readonly #blockingNodes = new Map<WaitingQuestion, TrackedNode | undefined>();

  ofService(service: ServiceKey): ReadonlySet<WaitingQuestion> {
    return this.#byService.get(service) ?? EMPTY;
  }

  /** The questions of preStop hooks about the same endpoints. */
  *ofHooks({ service, node }: HookTarget): Iterable<WaitingQuestion> {
    for (const question of this.ofService(service)) {
      const { target } = question;
      if (target.kind === 'terminating' && target.service === service && target.node === node) yield question;
    }
  }

  ofName(name: string): ReadonlySet<WaitingQuestion> {
    return this.#byName.get(name) ?? EMPTY;
  }

  /** Questions that wait for a node, or with undefined those that wait for no particular node. */
  waitingFor(node: TrackedNode | undefined): ReadonlySet<WaitingQuestion> {
    return this.#byBlockingNode.get(node) ?? EMPTY;
  }

  add(question: WaitingQuestion): void {
    const { target } = question;
    this.all.add(question);
    if (target.kind === 'terminating') addTo(this.#byService, target.service, question);
    else addTo(this.#byName, target.kind === 'pod' ? target.pod : target.address, question);
  }

  /** Files a question under the Services that it has now. */
  setServices(question: WaitingQuestion, before: readonly ServiceKey[], now: readonly ServiceKey[]): void {
    const { target } = question;
    const isOwn = (service: ServiceKey) => target.kind === 'terminating' && target.service === service;
    for (const service of before)
      if (!now.includes(service) && !isOwn(service)) removeFrom(this.#byService, service, question);
    for (const service of now) addTo(this.#byService, service, question);
  }

  /** The question waits for this node, or with undefined for something else. */
  setBlockingNode(question: WaitingQuestion, node: TrackedNode | undefined): void {
    if (this.#blockingNodes.has(question))
      removeFrom(this.#byBlockingNode, this.#blockingNodes.get(question), question);
    this.#blockingNodes.set(question, node);
    addTo(this.#byBlockingNode, node, question);
  }

  remove(question: WaitingQuestion): void {
    const { target, state } = question;
    this.all.delete(question);
    for (const service of state.services) removeFrom(this.#byService, service, question);
    if (target.kind === 'terminating') removeFrom(this.#byService, target.service, question);
    else removeFrom(this.#byName, target.kind === 'pod' ? target.pod : target.address, question);
    if (this.#blockingNodes.has(question))
      removeFrom(this.#byBlockingNode, this.#blockingNodes.get(question), question);
    this.#blockingNodes.delete(question);
  }
}

function addTo<K>(map: Map<K, Set<WaitingQuestion>>, key: K, question: WaitingQuestion): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, new Set([question]));
  else known.add(question);
}

function removeFrom<K>(map: Map<K, Set<WaitingQuestion>>, key: K, question: WaitingQuestion): void {
  const known = map.get(key);
  known?.delete(question);
  if (known?.size === 0) map.delete(key);
}

/**
 * An endpoint may terminate for this long before the hook of its Pod asks. One that terminates for longer belongs to a Pod without a hook,
 * or to one whose hook is over.
 */
const MAX_HOOK_DELAY_MS = 10_000;

/** The questions of one Service and one Node. */
interface HookGroup {
  /** Start times of the questions that wait, the oldest first, in milliseconds of the clock. */
  readonly waiting: number[];
  /** Endpoints that a question was answered for, or ended for. */
  readonly claimed: Set<string>;
}

/**
 * The endpoints that questions of preStop hooks were answered for. The hooks of all Pods of a Deployment ask with the same path, so their
 * question means the terminating endpoints of a Service on the Node that asks, and one endpoint may not answer for two Pods.
 */
class HookAssignments {
  readonly #services = new Map<ServiceKey, Map<string, HookGroup>>();

  /** A question began to wait at this moment. */
  enter({ service, node }: HookTarget, startedAt: number): void {
    let nodes = this.#services.get(service);
    if (nodes === undefined) {
      nodes = new Map();
      this.#services.set(service, nodes);
    }
    const group = nodes.get(node) ?? { waiting: [], claimed: new Set() };
    group.waiting.push(startedAt);
    nodes.set(node, group);
  }

  /** A question of this moment ended: the oldest of the endpoints that may stand for it is claimed from now on. */
  leave({ service, node }: HookTarget, startedAt: number, endings: readonly Ending[]): void {
    const group = this.#services.get(service)?.get(node);
    if (group === undefined) return;
    group.waiting.splice(group.waiting.indexOf(startedAt), 1);
    const free = freeOf(group, endings).find(({ since }) => mayStandFor(startedAt, since));
    if (free !== undefined) group.claimed.add(free.endpoint);
    this.#tidy(service, node, group);
  }

  /**
   * The reason why the question of this moment has no endpoint of its own, as a sentence; undefined when it has one. Each question that
   * waits needs an endpoint that had not terminated for long when it was asked. Earlier questions may use newer endpoints.
   */
  shortage({ service, node }: HookTarget, startedAt: number, endings: readonly Ending[]): string | undefined {
    const group = this.#services.get(service)?.get(node);
    if (group === undefined) return undefined;
    const all = freeOf(group, endings);
    let old = 0;
    for (const [before, moment] of group.waiting.entries()) {
      if (moment > startedAt) return undefined;
      while (old < all.length && !mayStandFor(moment, all[old]?.since ?? 0)) old += 1;
      const [free, waiting] = [all.length - old, group.waiting.length - before];
      if (free >= waiting) continue;
      const asked = waiting === 1 ? '1 Pod asks' : `${waiting} Pods ask`;
      const shown = `its slices show ${free} that began to end there, at most ${MAX_HOOK_DELAY_MS / 1000} s earlier`;
      return `${asked} on Node ${node} for Service ${service}, and ${shown}`;
    }
    return undefined;
  }

  /** After a change of the Service: releases endpoints that no longer terminate. `endpointsOn`: those that terminate on a Node. */
  refresh(service: ServiceKey, endpointsOn: (node: string) => readonly string[]): void {
    for (const [node, group] of this.#services.get(service) ?? []) {
      const endpoints = endpointsOn(node);
      for (const claimed of group.claimed) if (!endpoints.includes(claimed)) group.claimed.delete(claimed);
      this.#tidy(service, node, group);
    }
  }

  /** Services with questions that wait, or with claimed endpoints. */
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

/** The endpoints that no question was answered for, those first that began to terminate first. */
function freeOf({ claimed }: HookGroup, endings: readonly Ending[]): Ending[] {
  return endings.filter(({ endpoint }) => !claimed.has(endpoint)).sort((a, b) => a.since - b.since);
}

/** Whether an endpoint that began to terminate at `since` may stand for a question of this moment. */
function mayStandFor(startedAt: number, since: number): boolean {
  return since >= startedAt - MAX_HOOK_DELAY_MS;
}
