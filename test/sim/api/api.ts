/**
 * A simulated kube-apiserver with its etcd: objects with resourceVersions and their history, lists and watches in real bytes, writes, and
 * what goes wrong with all of them. Actors move it by its methods; faults at single requests come from the processes that ask.
 */
import type { Outgoing } from '../../../src/cluster/api/answer.ts';
import type { Connect } from '../../../src/cluster/api/transport.ts';
import { type ApiObject, ApiStore, type Change } from '../../helpers/cluster/api/api-store.ts';
import type { SimProcess } from '../engine/process.ts';
import type { SimTime } from '../engine/time.ts';
import { answerTo } from './answers.ts';
import { type Answering, type Caller, SimConnection } from './connection.ts';
import { connectionRefused } from './errors.ts';
import { type Answered, type Failure, failed } from './faults.ts';
import { type Objects, States } from './states.ts';
import { Watches, type Whom } from './watches.ts';

export interface SimApiOptions {
  readonly time: SimTime;
  /** Milliseconds that a request is under way, and its answer as well; drawn for each. */
  readonly latency?: () => number;
  /** An object is another one from now on, or gone: after a write, and after a restore. */
  readonly onChange?: (change: Pick<Change, 'kind' | 'key' | 'after'>) => void;
  /**
   * How far the resourceVersion moves from one write to the next: in a real cluster most writes are Leases and Pods. After a restore of
   * etcd it moves by 1 until it has caught up: what a backup lacks is hours of writes, and nobody waits for hours to be served.
   */
  readonly stride?: number;
  /** Kinds that this server does not have, such as ServiceCIDR before 1.33. */
  readonly missing?: readonly string[];
  /** It has no HTTP/2: each watch has a connection of its own, which ends without the others. */
  readonly isHttp1?: boolean;
  /** It can stream lists (KEP-3157), unless it is said that it cannot. */
  readonly streamsLists?: boolean;
}

/** What every request meets while the server is out of order. */
export type Outage = Extract<Failure, 'refused' | 'unanswered' | 'overloaded' | 'unavailable' | 'internal' | 'gateway'>;

/** Milliseconds that a restore of etcd takes: reflectors that fail for longer read a new list in any case. */
const RESTORING = 10_000;
/** Milliseconds until a torn watch ends where nothing is told on it. */
const TORN = 2000;

export class SimApi {
  readonly #time: SimTime;
  readonly #store: ApiStore;
  readonly #states: States;
  readonly #watches: Watches;
  readonly #latency: () => number;
  readonly #missing: ReadonlySet<string>;
  readonly #streamsLists: boolean;
  readonly #onChange: NonNullable<SimApiOptions['onChange']>;
  #outage: Outage | undefined;
  #refusesOld = false;
  #uids = 0;
  readonly #stride: number;
  #awayUntil = 0;
  /** The newest resourceVersion that was ever given. */
  #highest = 0;
  /** The resourceVersions that restores took back: a client may have objects with them, and a list that gives them again would count as the same. */
  readonly #takenBack = new Set<number>();
  /** Events that were created, in order. */
  readonly events: ApiObject[] = [];

