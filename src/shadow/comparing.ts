/**
 * Compares kube-proxy's rules with what the objects ask for, again and again: a Service soon after its change, and all of them in rounds. Both
 * take a bounded share of the time.
 */

import type { Agent } from '../agent/agent.ts';
import { factsAbout } from '../agent/questions/explain-now.ts';
import type { KubeProxyRules } from '../agent/questions/kube-proxy-rules.ts';
import { addressOfBytes } from '../base/address.ts';
import { Allowance } from '../base/allowance.ts';
import { type Clock, Wait } from '../base/clock.ts';
import type { ExplainFacts, RelayFacts } from '../inspect/explain/facts.ts';
import { verifyWalks } from '../inspect/explain/verify-walks.ts';
import type { AnsweredBy } from '../inspect/wire/schema-common.ts';
import type { Verification, VerifiedDifference } from '../inspect/wire/verification.ts';
import { countTranslated } from '../kernel/conntrack.ts';
import type { FrontendAt } from '../proxy/model/claims.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import { type ServicePort, type ServicePortKey, serviceOfPort } from '../proxy/model/service-port.ts';
import type { Findings } from './findings.ts';
import type { LastingChanges } from './lasting-differences.ts';
import type { WatchedProxy } from './watched-proxy.ts';

/** A change that kube-proxy has not written after so long is a difference. */
export const LATE_MS = 30_000;
/** Between two rounds. */
const ROUND_MS = 30_000;
/** Between two plans of a switch, each of which reads the kernel. */
const PLAN_MS = 3_600_000;
/** Shares of the time: to find changes in the rules, to compare changed Services, and for rounds. `burst`: milliseconds. */
const FINDING = { share: 0.01, burst: 200 };
const CHANGES = { share: 0.01, burst: 500 };
const ROUNDS = { share: 0.01, burst: 0 };
/** Readings of the rules of one Service, where other programs write meanwhile. */
const TRIES = 4;
/** Services whose changes are looked for together. */
const FOUND_AT_ONCE = 4;
/** Addresses that no Service has, which are asked for in one portion. */
const SWEPT_AT_ONCE = 20;
/** Examples of connections that kube-proxy leads elsewhere on purpose. */
const MAX_ON_PURPOSE = 100;

export interface ComparingParts {
  readonly agent: Agent;
  readonly watched: WatchedProxy;
  readonly findings: Findings;
  readonly by: () => AnsweredBy;
  readonly relay: () => RelayFacts;
  readonly clock: Clock;
  readonly onDifferences: (changes: LastingChanges) => void;
  /** Called after each turn. */
  readonly onTurn: () => void;
}

export class Comparing {
  readonly #parts: ComparingParts;
  readonly #wait: Wait;
  readonly #finding: Allowance;
  readonly #changes: Allowance;
  readonly #rounds: Allowance;
  /** Services to compare. */
  readonly #due = new Set<ServiceKey>();
  /** The ports of the Services whose changes are followed. */
  readonly #ports = new Map<ServiceKey, readonly ServicePort[]>();
  readonly #touched = new Set<ServiceKey>();
  /** Services that changed since the rules were read as a whole. */
  readonly #changedSince = new Set<ServiceKey>();
  #lastRound = Number.NEGATIVE_INFINITY;
  #isWoken = false;

  constructor(parts: ComparingParts) {
    const { clock } = parts;
    this.#parts = parts;
    this.#wait = new Wait(clock);
    this.#finding = new Allowance(clock, FINDING);
    this.#changes = new Allowance(clock, CHANGES);
    this.#rounds = new Allowance(clock, ROUNDS);
  }

  /** Objects changed, or rules did. */
  readonly wake = (): void => {
    this.#isWoken = true;
    this.#wait.wake();
  };

