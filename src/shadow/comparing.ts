/**
 * Compares kube-proxy's rules with what the objects ask for, again and again: a Service soon after its change, and all of them in rounds. Both
 * take a bounded share of the time.
 */
import type { KubeProxyRules } from '../agent/questions/kube-proxy-rules.ts';
import { socketOf } from '../base/address.ts';
import { Allowance } from '../base/allowance.ts';
import { type Clock, Wait } from '../base/clock.ts';
import type { Cache } from '../cluster/cache/cache.ts';
import type { ExplainFacts } from '../inspect/explain/facts.ts';
import { verifyWalks } from '../inspect/explain/verify-walks.ts';
import type { Verification, VerifiedDifference } from '../inspect/wire/verification.ts';
import { countTranslated, type Flow } from '../kernel/conntrack.ts';
import type { ChangeLedger } from '../proxy/ledger/change-ledger.ts';
import type { FrontendAt } from '../proxy/model/claims.ts';
import { frontendKey, protocolKey, protocolKeysOf } from '../proxy/model/flow-leftovers.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { ProxyModel } from '../proxy/model/proxy-model.ts';
import { type ServicePort, type ServicePortKey, serviceOfPort } from '../proxy/model/service-port.ts';
import type { Mode } from '../proxy/modes/mode.ts';
import type { SyncLoop } from '../proxy/sync/loop.ts';
import type { Findings } from './findings.ts';
import type { LastingChanges } from './lasting-differences.ts';
import { LATE_MS } from './programming.ts';
import type { WatchedProxy } from './watched-proxy.ts';

/** Between two rounds. */
const ROUND_MS = 30_000;
/** Between two plans of a switch, each of which reads the kernel. */
const PLAN_MS = 3_600_000;
/** Shares of the time: to find changes in the rules, to compare changed Services, and for rounds. `burst`: milliseconds. */
const FINDING = { share: 0.01, burst: 200 };
const CHANGES = { share: 0.01, burst: 500 };
const ROUNDS = { share: 0.01, burst: 0 };
/** Readings of the rules of one Service, where other programs write meanwhile. */
const TRIES = 3;
/** Services whose changes are looked for together. */
const FOUND_AT_ONCE = 4;
/** Addresses that no Service has, which are asked for in one portion. */
const SWEPT_AT_ONCE = 20;
/** Examples of connections that kube-proxy leads elsewhere on purpose. */
const MAX_ON_PURPOSE = 100;

/** When work is due, also for the parts that come after these. */
export class Pace {
  readonly finding: Allowance;
  readonly changes: Allowance;
  readonly rounds: Allowance;
  lastRound = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'now'>) {
    this.finding = new Allowance(clock, FINDING);
    this.changes = new Allowance(clock, CHANGES);
    this.rounds = new Allowance(clock, ROUNDS);
  }

  get nextRound(): number {
    return Math.max(this.lastRound + ROUND_MS, this.rounds.next);
  }
}

/** The parts of an agent that is never started. */
export interface ComparedAgent {
  readonly feed: {
    readonly cache: Pick<Cache, 'hasChanges' | 'service' | 'services'>;
    readonly ledger: Pick<ChangeLedger, 'syncBegan' | 'syncEnded' | 'confirmed'>;
  };
  readonly loop: Pick<SyncLoop, 'desire' | 'distrust' | 'plan'>;
  readonly mode: Pick<Mode, 'name'>;
  readonly model: Pick<ProxyModel, 'frontend' | 'portsOf'>;
}

export interface ComparingParts {
  readonly agent: ComparedAgent;
  readonly watched: WatchedProxy;
  readonly findings: Findings;
  readonly pace: Pace;
  /** The facts for walks through these rules, and through those of slicewire as they are desired now. */
  readonly facts: (rules: KubeProxyRules) => Promise<ExplainFacts>;
  readonly clock: Clock;
  readonly onDifferences: (changes: LastingChanges) => void;
  /** Called before each round: true when other parts are needed. */
  readonly isOutdated: (signal: AbortSignal) => Promise<boolean>;
}