  constructor(options: SimApiOptions) {
    const { time, latency = () => 0, stride = 1, missing = [], onChange = () => undefined } = options;
    this.#streamsLists = options.streamsLists ?? true;
    this.#time = time;
    this.#stride = stride;
    this.#onChange = onChange;
    this.#latency = latency;
    this.#missing = new Set(missing);
    this.#store = new ApiStore({
      uid: () => `00000000-0000-4000-8000-${(++this.#uids).toString(16).padStart(12, '0')}`,
      creationTimestamp: () => `${new Date(time.wall).toISOString().slice(0, 19)}Z`,
    });
    this.#states = new States(this.#store.version);
    this.#watches = new Watches(time, this.#store, options);
  }

  /** The number of the newest state: it grows with every write and restore. It is no resourceVersion. */
  get versions(): number {
    return this.#states.newest;
  }

  /** The objects of a state, by kind and `namespace/name`. State 0 has none. Throws RangeError where there is no such state. */
  objectsAt(state: number): Objects {
    return this.#states.at(state);
  }

  /** The resourceVersion of the newest write. */
  get resourceVersion(): number {
    return this.#store.version;
  }

  /** The oldest resourceVersion whose history is kept. */
  get oldest(): number {
    return this.#store.oldest;
  }

  /** Watches that are open. */
  get watches(): number {
    return this.#watches.count;
  }

  get(kind: string, key: string): ApiObject | undefined {
    return this.#store.get(kind, key);
  }

  /** Create or replace an object, without a check of its resourceVersion. Its kind tells where it belongs. Returns its resourceVersion. */
  put(object: object): number {
    this.#step();
    const change = this.#store.put(object as ApiObject);
    this.#tell(change);
    return change.version;
  }

  /** `key` is `namespace/name`, or a name. Returns whether there was such an object. */
  delete(kind: string, key: string): boolean {
    this.#step();
    const change = this.#store.delete(kind, key);
    if (change !== undefined) this.#tell(change);
    return change !== undefined;
  }

  /** Opens the connections of a process. */
  connect(process: SimProcess): Connect {
    const server: Answering = { latency: this.#latency, answer: (outgoing, caller) => this.#answer(outgoing, caller) };
    return (pings) => new SimConnection(server, process, pings);
  }

  /** Something that nobody here watches was written: the resourceVersion moves on. */
  touch(): void {
    this.#store.touch();
  }

  /** etcd forgets its history: watches and further pages from before answer 410, as an event or as a status. Open watches go on. */
  compact(told: 'event' | 'status' = 'event'): void {
    // It takes a version, which must not be one that a client has from before a restore (`#step`).
    while (this.#takenBack.has(this.#store.version + 1)) this.#store.touch();
    this.#store.compact();
    this.#refusesOld = told === 'status';
  }

  /**
   * etcd is restored from a backup of this resourceVersion: what was written since never was, and its resourceVersions are given
   * again. The server is away meanwhile: all connections end. Throws RangeError for a resourceVersion before the history.
   */
  restoreTo(resourceVersion: number, away = RESTORING): void {
    if (resourceVersion < this.#store.oldest || resourceVersion > this.#store.version)
      throw new RangeError(
        `the history has the resourceVersions ${this.#store.oldest} to ${this.#store.version}, not ${resourceVersion}`,
      );
    this.#awayUntil = this.#time.now + away;
    for (const { version } of this.#store.changesSince(resourceVersion)) this.#takenBack.add(version);
    this.#takenBack.add(this.#store.version);
    this.#store.rewind(resourceVersion);
    const before = this.#states.at(this.#states.newest);
    this.#states.restored(resourceVersion);
    this.#tellRestored(before, this.#states.at(this.#states.newest));
    this.reset();
  }

  /** etcd is restored from a backup that lacks the last writes; fewer of them where the history is shorter. */
  goBack(writes: number): void {
    const kept = this.#store.changesSince(this.#store.oldest).slice(0, -writes || undefined);
    this.restoreTo(Math.max(this.#store.oldest, kept.at(-1)?.version ?? this.#states.versionOf(0)));
  }

  /** Every connection ends in the middle, as of a server that crashes; or some do. */
  reset(whom: Whom = 'all'): void {
    this.#watches.reset(whom);
  }

  /** The server ends all watches in order, as when their time is up. */
  endWatches(): void {
    this.#watches.end();
  }

  /**
   * Open watches say nothing any more. `dead`: their connection is gone without a word, and PINGs find it; `swallowed`: something on the
   * way holds what is sent, and the watch ends in order when its time is up. New watches work.
   */
  goSilent(how: 'dead' | 'swallowed' = 'dead', whom: Whom = 'all'): void {
    this.#watches.silence(how, whom);
  }

  /** The next line of each open watch is torn; that of a quiet one within 2 s. */
  tear(how: 'reset' | 'short' = 'reset'): void {
    this.#watches.tear(how, TORN);
  }

  /** What is told of a kind arrives so many milliseconds later. 0 ends it. */
  lag(kind: string, milliseconds: number): void {
    this.#watches.lag(kind, milliseconds);
  }

  /**
   * The server is gone for a while, or answers no request as it should; `undefined`: it is back. A server that is gone ends its
   * connections; open watches of one that is out of order go on.
   */
  outage(how: Outage | undefined): void {
    this.#outage = how;
    if (how === 'refused') this.reset();
    if (how === 'unanswered') this.goSilent('dead');
  }

  #answer(outgoing: Outgoing, caller: Caller): Answered | undefined {
    const what = `${outgoing.method} ${outgoing.url.pathname}`;
    if (this.#time.now < this.#awayUntil) throw connectionRefused(outgoing.url);
    if (this.#outage === 'unanswered') return undefined;
    if (this.#outage !== undefined) return this.#watches.whole(failed(this.#outage, outgoing), what, caller);
    const { method, url, headers, body } = outgoing;
    const asked = { method, url, body, accept: String(headers.accept ?? '') };
    if (method !== 'GET') this.#step();
    const answer = answerTo(this.#store, asked, {
      onEvent: (event) => this.events.push(event),
      missing: this.#missing,
      refusesOld: this.#refusesOld,
      streamsLists: this.#streamsLists,
    });
    if (answer.kind === 'watch') return this.#watches.open(answer, what, caller);
    if (answer.change !== undefined) this.#tell(answer.change);
    return this.#watches.whole(answer, what, caller);
  }

  /**
   * Others write. A restored store takes small steps, so that clients may see that it went back. Where it would pass what was given out before,
   * a client could not tell the one history from the other (docs/architecture.md): the administrator marks that as compacted, as etcd advises
   * (etcdutl snapshot restore --bump-revision --mark-compacted).
   */
  #step(): void {
    if (this.#store.version >= this.#highest) this.#store.touch(this.#stride - 1);
    else if (this.#takenBack.has(this.#store.version + 1) && this.#stride > 1) {
      // Compacting takes a version of its own, and the write the next one.
      while ([1, 2].some((more) => this.#takenBack.has(this.#store.version + more))) this.#store.touch();
      this.compact('status');
    }
  }

  #tellRestored(before: Objects, now: Objects): void {
    for (const kind of new Set([...before.keys(), ...now.keys()])) {
      const [old, shelf] = [before.get(kind) ?? new Map(), now.get(kind) ?? new Map()];
      for (const key of new Set([...old.keys(), ...shelf.keys()])) {
        if (old.get(key) !== shelf.get(key)) this.#onChange({ kind, key, after: shelf.get(key) });
      }
    }
  }

  #tell(change: Change): void {
    this.#highest = Math.max(this.#highest, change.version);
    this.#states.add(change);
    this.#onChange(change);
    this.#watches.tell(change);
  }
}