  /** The changes of the model. */
  readonly onPorts = (ports: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void => {
    for (const key of ports.keys()) this.#touched.add(serviceOfPort(key));
  };

  /** Resolves when the node changed, so that other parts are needed. Throws the errors of reading the kernel, and the signal's reason. */
  async run(signal: AbortSignal): Promise<void> {
    const { agent, clock, findings, onTurn } = this.#parts;
    let plannedAt = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      this.#isWoken = false;
      if (clock.now() - plannedAt >= PLAN_MS) {
        plannedAt = clock.now();
        await this.#planSwitch(signal);
        // The first desired state is no change.
        this.#touched.clear();
      }
      await this.#follow(signal);
      await this.#compareDue(signal);
      if (this.#nextRound <= clock.now()) {
        if ((await agent.onNode.changes(signal)).length > 0) return;
        await this.#round(signal);
        findings.problem = undefined;
      }
      onTurn();
      if (this.#isWoken) continue;
      await this.#wait.start({ time: this.#pause(), isWakeable: true, signal });
    }
    signal.throwIfAborted();
  }

  get #nextRound(): number {
    return Math.max(this.#lastRound + ROUND_MS, this.#rounds.next);
  }

  #pause(): number {
    const { watched, findings, clock } = this.#parts;
    const now = clock.now();
    const times = [this.#nextRound - now];
    const { oldest } = findings.programming;
    if (oldest !== undefined) times.push(Math.max(oldest + LATE_MS - now, 1000), watched.pause ?? LATE_MS);
    if (watched.isCheap && this.#due.size > findings.programming.services.size) times.push(this.#changes.next - now);
    return Math.max(1, Math.min(...times));
  }

  /** The plan that `slicewire plan` would show now. */
  async #planSwitch(signal: AbortSignal): Promise<void> {
    const { agent, findings, clock } = this.#parts;
    agent.feed.ledger.syncBegan();
    agent.loop.distrust();
    const { plan } = await agent.loop.plan(signal);
    this.#ledgerEnds();
    const isOfService = ({ family, protocol, destination }: Parameters<Parameters<typeof countTranslated>[0]>[0]) => {
      const [address, port] = [destination.slice(0, -2), destination.slice(-2)];
      const at = { family, protocol, port: port.charCodeAt(0) * 256 + port.charCodeAt(1) };
      const owner = agent.model.frontend({ ...at, address: addressOfBytes(Buffer.from(address, 'latin1')) });
      return (owner ?? agent.model.frontend({ ...at, address: undefined })) !== undefined;
    };
    const connections = await countTranslated(isOfService).catch(() => undefined);
    findings.switchPlanned(plan, clock.now(), connections);
  }

  /** The changes that were taken into the desired state. */
  #ledgerEnds() {
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
      agent.feed.ledger.syncBegan();
      await agent.loop.desire();
      this.#changed(this.#ledgerEnds(), clock.now());
    }
    await watched.look(programming, this.#ports);
    await this.#findWritten(signal);
    for (const service of this.#ports.keys())
      if (programming.receivedAt(service) === undefined) this.#ports.delete(service);
  }

  /** Finds out which changes the last commits had. Those for which the time does not last are not measured. */
  async #findWritten(signal: AbortSignal): Promise<void> {
    const { findings, clock } = this.#parts;
    const { programming } = findings;
    const candidates = [...programming.candidates()];
    if (candidates.length === 0) return;
    const read = this.#finding.next > clock.now() ? undefined : await this.#read(signal);
    for (let i = 0; i < candidates.length; i += FOUND_AT_ONCE) {
      const services = new Set(candidates.slice(i, i + FOUND_AT_ONCE));
      const began = clock.now();
      if (read === undefined || this.#finding.next > began) {
        for (const service of services) programming.leaveOut(service);
        continue;
      }
      const found = await this.#walk({ ...read, services, senders: 'node' }, signal);
      const others = found && new Set(found.differences.map(({ service }) => service));
      for (const service of services) {
        if (others === undefined || others.has(service)) programming.notWritten(service);
        else programming.written(service);
      }
      this.#finding.spend(clock.now() - began);
    }
  }

  #changed(written: readonly { readonly service: ServiceKey | ''; readonly receivedAt: number }[], now: number): void {
    const { agent, findings } = this.#parts;
    const seen = new Set<ServiceKey>();
    for (const { service, receivedAt } of written) {
      if (service === '' || !this.#touched.has(service) || seen.has(service)) continue;
      seen.add(service);
      findings.planReady(now, now - receivedAt);
      const ports = agent.model.portsOf(service);
      // The rules of a Service that is gone are found in the next round, where they stay.
      if (ports.length === 0) {
        findings.programming.giveUp(service);
        continue;
      }
      this.#ports.set(service, ports);
      findings.programming.changed(service, receivedAt);
    }
    for (const service of this.#touched) {
      this.#due.add(service);
      this.#changedSince.add(service);
    }
    this.#touched.clear();
  }

