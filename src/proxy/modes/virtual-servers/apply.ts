/** Write the plan of one family stage by stage (`plan.ts`), and record each success in the trackers (invariant 4). */

import type { Address, Family } from '../../../base/address.ts';
import type { IpvsKernel, KernelError, KernelWrite } from '../../../kernel/ipvs-kernel.ts';
import type { FailedStep, SkippedStep, Step, StepName } from '../../reconcile/step.ts';
import type { FamilyReport } from '../families.ts';
import type { TablesPlan } from '../netfilter/plan.ts';
import { isHeld, type PlannedResize, type PlannedWrite, type Retirement, type ServersPlan } from './plan.ts';
import { isShared, KUBE_PROXY_MAXELEM, type SetId, setId, setSpec, spareName } from './sets.ts';
import type { ServersState } from './state.ts';
import { destinationKey, drains, type OwnedDestination, serverKey } from './tracked-objects.ts';

/** A set that kube-proxy has too got another maxelem than kube-proxy gives it, or has kube-proxy's again. */
export interface SetResized {
  readonly set: string;
  /** Undefined for a new set. */
  readonly from: number | undefined;
  readonly to: number;
  /** kube-proxy's maxelem, with which alone it takes the set over. */
  readonly kubeProxys: number;
}

export type OnResized = (resized: SetResized) => void;

/** A set that is too large, or left over, and could not be changed. All rules are right nevertheless. */
export interface SetKept {
  readonly set: string;
  /** The maxelem that it still has; undefined for the spare set of a resize, which should be gone. */
  readonly maxelem: number | undefined;
  readonly cause: string;
}

export type OnSetKept = (kept: SetKept) => void;

export async function applyServers(parts: ApplyInput): Promise<FamilyReport> {
  const run = new Application(parts);
  await run.carryOut();
  return run.report();
}

interface ApplyInput {
  readonly plan: ServersPlan;
  readonly state: ServersState;
  readonly kernel: IpvsKernel;
  readonly onResized: OnResized;
  /** Called once for each cause. */
  readonly onSetKept: OnSetKept;
  readonly signal: AbortSignal;
}

class Application {
  readonly #parts: ApplyInput;
  readonly #failed: FailedStep[] = [];
  readonly #skipped: SkippedStep[] = [];
  /** Failed steps and owners: their other writes wait, and none of their objects is removed (invariant 3). */
  readonly #blocked = new Map<string, string>();
  readonly #done = new Set<string>();
  #isMistaken = false;
  #isUnknown = false;
  /** Everything was written, but the kernel must be read before the next plan. */
  #isStale = false;

  constructor(parts: ApplyInput) {
    this.#parts = parts;
  }

