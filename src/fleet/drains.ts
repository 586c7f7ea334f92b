/**
 * The questions of `/drained`. An endpoint is drained when it takes no new connections by the newest objects, and every node that counts
 * has the versions in its kernel that were the newest when that became true (k8s#106476). Pure.
 */
import type { Clock } from '../base/clock.ts';
import type { Drained } from '../inspect/wire/drained.ts';
import { NoAnswer } from '../inspect/wire/envelope.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { FleetObjects } from './fleet-objects.ts';
import { HookAssignments } from './hook-assignments.ts';
import type { FleetNodes } from './nodes.ts';
import type { ProgrammingLatency } from './programming-latency.ts';
import type { TrackedNode } from './tracked-node.ts';
import type { DrainTarget, FleetEndpoint } from './types.ts';
import { drainAnswer, WaitingQuestion } from './waiting-question.ts';
import { WallClock } from './wall-clock.ts';

/** Questions that may wait. */
const MAX_QUESTIONS = 10_000;
/** Milliseconds for which changes are gathered. */
const GATHER = 20;

const UNREAD = 'the fleet has not read all Services, EndpointSlices, Nodes and endpoints of agents yet';
const NO_NODES =
  'the fleet knows no agent: none has an endpoint in the Service of the agents (--agents-service) and a Node object';

export interface DrainsOptions {
  readonly clock: Clock;
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
  readonly programming: ProgrammingLatency;
}

export interface QuestionLimits {
  /** Milliseconds. */
  readonly timeout: number;
  /** Ends the question: the promise rejects with its reason. */
  readonly signal: AbortSignal;
}

export class Drains {
  /** Answers since the start: drained, or not within the time. */
  readonly answered = { yes: 0, late: 0 };
  readonly #options: DrainsOptions;
  readonly #wallClock: WallClock;
  readonly #questions = new QuestionIndex();
  readonly #assignments = new HookAssignments();
  readonly #due: Coalescer<WaitingQuestion>;
  #stopped: string | undefined;