  /** Whether kube-proxy may still be about to write a change of the Service. */
  #isAwaited(service: ServiceKey): boolean {
    const { findings, clock } = this.#parts;
    const receivedAt = findings.programming.receivedAt(service);
    return receivedAt !== undefined && clock.now() - receivedAt < LATE_MS;
  }

  /** Compares the changed Services, where that does not mean to read all rules. */
  async #compareDue(signal: AbortSignal): Promise<void> {
    const { watched, clock } = this.#parts;
    if (!watched.isCheap) this.#due.clear();
    if (this.#due.size === 0 || this.#changes.next > clock.now()) return;
    const ready = [...this.#due].filter((service) => !this.#isAwaited(service));
    if (ready.length === 0) return;
    let read = await this.#read(signal);
    for (const service of ready) {
      if (this.#changes.next > clock.now()) return;
      if (this.#isWoken) read = await this.#followed(read, signal);
      const began = clock.now();
      await this.#compare(service, read, signal);
      this.#changes.spend(clock.now() - began);
    }
  }

  /** Compares one Service. Returns its connections that kube-proxy leads elsewhere on purpose; undefined when that is not known. */
  async #compare(service: ServiceKey, read: ReadRules, signal: AbortSignal): Promise<Verification | undefined> {
    const { findings, clock, onDifferences } = this.#parts;
    const { programming, differences } = findings;
    const found = await this.#walk({ ...read, services: new Set([service]), senders: 'all' }, signal);
    // Rules that change all the time are compared again in the next round.
    this.#due.delete(service);
    if (found === undefined || this.#isAwaited(service)) return undefined;
    const since = programming.receivedAt(service) ?? clock.now();
    programming.giveUp(service);
    onDifferences(differences.found(service, found.differences, since));
    return found;
  }

  /** All Services, and all addresses that kube-proxy serves and no Service has. */
  async #round(signal: AbortSignal): Promise<void> {
    const { agent, watched, findings, clock, onDifferences } = this.#parts;
    const began = clock.now();
    const before = findings.connections;
    this.#changedSince.clear();
    let read = await this.#read(signal);
    findings.differences.roundBegins();
    const onPurpose: VerifiedDifference[] = [];
    let onPurposeCount = 0;
    const keys = [...agent.feed.cache.services()].map(({ key }) => key);
    for (const key of keys) {
      if (this.#isWoken) read = await this.#followed(read, signal);
      if (this.#isAwaited(key) || (!watched.isCheap && this.#changedSince.has(key))) continue;
      const found = await this.#compare(key, read, signal);
      onPurpose.push(...(found?.onPurpose ?? []).slice(0, MAX_ON_PURPOSE - onPurpose.length));
      onPurposeCount += found?.onPurposeCount ?? 0;
    }
    const ended = findings.differences.keepOnly((key) => agent.feed.cache.service(key) !== undefined);
    const swept = await this.#sweep(read, signal);
    if (swept !== undefined) {
      const changes = findings.differences.found('', swept, clock.now());
      onDifferences({ begun: changes.begun, ended: [...ended, ...changes.ended] });
    }
    this.#lastRound = clock.now();
    const milliseconds = this.#lastRound - began;
    this.#rounds.spend(milliseconds);
    const connections = findings.connections - before;
    findings.round = { at: this.#lastRound, connections, milliseconds, onPurpose, onPurposeCount };
  }

  /** The differences at addresses that no Service has; undefined while changes of Services wait, which may have had them. */
  async #sweep(read: ReadRules, signal: AbortSignal): Promise<readonly VerifiedDifference[] | undefined> {
    const { agent } = this.#parts;
    const left = (await read.rules.served()).filter((at) => agent.model.frontend(at) === undefined);
    const differences: VerifiedDifference[] = [];
    for (let i = 0; i < left.length; i += SWEPT_AT_ONCE) {
      const served = left.slice(i, i + SWEPT_AT_ONCE);
      const found = await this.#walk({ ...read, services: new Set(), served, senders: 'all' }, signal);
      if (found === undefined) return undefined;
      differences.push(...found.differences);
    }
    return differences;
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
    const { agent, by, relay } = this.#parts;
    const about = { by: by(), agent, recorder: undefined, knowsPods: false, relay: relay(), of: rules };
    return { rules, facts: await factsAbout(about) };
  }

  /** undefined where other programs write all the time. */
  async #walk({ facts, services, served = [], senders }: Walk, signal: AbortSignal): Promise<Verification | undefined> {
    const { watched, findings } = this.#parts;
    for (let tries = 0; tries < TRIES; tries++) {
      // What was read before another program wrote is forgotten here, so the first try after its write does not count.
      const found = await verifyWalks({ facts, services, served, senders, signal });
      findings.connections += found.compared;
      if (!watched.renew()) return found;
    }
    return undefined;
  }
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
