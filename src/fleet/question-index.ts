/** Questions that wait, by the Services and names that concern them, and by the node that they wait for. Pure. */
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { FleetNode } from './node.ts';
import type { Question } from './question.ts';

const EMPTY: ReadonlySet<Question> = new Set();

export class QuestionIndex {
  readonly all = new Set<Question>();
  readonly #byService = new Map<ServiceKey, Set<Question>>();
  /** By Pod or address. */
  readonly #byName = new Map<string, Set<Question>>();
  readonly #byWitness = new Map<FleetNode | undefined, Set<Question>>();
  readonly #witnesses = new Map<Question, FleetNode | undefined>();

  ofService(service: ServiceKey): ReadonlySet<Question> {
    return this.#byService.get(service) ?? EMPTY;
  }

  ofName(name: string): ReadonlySet<Question> {
    return this.#byName.get(name) ?? EMPTY;
  }

  /** Those that wait for a node; undefined: for none that can be named. */
  ofWitness(node: FleetNode | undefined): ReadonlySet<Question> {
    return this.#byWitness.get(node) ?? EMPTY;
  }

  add(question: Question): void {
    const { target } = question;
    this.all.add(question);
    if (target.kind === 'terminating') put(this.#byService, target.service, question);
    else put(this.#byName, target.kind === 'pod' ? target.pod : target.address, question);
  }

  /** Its Services are others now. */
  setServices(question: Question, before: readonly ServiceKey[], now: readonly ServiceKey[]): void {
    const { target } = question;
    const isOwn = (service: ServiceKey) => target.kind === 'terminating' && target.service === service;
    for (const service of before)
      if (!now.includes(service) && !isOwn(service)) take(this.#byService, service, question);
    for (const service of now) put(this.#byService, service, question);
  }

  /** It waits for a node, or for something else where `node` is undefined. */
  setWitness(question: Question, node: FleetNode | undefined): void {
    if (this.#witnesses.has(question)) take(this.#byWitness, this.#witnesses.get(question), question);
    this.#witnesses.set(question, node);
    put(this.#byWitness, node, question);
  }

  remove(question: Question): void {
    const { target, standing } = question;
    this.all.delete(question);
    for (const service of standing.services) take(this.#byService, service, question);
    if (target.kind === 'terminating') take(this.#byService, target.service, question);
    else take(this.#byName, target.kind === 'pod' ? target.pod : target.address, question);
    if (this.#witnesses.has(question)) take(this.#byWitness, this.#witnesses.get(question), question);
    this.#witnesses.delete(question);
  }
}

function put<K>(map: Map<K, Set<Question>>, key: K, question: Question): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, new Set([question]));
  else known.add(question);
}

function take<K>(map: Map<K, Set<Question>>, key: K, question: Question): void {
  const known = map.get(key);
  known?.delete(question);
  if (known?.size === 0) map.delete(key);
}
