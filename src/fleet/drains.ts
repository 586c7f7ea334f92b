/**
 * The questions of `/drained`. An endpoint is drained when it takes no new connections by the newest objects, and every node that counts
 * has the versions in its kernel that were the newest when that became true (k8s#106476). Pure.
 */
import type { Drained, NodeBehind } from '../answers/drained.ts';
import { API_VERSION } from '../answers/head.ts';
import { NoAnswer } from '../answers/problem.ts';
import type { Clock } from '../host/clock.ts';
import type { ServiceKey } from '../model/objects.ts';
import { Claims } from './claims.ts';
import type { FleetNode } from './node.ts';
import type { FleetNodes } from './nodes.ts';
import type { FleetEndpoint, FleetObjects, Target } from './objects.ts';
import { Question } from './question.ts';
import { QuestionIndex } from './question-index.ts';

/** Questions that may wait. */
const MOST = 10_000;
/** Milliseconds for which changes are gathered. */
const GATHER = 20;
/** Nodes that an answer names of each sort. */
const NAMED = 20;

const UNREAD = 'The fleet has not read all Services, EndpointSlices, Nodes and endpoints of agents yet.';
const NO_NODES =
  'The fleet knows no agent: none has an endpoint in the Service of the agents (--agents-service) and a Node object.';

export interface DrainsOptions {
  readonly clock: Clock;
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
}

export interface Patience {
  /** Milliseconds. */
  readonly timeout: number;
  /** Ends the question: the promise rejects with its reason. */
  readonly signal: AbortSignal;
}

export class Drains {
  readonly #clock: Clock;
  readonly #objects: FleetObjects;
  readonly #nodes: FleetNodes;
  readonly #questions = new QuestionIndex();
  readonly #claims = new Claims();
  readonly #due = new Set<Question>();
  #isDue = false;
  #answered = { yes: 0, late: 0 };
  #stopped: string | undefined;