  constructor(options: DrainsOptions) {
    const { clock, objects, nodes } = options;
    this.#options = options;
    this.#wallClock = new WallClock(clock);
    this.#due = new Coalescer(clock, GATHER, (question) => this.#check(question));
    objects.changes.add((service, added) => this.#onObjects(service, added));
    nodes.changes.add((node) => this.#onNode(node));
  }

  /** Questions that wait. */
  get waiting(): number {
    return this.#questions.all.size;
  }

  /**
   * Resolves as soon as the target is drained, or with `drained: false` when the time is over. Rejects with NoAnswer where the fleet knows
   * too little until then (its lists are not complete, or no node counts), where too many questions wait, and where it stops; with the
   * signal's reason when it aborts.
   */
  ask(target: DrainTarget, { timeout, signal }: QuestionLimits): Promise<Drained> {
    const { promise, resolve, reject } = Promise.withResolvers<Drained>();
    const most =
      this.waiting < MAX_QUESTIONS
        ? undefined
        : `${MAX_QUESTIONS} questions wait already, and that is the limit: ask again later`;
    const refusal = this.#stopped ?? most;
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
    this.#stand(question);
    if (target.kind === 'terminating') {
      this.#assignments.enter(target.service, target.node, question.startedAt);
      // One more question about the same endpoints may be one too many for them.
      for (const each of this.#questions.ofService(target.service)) this.#stand(each);
    }
    this.#check(question);
    return promise;
  }

  /** The fleet stops: all that wait, and all that ask later, are rejected with a NoAnswer of these words. */
  stop(why: string): void {
    this.#stopped = why;
    for (const question of [...this.#questions.all]) this.#end(question, () => question.reject(new NoAnswer(why)));
  }

  get #isComplete(): boolean {
    return this.#options.objects.isComplete && this.#options.nodes.isComplete;
  }

  #onObjects(service: ServiceKey, added: readonly FleetEndpoint[]): void {
    const { objects } = this.#options;
    if (this.#assignments.size > 0) {
      this.#assignments.refresh(service, (node) => objects.standing({ kind: 'terminating', service, node }).endpoints);
    }
    if (this.waiting === 0) return;
    if (service === '') {
      // After lists: versions of before may be of another store.
      for (const question of this.#questions.all) question.need = undefined;
      this.#onNode(undefined);
    }
    // A target that another Service has now.
    for (const name of added.flatMap(({ pod, address }) => [pod, address])) {
      for (const question of this.#questions.ofName(name)) this.#changed(question);
    }
    for (const question of this.#questions.ofService(service)) {
      const isAsBefore = question.target.kind !== 'terminating' && question.need !== undefined;
      if (!isAsBefore || objects.takes(question.target) !== undefined) this.#changed(question);
    }
  }

  #onNode(node: TrackedNode | undefined): void {
    if (node === undefined) for (const question of this.#questions.all) this.#changed(question);
    else for (const question of this.#questions.ofWitness(node)) this.#due.add(question);
    for (const question of this.#questions.ofWitness(undefined)) this.#due.add(question);
  }

  /** At once, and not when the next questions are looked at: what is true for a moment only must not be missed. */
  #changed(question: WaitingQuestion): void {
    this.#stand(question);
    if (question.need !== undefined) this.#due.add(question);
  }

  #stand(question: WaitingQuestion): void {
    if (!this.#isComplete) return;
    const { target } = question;
    const { objects } = this.#options;
    const before = question.standing.services;
    const standing = objects.standing(target);
    const shortage =
      target.kind === 'terminating'
        ? this.#assignments.shortage(target.service, target.node, question.startedAt, objects.endings(target))
        : undefined;
    question.stand(objects, standing, shortage);
    this.#questions.setServices(question, before, standing.services);
  }

  #check(question: WaitingQuestion): void {
    const { counted } = this.#options.nodes;
    if (!this.#isComplete || question.need === undefined || !this.#questions.all.has(question)) return;
    if (counted.all.length === 0 || !question.isDone(counted)) {
      this.#questions.setWitness(question, question.witness);
      return;
    }
    this.answered.yes += 1;
    this.#answer(question);
  }

  #late(question: WaitingQuestion): void {
    // What came in the last moment counts.
    this.#check(question);
    if (!this.#questions.all.has(question)) return;
    const hasNodes = this.#options.nodes.counted.all.length > 0;
    if (this.#isComplete && (question.need === undefined || hasNodes)) {
      this.answered.late += 1;
      this.#answer(question);
    } else this.#end(question, () => question.reject(new NoAnswer(this.#isComplete ? NO_NODES : UNREAD)));
  }

  #answer(question: WaitingQuestion): void {
    const { nodes, programming, clock } = this.#options;
    const options = { nodes: nodes.counted.all, programming, wallClock: this.#wallClock, now: clock.now() };
    this.#end(question, () => question.resolve(drainAnswer(question, options)));
  }

  #end(question: WaitingQuestion, settle: () => void): void {
    const { target, startedAt } = question;
    question.release();
    this.#questions.remove(question);
    this.#due.delete(question);
    if (target.kind === 'terminating') {
      this.#assignments.leave(target.service, target.node, startedAt, this.#options.objects.endings(target));
    }
    settle();
  }
}

/** Gathers items for a moment, and passes each of them on once. Pure. */
class Coalescer<T> {
  readonly #clock: Pick<Clock, 'after'>;
  readonly #moment: number;
  readonly #take: (item: T) => void;
  readonly #items = new Set<T>();
  #isDue = false;

  /** `moment`: milliseconds. */
  constructor(clock: Pick<Clock, 'after'>, moment: number, take: (item: T) => void) {
    this.#clock = clock;
    this.#moment = moment;
    this.#take = take;
  }

  add(item: T): void {
    this.#items.add(item);
    if (this.#isDue) return;
    this.#isDue = true;
    this.#clock.after(this.#moment, () => {
      this.#isDue = false;
      const items = [...this.#items];
      this.#items.clear();
      for (const each of items) this.#take(each);
    });
  }

  delete(item: T): void {
    this.#items.delete(item);
  }
}

const EMPTY: ReadonlySet<WaitingQuestion> = new Set();

/** Questions that wait, by the Services and names that concern them, and by the node that they wait for. Pure. */
class QuestionIndex {
  readonly all = new Set<WaitingQuestion>();
  readonly #byService = new Map<ServiceKey, Set<WaitingQuestion>>();
  /** By Pod or address. */
  readonly #byName = new Map<string, Set<WaitingQuestion>>();
  readonly #byWitness = new Map<TrackedNode | undefined, Set<WaitingQuestion>>();
  readonly #witnesses = new Map<WaitingQuestion, TrackedNode | undefined>();

  ofService(service: ServiceKey): ReadonlySet<WaitingQuestion> {
    return this.#byService.get(service) ?? EMPTY;
  }

  ofName(name: string): ReadonlySet<WaitingQuestion> {
    return this.#byName.get(name) ?? EMPTY;
  }

  /** Those that wait for a node; undefined: for none that can be named. */
  ofWitness(node: TrackedNode | undefined): ReadonlySet<WaitingQuestion> {
    return this.#byWitness.get(node) ?? EMPTY;
  }

  add(question: WaitingQuestion): void {
    const { target } = question;
    this.all.add(question);
    if (target.kind === 'terminating') put(this.#byService, target.service, question);
    else put(this.#byName, target.kind === 'pod' ? target.pod : target.address, question);
  }

  /** Its Services are others now. */
  setServices(question: WaitingQuestion, before: readonly ServiceKey[], now: readonly ServiceKey[]): void {
    const { target } = question;
    const isOwn = (service: ServiceKey) => target.kind === 'terminating' && target.service === service;
    for (const service of before)
      if (!now.includes(service) && !isOwn(service)) take(this.#byService, service, question);
    for (const service of now) put(this.#byService, service, question);
  }

  /** It waits for a node, or for something else where `node` is undefined. */
  setWitness(question: WaitingQuestion, node: TrackedNode | undefined): void {
    if (this.#witnesses.has(question)) take(this.#byWitness, this.#witnesses.get(question), question);
    this.#witnesses.set(question, node);
    put(this.#byWitness, node, question);
  }

  remove(question: WaitingQuestion): void {
    const { target, standing } = question;
    this.all.delete(question);
    for (const service of standing.services) take(this.#byService, service, question);
    if (target.kind === 'terminating') take(this.#byService, target.service, question);
    else take(this.#byName, target.kind === 'pod' ? target.pod : target.address, question);
    if (this.#witnesses.has(question)) take(this.#byWitness, this.#witnesses.get(question), question);
    this.#witnesses.delete(question);
  }
}

function put<K>(map: Map<K, Set<WaitingQuestion>>, key: K, question: WaitingQuestion): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, new Set([question]));
  else known.add(question);
}

function take<K>(map: Map<K, Set<WaitingQuestion>>, key: K, question: WaitingQuestion): void {
  const known = map.get(key);
  known?.delete(question);
  if (known?.size === 0) map.delete(key);
}