export class Comparing {
  readonly #parts: ComparingParts;
  readonly #wait: Wait;
  /** Services to compare. */
  readonly #due = new Set<ServiceKey>();
  /** The ports of the Services whose changes are measured. */
  readonly #ports = new Map<ServiceKey, readonly ServicePort[]>();
  readonly #touched = new Set<ServiceKey>();
  /** When a change was received that the rules may lack, because these were read as a whole before. */
  readonly #changedSince = new Map<ServiceKey, number>();
  /** When a frontend was removed, by `protocolKey`. */
  readonly #removed = new Map<string, number>();
  #isPlanned = false;
  #isWoken = false;
  /** When rules of a commit were last looked at. */
  #lastCommit = Number.NEGATIVE_INFINITY;

  constructor(parts: ComparingParts) {
    this.#parts = parts;
    this.#wait = new Wait(parts.clock);
    // Changes that other parts followed have no ports here.
    parts.findings.programming.forgetAll();
  }

  /** Objects changed. */
  readonly wake = (): void => {
    this.#isWoken = true;
    this.#wait.wake();
  };

  /** Rules changed. */
  readonly committed = (): void => {
    this.#lastCommit = this.#parts.clock.now();
    this.wake();
  };

  /** The changes of the model. */
  readonly onPorts = (
    ports: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): void => {
    const now = this.#parts.clock.now();
    for (const key of ports.keys()) this.#touched.add(serviceOfPort(key));
    for (const port of before.values()) for (const at of protocolKeysOf(port)) this.#removed.set(at, now);
  };

  /** Resolves when other parts are needed. Throws the errors of reading the kernel, and the signal's reason. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, findings, pace, isOutdated } = this.#parts;
    let plannedAt = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      this.#isWoken = false;
      if (clock.now() - plannedAt >= PLAN_MS) {
        plannedAt = clock.now();
        await this.#planSwitch(signal);
      }
      await this.#follow(signal);
      await this.#compareDue(signal);
      if (pace.nextRound <= clock.now()) {
        if (await isOutdated(signal)) return;
        await this.#round(signal);
        findings.problem = undefined;
      }
      if (this.#isWoken) continue;
      await this.#wait.start({ time: this.#pause(), isWakeable: true, signal });
    }
    signal.throwIfAborted();
  }

  /** Milliseconds until something is due by itself. */
  #pause(): number {
    const { watched, findings, pace, clock } = this.#parts;
    const { programming } = findings;
    const now = clock.now();
    let due = pace.nextRound;
    // A change becomes late.
    if (watched.isCheap)
      for (const [, at] of programming.awaited()) due = Math.min(due, Math.max(at + LATE_MS, now + 1000));
    if (watched.pause !== undefined && !programming.measured().next().done) due = Math.min(due, now + watched.pause);
    if (this.#ready.length > 0) due = Math.min(due, pace.changes.next);
    return Math.max(1, due - now);
  }

  /** The plan that `slicewire plan` would show now. */
  async #planSwitch(signal: AbortSignal): Promise<void> {
    const { agent, findings, clock } = this.#parts;
    const began = clock.now();
    agent.feed.ledger.syncBegan();
    agent.loop.distrust();
    const { plan } = await agent.loop.plan(signal);
    const written = this.#ledgerEnds();
    // The first desired state is no change.
    if (this.#isPlanned) await this.#changed(written, { began, isMeasured: false, isTimed: false }, signal);
    else this.#touched.clear();
    this.#isPlanned = true;
    // IPVS has no status for the flows that it translates.
    const canTell = MODES[agent.mode.name].balancesBy === 'rules';
    const connections = canTell ? await countTranslated((flow) => this.#isOfService(flow)) : undefined;
    findings.switchPlanned(plan, clock.now(), connections);
  }

  #isOfService({ family, protocol, destination }: Flow): boolean {
    const { model } = this.#parts.agent;
    const at = { family, protocol, ...socketOf(destination) };
    return (model.frontend(at) ?? model.frontend({ ...at, address: undefined })) !== undefined;
  }