  constructor({ clock, objects, nodes }: DrainsOptions) {
    this.#clock = clock;
    this.#objects = objects;
    this.#nodes = nodes;
    objects.onChange((service, added) => this.#onObjects(service, added));
    nodes.onChange((node) => this.#onNode(node));
  }

  /** Questions that wait. */
  get waiting(): number {
    return this.#questions.all.size;
  }

  /** Answers since the start: drained, or not within the time. */
  get answered(): { readonly yes: number; readonly late: number } {
    return this.#answered;
  }

  /**
   * Resolves as soon as the target is drained, or with `drained: false` when the time is over. Rejects with NoAnswer where the fleet knows
   * too little until then (its lists are not complete, or no node counts), where too many questions wait, and where it stops; with the
   * signal's reason when it aborts.
   */
  ask(target: Target, { timeout, signal }: Patience): Promise<Drained> {
    if (this.#stopped !== undefined) return Promise.reject(new NoAnswer(this.#stopped));
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.waiting >= MOST) {
      return Promise.reject(new NoAnswer(`${MOST} questions wait already, which is the most: ask again later`));
    }
    const settle = Promise.withResolvers<Drained>();
    const question = new Question(target, this.#clock.now(), settle);
    this.#questions.add(question);
    const onAbort = () => this.#end(question, () => question.reject(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    const cancel = this.#clock.after(timeout, () => this.#late(question));
    question.release = () => {
      cancel();
      signal.removeEventListener('abort', onAbort);
    };
    if (target.kind === 'terminating') this.#claims.enter(target.service, target.node);
    this.#stand(question);
    // One more question about the same endpoints may be one too many for them.
    if (target.kind === 'terminating')
      for (const other of this.#questions.ofService(target.service)) this.#stand(other);
    this.#check(question);
    return settle.promise;
  }

  /** The fleet stops: all that wait are rejected with a NoAnswer of these words. */
  stop(why: string): void {
    this.#stopped = why;
    for (const question of [...this.#questions.all]) this.#end(question, () => question.reject(new NoAnswer(why)));
  }

  get #isComplete(): boolean {
    return this.#objects.isComplete && this.#nodes.isComplete;
  }

  #onObjects(service: ServiceKey, added: readonly FleetEndpoint[]): void {
    if (this.#claims.size > 0) {
      this.#claims.refresh(service, (node) => this.#objects.standing({ kind: 'terminating', service, node }).endpoints);
    }
    if (this.waiting === 0) return;
    if (service === '') {
      // After lists: versions of before may be of another store.
      for (const question of this.#questions.all) question.need = undefined;
      this.#onAll();
    }
    // A target that another Service has now.
    for (const { pod, address } of added) {
      for (const question of this.#questions.ofName(address)) this.#changed(question);
      if (pod !== '') for (const question of this.#questions.ofName(pod)) this.#changed(question);
    }
    for (const question of this.#questions.ofService(service)) {
      const isAsBefore = question.target.kind !== 'terminating' && question.need !== undefined;
      if (!isAsBefore || this.#objects.takes(question.target) !== undefined) this.#changed(question);
    }
  }

  #onNode(node: FleetNode | undefined): void {
    if (this.waiting === 0) return;
    if (node === undefined) this.#onAll();
    else for (const question of this.#questions.ofWitness(node)) this.#wake(question);
    for (const question of this.#questions.ofWitness(undefined)) this.#wake(question);
  }

  #onAll(): void {
    for (const question of this.#questions.all) this.#changed(question);
  }

  /** At once, and not when the next questions are looked at: what is true for a moment only must not be missed. */
  #changed(question: Question): void {
    this.#stand(question);
    if (question.need !== undefined) this.#wake(question);
  }

  #stand(question: Question): void {
    if (!this.#isComplete) return;
    const { target } = question;
    const before = question.standing.services;
    const standing = this.#objects.standing(target);
    const shortage =
      target.kind === 'terminating'
        ? this.#claims.shortage(target.service, target.node, standing.endpoints)
        : undefined;
    question.stand(this.#objects, standing, shortage);
    this.#questions.setServices(question, before, standing.services);
  }

  #wake(question: Question): void {
    this.#due.add(question);
    if (this.#isDue) return;
    this.#isDue = true;
    this.#clock.after(GATHER, () => {
      this.#isDue = false;
      const due = [...this.#due];
      this.#due.clear();
      for (const each of due) this.#check(each);
    });
  }

  #check(question: Question): void {
    if (!this.#isComplete || question.need === undefined || !this.#questions.all.has(question)) return;
    const isDone = this.#nodes.counted.length > 0 && question.isDone(this.#nodes);
    if (isDone) {
      this.#answered = { ...this.#answered, yes: this.#answered.yes + 1 };
      this.#end(question, () => question.resolve(this.#answer(question, '')));
    } else this.#questions.setWitness(question, question.witness);
  }

  #late(question: Question): void {
    // What came in the last moment counts.
    this.#check(question);
    if (!this.#questions.all.has(question)) return;
    const unknown = this.#isComplete ? NO_NODES : UNREAD;
    if (!this.#isComplete || (question.need !== undefined && this.#nodes.counted.length === 0)) {
      this.#end(question, () => question.reject(new NoAnswer(unknown)));
      return;
    }
    this.#answered = { ...this.#answered, late: this.#answered.late + 1 };
    this.#end(question, () => question.resolve(this.#answer(question, question.why)));
  }

  #end(question: Question, settle: () => void): void {
    const { target, standing } = question;
    question.release();
    this.#questions.remove(question);
    this.#due.delete(question);
    if (target.kind === 'terminating') this.#claims.leave(target.service, target.node, standing.endpoints);
    settle();
  }

  /** `why`: the target still takes connections; "": it depends on the nodes. */
  #answer({ target, standing, need, witness, startedAt }: Question, why: string): Drained {
    const behind: NodeBehind[] = [];
    const leftOut: NodeBehind[] = [];
    let programmed = 0;
    for (const node of need === undefined ? [] : this.#nodes.counted) {
      // Each node had it when it was looked at, also where its agent was started again since.
      const lack = need !== undefined && (witness !== undefined || node.isLeftOut) && this.#nodes.behind(node, need);
      if (!lack) programmed += 1;
      else if (node.isLeftOut) leftOut.push(lack);
      else behind.push(lack);
    }
    return {
      ...{ apiVersion: API_VERSION, kind: 'Drained' },
      drained: need !== undefined && witness === undefined,
      of: textOf(target),
      services: [...(need === undefined || need.services.length === 0 ? standing : need).services],
      why: need === undefined ? `${why}.` : witness === undefined ? '' : behindText(behind.length),
      nodes: {
        programmed,
        ...{ behind: behind.slice(0, NAMED), behindCount: behind.length },
        ...{ leftOut: leftOut.slice(0, NAMED), leftOutCount: leftOut.length },
      },
      waited: this.#clock.now() - startedAt,
    };
  }
}

function behindText(count: number): string {
  return count === 1
    ? '1 node may still send new connections to it.'
    : `${count} nodes may still send new connections to it.`;
}

function textOf(target: Target): string {
  if (target.kind === 'pod') return `Pod ${target.pod}`;
  if (target.kind === 'address') return target.address;
  return `endpoints of Service ${target.service} on Node ${target.node}`;
}