  async carryOut(): Promise<void> {
    const { plan, state } = this.#parts;
    // Rules refer to sets: if a set is missing, no rule can be written.
    if (!(await this.#write(plan.sets))) return void this.#skip(plan.steps);
    for (const { write } of plan.sets)
      if (write.kind === 'add-set') this.#reportResize(write.set.name, undefined, write.set.maxelem);
    for (const one of plan.resizes) await this.#resize(one);
    await this.#write(plan.entries);
    const hasDetours = await this.#writeDetours();
    await this.#write(plan.detours);
    await this.#write(plan.masquerades.filter((one) => this.#mayRemove(one)));
    await this.#write(plan.servers);
    // An address needs the chain, and no rule is written after such a failure.
    if (this.#isUnknown && plan.sourceTables.steps.length > 0) return void this.#skip(plan.steps);
    if (!(await this.#writeTables(plan.sourceTables))) return void this.#skip(plan.steps);
    const [behindComing, behindOthers] = splitByAddresses(plan);
    if (!this.#isUnknown && !this.#isMistaken) await this.#retire(behindComing.filter((one) => this.#mayRemove(one)));
    await this.#writeAddresses(behindComing);
    // The refusal of one Service's object leaves only that Service incomplete, and stops no rules (invariant 6). After a write that was
    // impossible, Services may be incomplete, and all of them when another mode is replaced: the rules stay until the next sync.
    if (this.#isUnknown || !hasDetours) return void this.#skip(plan.tables.steps);
    const isInstalled = plan.detourTables !== undefined;
    const [ofStaying, ofGone] = plan.replacesRules ? splitRetirements(behindOthers) : [[], behindOthers];
    if (!this.#isMistaken) {
      await this.#retire(ofStaying.filter((one) => this.#mayRemove(one)));
      await this.#write(plan.earlyDrops.filter((one) => this.#mayRemove(one)));
    }
    if (this.#isUnknown) return void this.#skip(plan.tables.steps);
    if (!isInstalled && !(await this.#writeRules())) return;
    // While rules of another mode may still be installed, nothing is removed but endpoints and drops to which no rule leads.
    if (this.#isUnknown || this.#isMistaken) return void this.#skip(plan.tables.steps);
    await this.#write([...plan.lateDrops, ...plan.goneDrops.filter((one) => this.#mayRemove(one))]);
    if (this.#isUnknown || this.#isMistaken) return void this.#skip(plan.tables.steps);
    await this.#retire(ofGone.filter((one) => this.#mayRemove(one)));
    await this.#write(plan.unmasqueraded);
    await this.#write(plan.goneAddresses.filter((one) => this.#mayRemove(one) && !this.#isHolding(one.write)));
    const staying = {
      server: (key: string) => state.servers.applied?.has(key) === true,
      address: (address: Address) => state.addresses.applied?.has(address) === true,
    };
    await this.#write(plan.goneEntries.filter((one) => this.#mayRemove(one) && !isHeld(one.entry, staying)));
    if (isInstalled && !(await this.#writeRules())) return;
    await this.#write(plan.goneSets);
  }

  /** Writes what is added to the rules of policy Local. Where that fails, the Services that need it wait, and the others go on. */
  async #writeDetours(): Promise<boolean> {
    const { plan, state } = this.#parts;
    const { detourTables } = plan;
    if (detourTables === undefined || detourTables.steps.length === 0) return true;
    if (!this.#isUnknown && (await this.#writeTables(detourTables))) {
      // The chain of a tree has rules to lose yet.
      for (const { key } of state.tables.plan(plan.setAside).steps) this.#done.delete(key);
      return true;
    }
    for (const { key, owner, concerns } of detourTables.steps) {
      for (const one of owner === undefined ? concerns() : [owner, ...concerns()]) this.#blocked.set(one, key);
    }
    return false;
  }

  /** Writes the rules that are left. They are planned again, because a part of them may be written by now. */
  async #writeRules(): Promise<boolean> {
    const { state, plan } = this.#parts;
    return await this.#writeTables(state.tables.plan(plan.setAside));
  }

  report(): FamilyReport {
    if (this.#isUnknown || this.#isMistaken || this.#isStale) this.#parts.state.forget();
    const applied = this.#done.size;
    const hasFailed = this.#failed.length > 0 || this.#isMistaken;
    const outcome = !hasFailed ? 'complete' : applied > 0 ? 'partial' : 'failed';
    const { waiting, tables } = this.#parts.plan;
    const skipped = [...this.#skipped, ...waiting, ...tables.waiting];
    return { outcome, applied, failed: this.#failed, skipped, isMistaken: this.#isMistaken };
  }

  /** Write one stage; returns whether all of it succeeded. */
  async #write(writes: readonly PlannedWrite[]): Promise<boolean> {
    const { state, kernel, signal } = this.#parts;
    const allowed = writes.filter((planned) => !this.#isBlocked(planned));
    if (allowed.length === 0) return true;
    const outcomes = await kernel.write(
      allowed.map(({ write }) => write),
      signal,
    );
    let isComplete = true;
    for (const [i, planned] of allowed.entries()) {
      const error = outcomes[i];
      if (error === undefined || isAsWanted(planned.write, error)) {
        state.wrote(planned.write, planned.owner);
        this.#done.add(planned.step);
      } else {
        isComplete = false;
        this.#failure(planned, error);
      }
    }
    return isComplete;
  }

  /**
   * Give a set another maxelem: a spare set takes its entries, and the two swap their names. The kernel does that at once, so that every
   * packet finds the entries, and rules need no change. An agent that ends in between leaves the spare set, which the next one removes.
   */
  async #resize(planned: PlannedResize): Promise<void> {
    const { state, plan, kernel, signal } = this.#parts;
    const { id, from, to } = planned;
    if (this.#isUnknown || this.#isBlocked(planned)) return;
    const spec = setSpec(plan.family, id);
    const spare = spareName(plan.family);
    const write = async (...writes: readonly KernelWrite[]) => {
      const outcomes = await kernel.write(writes, signal);
      return outcomes.find((error, i) => error !== undefined && !isAsWanted(writes[i] as KernelWrite, error));
    };
    state.hasSpare = true;
    const entries = [...entriesOf(state, id)].map((entry): KernelWrite => ({ kind: 'add-entry', set: spare, entry }));
    const unmade =
      (await write({ kind: 'remove-set', set: spare })) ??
      (await write({ kind: 'add-set', set: { ...spec, name: spare, maxelem: to } }, ...entries));
    const failed = unmade ?? (await write({ kind: 'swap-set', set: spec.name, with: spare }));
    if (failed === undefined) {
      state.resized(id, to);
      this.#done.add(planned.step);
      this.#reportResize(spec.name, from, to);
    }
    const left = await write({ kind: 'remove-set', set: spare });
    if (left === undefined) state.spareGone();
    if (failed === undefined) {
      if (left !== undefined) this.#reportKept({ set: spare, maxelem: undefined, cause: left.message });
      return;
    }
    // Nothing else is blocked: the set still has its former entries, and accepts new ones up to its maxelem.
    if (failed.failure === 'exists' || failed.failure === 'missing') this.#isMistaken = true;
    else if (to < from) {
      if (left !== undefined) this.#reportKept({ set: spare, maxelem: undefined, cause: left.message });
      // Perhaps the kernel swapped the sets: a set that is believed to be larger than it is would not grow in time.
      if (unmade === undefined && failed.failure === 'environment') this.#isStale = true;
      return this.#reportKept({ set: spec.name, maxelem: from, cause: failed.message });
    } else if (failed.failure === 'environment') this.#isUnknown = true;
    const cause = `${planned.line()}: ${failed.message}`;
    const name = nameOf(planned.step, plan.family);
    this.#failed.push({ ...name, owner: undefined, line: undefined, blame: 'environment', cause });
  }

  /** A set that is too large, or left over, makes no rule wrong: it is reported, and tried again after the next reading. */
  #reportKept(kept: SetKept): void {
    const { state, onSetKept } = this.#parts;
    if (state.keepAsIs(kept.set, kept.cause)) onSetKept(kept);
  }

  /** Only a set that kube-proxy has too is reported. */
  #reportResize(set: string, from: number | undefined, to: number): void {
    const { plan, onResized } = this.#parts;
    const kubeProxys = KUBE_PROXY_MAXELEM;
    if (!isShared(setId(plan.family, set)) || (from ?? kubeProxys) === to) return;
    onResized({ set, from, to, kubeProxys });
  }

  #isBlocked({ step, owner }: Pick<PlannedWrite, 'step' | 'owner'>): boolean {
    const by = this.#blocked.get(step) ?? (owner === undefined ? undefined : this.#blocked.get(owner));
    if (by === undefined) return false;
    this.#skipOne({ step, owner }, by);
    return true;
  }

  /** Report a step as not written because of another one. */
  #skipOne({ step, owner }: Pick<PlannedWrite, 'step' | 'owner'>, blockedBy: string): void {
    this.#skipped.push({ key: step, family: this.#parts.plan.family, owner, blockedBy });
  }

  #failure(planned: PlannedWrite, error: KernelError): void {
    const { step, owner, write } = planned;
    if (write.kind === 'remove-set' && write.set === spareName(this.#parts.plan.family)) {
      this.#reportKept({ set: write.set, maxelem: undefined, cause: error.message });
      return;
    }
    const isFirst = !this.#blocked.has(step);
    this.#blocked.set(step, step);
    if (owner !== undefined) this.#blocked.set(owner, step);
    // A consequence of a reported failure, such as a destination of a server that could not be created.
    if (!isFirst && error.failure === 'missing') {
      this.#skipOne(planned, step);
      return;
    }
    const isForeignSet = write.kind === 'add-set' && error.failure === 'exists';
    if ((error.failure === 'exists' || error.failure === 'missing') && !isForeignSet) {
      this.#isMistaken = true;
      this.#skipOne(planned, step);
      return;
    }
    if (error.failure === 'environment') this.#isUnknown = true;
    const line = planned.line();
    const blame = error.failure === 'refused' ? 'content' : 'environment';
    const text = isForeignSet ? 'a set of this name with another type exists; remove it' : error.message;
    this.#failed.push({ ...nameOf(step, this.#parts.plan.family), owner, line, blame, cause: `${line}: ${text}` });
  }

  /** Write rules. Returns whether they are installed. */
  async #writeTables(tables: TablesPlan): Promise<boolean> {
    const { state, signal } = this.#parts;
    if (tables.steps.length === 0) return true;
    const report = await state.tables.apply(tables, signal);
    this.#failed.push(...report.failed);
    this.#skipped.push(...report.skipped);
    if (report.outcome !== 'complete') return false;
    for (const { key } of tables.steps) this.#done.add(key);
    return true;
  }

  /** Report steps that are left for the next sync as blocked by the first write that was impossible. Returns false, for not written. */
  #skip(steps: readonly Step[]): false {
    const by =
      (this.#failed.find(({ blame }) => blame === 'environment') ?? this.#failed[0])?.key ?? 'an earlier stage';
    for (const { key, family, owner } of steps) {
      if (!this.#done.has(key) && !this.#failed.some((step) => step.key === key)) {
        this.#skipped.push({ key, family, owner, blockedBy: by });
      }
    }
    return false;
  }

  /**
   * Retire destinations: first stop new connections, then read the connections, then remove destinations without any. In
   * this order no connection starts to a destination that is being removed.
   */
  async #retire(retirements: readonly Retirement[]): Promise<void> {
    const allowed = retirements.filter(({ step, owner }) => !this.#isBlocked({ step, owner }));
    await this.#write(allowed.flatMap(weightZeroWrites));
    const removals: PlannedWrite[] = [];
    for (const one of allowed) {
      if (this.#blocked.has(one.step)) continue;
      removals.push(...(await this.#removals(one)));
    }
    await this.#write(removals);
  }

  async #removals({ server, step, owner, destinations, isServerGone }: Retirement): Promise<PlannedWrite[]> {
    const { state, kernel } = this.#parts;
    const key = serverKey(server);
    if (drains(server) && (destinations.length > 0 || isServerGone)) {
      try {
        const seen = await kernel.destinations(server);
        state.sawConnections(server, seen);
      } catch (error) {
        // Unknown is not empty: the destinations stay, and are read again.
        this.#isUnknown = true;
        const cause = `the connections of ${key} cannot be read: ${(error as Error).message}`;
        this.#failed.push({
          ...nameOf(step, this.#parts.plan.family),
          owner,
          line: undefined,
          blame: 'environment',
          cause,
        });
        return [];
      }
    }
    const isBusy = (destination: OwnedDestination | undefined) =>
      destination !== undefined && state.connectionsOf(destination) > 0;
    const planned = (write: KernelWrite): PlannedWrite => ({ write, step, owner, line: () => `${write.kind} ${key}` });
    // The kernel removes a server with all its destinations.
    const all = [...state.index.destinationsOf(key)].map((one) => state.destinations.applied?.get(one));
    if (isServerGone && !all.some(isBusy)) {
      return [planned({ kind: 'remove-server', server })];
    }
    return destinations
      .filter((one) => !isBusy(one))
      .map(({ destination }) => planned({ kind: 'remove-destination', server, destination }));
  }

  /** After a refusal, an object without a known owner may belong to the refused Service, and stays (invariant 3). */
  #mayRemove({ owner }: { readonly owner: string | undefined }): boolean {
    return owner !== undefined || this.#failed.length === 0;
  }

  /** Addresses wait where something behind them could not be removed: they would lead packets there. */
  async #writeAddresses(behind: readonly Retirement[]): Promise<void> {
    const mayBeLeft = this.#isUnknown || this.#isMistaken;
    const left = behind.filter(({ step }) => mayBeLeft || this.#blocked.has(step));
    const held = new Map<string, string>(left.map(({ server, step }) => [server.address, step]));
    const ready: PlannedWrite[] = [];
    for (const one of this.#parts.plan.addresses) {
      const by = held.get(addressOf(one));
      if (by === undefined) ready.push(one);
      else this.#skipOne(one, by);
    }
    await this.#write(ready);
  }

  /** Whether a draining server needs the address. */
  #isHolding(write: KernelWrite): boolean {
    const { state } = this.#parts;
    if (write.kind !== 'remove-address') return false;
    return [...state.index.serversAt(write.address)].some((key) => !state.servers.desired.has(key));
  }
}

/** Those behind addresses that come, which no packet reaches before, and the others. */
function splitByAddresses({ addresses, retire }: ServersPlan): [Retirement[], Retirement[]] {
  const coming = new Set(addresses.map(addressOf));
  return [
    retire.filter(({ server }) => coming.has(server.address)),
    retire.filter(({ server }) => !coming.has(server.address)),
  ];
}

/** Of the writing of an address; "" otherwise. */
function addressOf({ write }: PlannedWrite): string {
  return write.kind === 'add-address' ? write.address : '';
}

/** Those of destinations alone, and those of servers. */
function splitRetirements(all: readonly Retirement[]): [Retirement[], Retirement[]] {
  return [all.filter(({ isServerGone }) => !isServerGone), all.filter(({ isServerGone }) => isServerGone)];
}

function* entriesOf(state: ServersState, id: SetId): Generator<string> {
  for (const { set, entry } of state.entries.applied?.values() ?? []) if (set === id) yield entry;
}

function nameOf(key: string, family: Family): StepName {
  return { key, family, kind: 'virtual servers' };
}

/** The writes that set weight 0, which stops new connections. */
function weightZeroWrites({ server, step, owner, destinations, isServerGone }: Retirement): PlannedWrite[] {
  if (!drains(server)) return [];
  return destinations
    .filter(({ destination }) => destination.weight !== 0)
    .map(({ destination }) => ({
      write: { kind: 'change-destination', server, destination: { ...destination, weight: 0 } },
      step,
      owner,
      line: () =>
        `no new connections to ${destinationKey(server, destination)}${isServerGone ? ', its Service is deleted' : ''}`,
    }));
}

/** Whether the error means that the kernel already has the wanted state. */
function isAsWanted({ kind }: KernelWrite, { failure }: KernelError): boolean {
  if (kind.startsWith('remove-')) return failure === 'missing';
  return failure === 'exists' && (kind === 'add-address' || kind === 'add-device');
}