  /** The changes that were taken into the desired state. */
  #ledgerEnds(): readonly TakenChange[] {
    const { ledger } = this.#parts.agent.feed;
    const ended = ledger.syncEnded({ hasFailed: false, hasWritten: true, without: new Map(), why: '' });
    ledger.confirmed();
    return ended?.written ?? [];
  }

  /** Takes the changes of the objects, and then the commits of kube-proxy. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { agent, watched, findings, clock } = this.#parts;
    const { programming } = findings;
    if (agent.feed.cache.hasChanges) {
      const began = clock.now();
      agent.feed.ledger.syncBegan();
      await agent.loop.desire();
      await this.#changed(this.#ledgerEnds(), { began, isMeasured: watched.measures, isTimed: true }, signal);
    }
    await watched.look(programming, this.#ports);
    await this.#findWritten(signal);
    for (const service of this.#ports.keys())
      if (programming.receivedAt(service) === undefined) this.#ports.delete(service);
  }

  /** `began`: when slicewire began to make its rules for them. */
  async #changed(
    taken: readonly TakenChange[],
    { began, isMeasured, isTimed }: { readonly began: number; readonly isMeasured: boolean; readonly isTimed: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const { agent, findings, watched, clock } = this.#parts;
    const { programming } = findings;
    const now = clock.now();
    const touched = new Set(this.#touched);
    this.#touched.clear();
    const received = new Map<ServiceKey, number>();
    for (const { service, receivedAt } of taken) {
      if (service === '' || !touched.has(service)) continue;
      // A Service and its slices that come together are one change.
      received.set(service, receivedAt);
    }
    if (isTimed) for (const _ of received.keys()) findings.planReady(now, now - began);
    const fits = isMeasured && watched.isCheap ? await this.#fitting(touched, signal) : new Set<ServiceKey>();
    for (const service of touched) {
      const ports = agent.model.portsOf(service);
      const receivedAt = received.get(service);
      this.#due.add(service);
      this.#changedSince.set(service, receivedAt ?? began);
      // A change of the Node, or of another Service, has no moment of its own. Rules that were right before cannot be timed.
      const canBe = isMeasured && receivedAt !== undefined && ports.length > 0 && !fits.has(service);
      programming.changed(service, receivedAt ?? began, canBe);
      if (canBe) this.#ports.set(service, ports);
    }
  }

  /** The Services whose packets already go where the objects say, among those for which there is time; of the others it is not known. */
  async #fitting(services: ReadonlySet<ServiceKey>, signal: AbortSignal): Promise<ReadonlySet<ServiceKey>> {
    const fits = new Set<ServiceKey>();
    await this.#lookFor([...services], signal, (service, isFitting) => {
      if (isFitting !== false) fits.add(service);
    });
    return fits;
  }

  /** Finds out which changes the last commits had. Those for which there is no time are not measured. */
  async #findWritten(signal: AbortSignal): Promise<void> {
    const { programming } = this.#parts.findings;
    await this.#lookFor([...programming.candidates()], signal, (service, isFitting) => {
      if (isFitting === undefined) programming.leaveOut(service);
      else if (isFitting) programming.written(service);
      else programming.notWritten(service);
    });
  }

  /** Tells of each Service whether packets of the node go where its objects say; undefined where there is no time to find out. */
  async #lookFor(
    services: readonly ServiceKey[],
    signal: AbortSignal,
    tell: (service: ServiceKey, isFitting: boolean | undefined) => void,
  ): Promise<void> {
    const { clock, pace } = this.#parts;
    if (services.length === 0) return;
    const read = pace.finding.next > clock.now() ? undefined : await this.#read(signal);
    for (let i = 0; i < services.length; i += FOUND_AT_ONCE) {
      const some = services.slice(i, i + FOUND_AT_ONCE);
      const began = clock.now();
      const isTime = read !== undefined && pace.finding.next <= began;
      const found = isTime
        ? await this.#walk({ ...read, services: new Set(some), senders: 'node' }, signal)
        : undefined;
      if (isTime) pace.finding.spend(clock.now() - began);
      const others = found && new Set(found.differences.map(({ service }) => service));
      for (const service of some) tell(service, others === undefined ? undefined : !others.has(service));
    }
  }

  /** Services to compare whose change kube-proxy is not about to write, or has written since. */
  get #ready(): ServiceKey[] {
    const { findings, clock } = this.#parts;
    const now = clock.now();
    return [...this.#due].filter((service) => {
      const receivedAt = findings.programming.receivedAt(service) ?? Number.NEGATIVE_INFINITY;
      return receivedAt < this.#lastCommit || !findings.programming.isAwaited(service, now);
    });
  }

  /** Compares the changed Services, where that does not mean to read all rules. */
  async #compareDue(signal: AbortSignal): Promise<void> {
    const { watched, pace, findings, clock } = this.#parts;
    if (!watched.isCheap) this.#due.clear();
    else if (this.#lastCommit > Number.NEGATIVE_INFINITY)
      for (const one of findings.differences.services()) this.#due.add(one);
    if (this.#due.size === 0 || pace.changes.next > clock.now()) return;
    const ready = this.#ready;
    this.#lastCommit = Number.NEGATIVE_INFINITY;
    if (ready.length === 0) return;
    let read = await this.#read(signal);
    for (const service of ready) {
      if (pace.changes.next > clock.now()) return;
      if (this.#isWoken) read = await this.#followed(read, signal);
      const began = clock.now();
      await this.#compare(service, read, signal);
      pace.changes.spend(clock.now() - began);
    }
  }

  /** Compares one Service; undefined where other programs write all the time. */
  async #compare(service: ServiceKey, read: ReadRules, signal: AbortSignal): Promise<Verification | undefined> {
    const { findings, clock, onDifferences } = this.#parts;
    const { programming, differences } = findings;
    const found = await this.#walk({ ...read, services: new Set([service]), senders: 'all' }, signal);
    if (found === undefined) return undefined;
    // Rules that are read where packets pass may have a change that was not taken yet.
    if (!found.equal && this.#isWoken && this.#parts.watched.isCheap) {
      this.#due.add(service);
      return undefined;
    }
    const isAwaited = programming.isAwaited(service, clock.now());
    // kube-proxy may have only a part of it, so it stays due.
    if (!found.equal && isAwaited) return found;
    this.#due.delete(service);
    const since = programming.since(service) ?? clock.now();
    programming.forget(service);
    onDifferences(differences.found(service, found.differences, since));
    return found;
  }

  /** All Services, and all addresses that kube-proxy serves and no Service has. */
  async #round(signal: AbortSignal): Promise<void> {
    const { agent, watched, findings, pace, clock, onDifferences } = this.#parts;
    const began = clock.now();
    // A commit may have been taken for that of a change which it did not have.
    for (const [service, at] of this.#changedSince) if (began - at >= LATE_MS) this.#changedSince.delete(service);
    for (const [service, since] of findings.programming.awaited()) this.#changedSince.set(service, since);
    watched.renew(true);
    let read = await this.#read(signal);
    const onPurpose: VerifiedDifference[] = [];
    let [connections, onPurposeCount] = [0, 0];
    const add = (found: Verification | undefined) => {
      onPurpose.push(...(found?.onPurpose ?? []).slice(0, MAX_ON_PURPOSE - onPurpose.length));
      onPurposeCount += found?.onPurposeCount ?? 0;
      connections += found?.compared ?? 0;
    };
    for (const key of [...agent.feed.cache.services()].map(({ key: one }) => one)) {
      if (this.#isWoken) read = await this.#followed(read, signal);
      // Rules that were read as a whole before a change say nothing about it, unless the change is late by now.
      const isLate = began - (this.#changedSince.get(key) ?? Number.NEGATIVE_INFINITY) >= LATE_MS;
      if (!watched.isCheap && !isLate) continue;
      add(await this.#compare(key, read, signal));
    }
    for (const [service, since] of [...findings.programming.awaited()])
      if (agent.feed.cache.service(service) === undefined && began - since >= LATE_MS)
        findings.programming.forget(service);
    const ended = findings.differences.keepOnly((key) => agent.feed.cache.service(key) !== undefined);
    onDifferences({ begun: [], ended });
    const swept = await this.#sweep(read, began, signal);
    if (swept !== undefined) {
      for (const one of swept) add(one);
      const found = swept.flatMap(({ differences }) => differences);
      onDifferences(findings.differences.found('', found, clock.now()));
    }
    pace.lastRound = clock.now();
    const milliseconds = pace.lastRound - began;
    pace.rounds.spend(milliseconds);
    findings.round = { at: pace.lastRound, connections, milliseconds, onPurpose, onPurposeCount };
  }

  /**
   * The addresses that no Service has, without those that were removed a moment ago, or since the rules were read; undefined where other programs
   * write all the time.
   */
  async #sweep(
    { rules, facts }: ReadRules,
    began: number,
    signal: AbortSignal,
  ): Promise<readonly Verification[] | undefined> {
    const { agent, clock } = this.#parts;
    const served = await rules.served();
    // Services that came meanwhile.
    const read = this.#isWoken ? await this.#followed({ rules, facts }, signal) : { rules, facts };
    const recent = Math.min(began, clock.now() - LATE_MS);
    for (const [key, at] of this.#removed) if (at < recent) this.#removed.delete(key);
    const left = served.filter((at) => agent.model.frontend(at) === undefined && !this.#removed.has(keyOf(at)));
    const found: Verification[] = [];
    for (let i = 0; i < left.length; i += SWEPT_AT_ONCE) {
      const some = left.slice(i, i + SWEPT_AT_ONCE);
      const one = await this.#walk({ ...read, services: new Set(), served: some, senders: 'all' }, signal);
      if (one === undefined) return undefined;
      found.push(one);
    }
    return found;
  }

  /** Takes the changes that came meanwhile, so that their times are right. */
  async #followed({ rules }: ReadRules, signal: AbortSignal): Promise<ReadRules> {
    this.#isWoken = false;
    await this.#follow(signal);
    return await this.#factsOf(rules);
  }

  async #read(signal: AbortSignal): Promise<ReadRules> {
    return await this.#factsOf(await this.#parts.watched.rules(signal));
  }

  async #factsOf(rules: KubeProxyRules): Promise<ReadRules> {
    return { rules, facts: await this.#parts.facts(rules) };
  }

  /** undefined where other programs write all the time. */
  async #walk({ facts, services, served = [], senders }: Walk, signal: AbortSignal): Promise<Verification | undefined> {
    const { watched, findings } = this.#parts;
    watched.renew();
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await verifyWalks({ facts, services, served, senders, signal });
      if (watched.renew()) continue;
      findings.connections += found.compared;
      return found;
    }
    return undefined;
  }
}

function keyOf({ family, protocol, address, port }: FrontendAt): string {
  return protocolKey(protocol, frontendKey(family, address, port));
}

/** A change that was taken into the desired state. */
interface TakenChange {
  readonly service: ServiceKey | '';
  readonly receivedAt: number;
}

interface ReadRules {
  readonly rules: KubeProxyRules;
  readonly facts: ExplainFacts;
}

interface Walk extends ReadRules {
  readonly services: ReadonlySet<ServiceKey>;
  readonly served?: readonly FrontendAt[];
  readonly senders: 'all' | 'node';
}
