/** IPVS mode: virtual servers for Service addresses on a dummy device, sets, and rules that name the sets (docs/ipvs.md). */

import type { ChainProbe } from '../../host/chain-probe.ts';
import { SERVICE_DEVICE } from '../../host/devices.ts';
import type { IptablesTools } from '../../host/iptables-tools.ts';
import type { IpvsKernel } from '../../host/ipvs-kernel.ts';
import { type Family, familyOf } from '../../model/address.ts';
import { causeOf } from '../../model/cause.ts';
import { familyOfPort, type ServicePort, type ServicePortKey } from '../../model/service-port.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { Observed } from '../../reconcile/observed.ts';
import { type ApplyReport, failedReport, mergeReports, type Plan } from '../../reconcile/step.ts';
import type { ModeWork } from '../../reconcile/work.ts';
import { cleanUp } from '../cleanup.ts';
import { type Mode, NOBODY, type ObserveReport, type RuleCount, type SetAside } from '../mode.ts';
import { anyDiffers, OwnWrites } from '../netfilter/standing.ts';
import { FamilyTables } from '../netfilter/tables.ts';
import { applyFamily, type FamilyReport } from './apply.ts';
import { cleanupFamily } from './cleanup.ts';
import { IpvsDesired } from './desire.ts';
import { JUMPS, SOURCE_JUMP } from './jumps.ts';
import { isOursOrSource, isSource } from './names.ts';
import { type NodeOptions, type NodePlan, NodeState } from './node.ts';
import { serverKey } from './objects.ts';
import { type KernelLists, observeFamily, readLists } from './observe.ts';
import { type FamilyPlan, planFamily } from './plan.ts';
import type { IpvsSettings } from './settings.ts';
import { FamilyState } from './state.ts';
import { sourceChain } from './static-chains.ts';

export interface IpvsOptions extends NodeOptions {
  /** One entry for each family that the node has. */
  readonly families: readonly {
    readonly settings: IpvsSettings;
    readonly tools: IptablesTools;
    /** Who tells whether the canaries stand, instead of the tools, and whether anything was written since the last read. */
    readonly look?: ChainProbe | undefined;
  }[];
  /**
   * Another mode has taken over: nothing is wanted any more. Connections end in their own time; the rules of the other
   * mode are left alone.
   */
  readonly isPredecessor?: boolean;
}

interface Member {
  readonly family: Family;
  readonly tools: IptablesTools;
  readonly desired: IpvsDesired;
  readonly state: FamilyState;
}

export interface IpvsPlan extends Plan {
  readonly node: NodePlan;
  readonly families: readonly FamilyPlan[];
  readonly setAside: SetAside;
}

export function ipvsMode(options: IpvsOptions): Mode<IpvsPlan> {
  return new IpvsMode(options);
}

class IpvsMode implements Mode<IpvsPlan> {
  readonly name = 'ipvs';
  readonly readsApart = false;
  readonly #kernel: IpvsKernel;
  readonly #isPredecessor: boolean;
  readonly #node: NodeState;
  readonly #members: readonly Member[];
  #cause: string | undefined;
  #steps = 0;

  constructor(options: IpvsOptions) {
    this.#kernel = options.kernel;
    this.#isPredecessor = options.isPredecessor === true;
    this.#node = new NodeState(options);
    const own = new OwnWrites();
    this.#members = options.families.map((family) => newMember({ ...family, own }, this.#isPredecessor));
  }

  get isObserved(): boolean {
    return this.#node.isKnown && this.#members.every(({ state }) => state.isKnown);
  }

  get isWaiting(): boolean {
    const isDraining = this.#members.some(({ state }) => state.isKnown && state.drainingServers().length > 0);
    return isDraining || (this.#isPredecessor && !this.#hasLeft);
  }

  get work(): ModeWork {
    let [rendered, compared] = [0, this.#node.compared];
    for (const { state } of this.#members) {
      rendered += state.rendered;
      compared += state.compared;
    }
    return { rendered, compared, steps: this.#steps };
  }

  /** Nothing of ours is left. */
  get #hasLeft(): boolean {
    const hasLeft = ({ state }: Member) => state.isKnown && state.sets.applied?.size === 0;
    return this.#node.isWithoutDevice && this.#members.every(hasLeft);
  }

  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    if (this.#isPredecessor) return;
    for (const { family, desired, state } of this.#members) {
      state.desire(desired.update([...changes].filter(([key]) => familyOfPort(key) === family)));
    }
  }

  /** Nothing is shared here that grows with the Services. */
  settle(): void {}

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    let lists: KernelLists;
    this.#cause = undefined;
    try {
      lists = await readLists(this.#kernel);
      await this.#node.observe();
    } catch (error) {
      if (signal.aborted) throw error;
      this.#node.forget();
      for (const { state } of this.#members) state.forget();
      this.#cause = causeOf(error);
      return { kind: 'unknown', cause: this.#cause };
    }
    const drift: string[] = [];
    const udpFrontends: UdpFrontend[] = [];
    for (const member of this.#members) {
      const { state } = member;
      state.unread = undefined;
      try {
        const seen = await this.#observeMember(member, lists, signal);
        drift.push(...seen.drift);
        udpFrontends.push(...seen.udpFrontends);
      } catch (error) {
        if (signal.aborted) throw error;
        state.forget();
        state.unread = causeOf(error);
      }
    }
    const causes = this.#members.map(({ state }) => state.unread).filter((cause) => cause !== undefined);
    if (causes.length === this.#members.length) return { kind: 'unknown', cause: causes.join('; ') };
    const isBare = causes.length === 0 && this.#members.every(({ state }) => state.isEmptied);
    return { kind: 'known', value: { isBare, drift, unread: causes, udpFrontends } };
  }

  /** Connections of what drains are read again: they end by themselves. */
  async refresh(signal: AbortSignal): Promise<void> {
    for (const { state } of this.#members) {
      if (!state.isKnown) continue;
      if (this.#isPredecessor) this.#keepSource(state);
      for (const server of state.drainingServers()) {
        signal.throwIfAborted();
        state.sawConnections(server, await this.#kernel.destinations(server));
      }
    }
  }

  plan(setAside: SetAside = NOBODY): IpvsPlan {
    const families = this.#members.filter(({ state }) => state.isKnown).map(({ state }) => planFamily(state, setAside));
    const node = this.#node.plan(families.every((plan) => plan.leavesNothing));
    const steps = [...node.steps, ...families.flatMap((plan) => plan.steps)];
    this.#steps += steps.length;
    return { node, families, setAside, steps };
  }

  async apply(plan: IpvsPlan, signal: AbortSignal): Promise<ApplyReport> {
    const first = await this.#applyOnce(plan, signal);
    if (!first.isMistaken) return first.report;
    // Another program wrote meanwhile: read again, and make what is still to do of what is there now.
    const seen = await this.observe(signal);
    if (seen.kind === 'unknown')
      return mergeReports([first.report, failedReport('the kernel', `the kernel: ${seen.cause}`)]);
    const second = await this.#applyOnce(this.plan(plan.setAside), signal);
    const applied = first.report.applied + second.report.applied;
    if (!second.isMistaken) return { ...second.report, applied };
    const cause = 'another program changes virtual servers or sets of ours while they are written';
    const { failed } = failedReport('kernel', cause);
    return { ...second.report, outcome: 'partial', applied, failed: [...second.report.failed, ...failed] };
  }

  async probe(signal: AbortSignal): Promise<boolean> {
    const kernel = this.#kernel;
    if (!(await kernel.hasDevice())) return false;
    const there = new Set((await kernel.servers()).map(serverKey));
    for (const { state, family } of this.#members) {
      for (const key of state.servers.applied?.keys() ?? [])
        if (!there.has(key as ReturnType<typeof serverKey>)) return false;
      const on = new Set((await kernel.addresses(family)).ours);
      for (const address of state.addresses.applied?.keys() ?? []) if (!on.has(address)) return false;
      if (!(await state.tables.hasCanaries(signal))) return false;
    }
    return true;
  }

  async mayDiffer(): Promise<boolean> {
    for (const { state } of this.#members) if (await state.tables.mayDiffer()) return true;
    return false;
  }

  async differs(signal: AbortSignal): Promise<boolean | undefined> {
    return anyDiffers(await Promise.all(this.#members.map(({ state }) => state.tables.differs(signal))));
  }

  ruleCounts(): readonly RuleCount[] {
    return this.#members.flatMap(({ state }) => state.tables.ruleCounts());
  }

  async cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const kernel = this.#kernel;
    const lists = await readLists(kernel);
    const families = this.#members.map(({ family, state, tools }) => ({
      name: family,
      remove: async () => {
        const { seen } = await observeFamily(kernel, state, lists);
        return await cleanupFamily({ tools, kernel, seen, signal });
      },
    }));
    const device = {
      name: `device ${SERVICE_DEVICE}`,
      remove: async () => {
        if (!(await kernel.hasDevice())) return [];
        const [error] = await kernel.write([{ kind: 'remove-device' }], signal);
        if (error !== undefined) throw error;
        return [`device ${SERVICE_DEVICE}`];
      },
    };
    return await cleanUp([...families, device], signal);
  }

  async #observeMember({ state, desired }: Member, lists: KernelLists, signal: AbortSignal) {
    const tables = await state.tables.observe(signal);
    const { seen, host } = await observeFamily(this.#kernel, state, lists);
    const drift = [...tables.drift, ...state.driftFrom(seen)];
    if (!this.#isPredecessor) state.desire(desired.hostHas(host));
    state.observe(seen);
    if (this.#isPredecessor) this.#keepSource(state);
    const udpFrontends: UdpFrontend[] = [];
    for (const { server } of seen.servers.values()) {
      const { protocol, address, port } = server;
      if (protocol === 'UDP') udpFrontends.push({ family: familyOf(address), address, port });
    }
    return { drift, udpFrontends };
  }

  /** While addresses of ours are left, what the node sends from them is masqueraded. */
  #keepSource(state: FamilyState): void {
    const isNeeded = (state.addresses.applied?.size ?? 0) > 0;
    for (const [key, chain] of sourceChain(state.settings.family))
      state.tables.desire(key, isNeeded ? chain : undefined);
    state.tables.desireJump(SOURCE_JUMP, isNeeded);
  }

  async #applyOnce(
    plan: IpvsPlan,
    signal: AbortSignal,
  ): Promise<{ readonly report: ApplyReport; readonly isMistaken: boolean }> {
    const reports = [...(await this.#node.applyFirst(plan.node, signal))];
    if (plan.node.device === 'add-device' && !this.#node.isKnown) {
      return { report: mergeReports(reports), isMistaken: false };
    }
    let isMistaken = false;
    for (const { family, state } of this.#members) {
      const part = plan.families.find((candidate) => candidate.family === family);
      const report: ApplyReport & Partial<FamilyReport> =
        part === undefined
          ? failedReport(family, `${family}: ${state.unread ?? this.#cause ?? 'not read yet'}`)
          : await applyFamily(part, state, this.#kernel, signal);
      isMistaken ||= report.isMistaken === true;
      reports.push(report);
    }
    const isEmpty = this.#members.every(({ state }) => state.isEmptied && state.sets.applied?.size === 0);
    if (plan.node.device === 'remove-device' && isEmpty) reports.push(await this.#node.removeDevice(signal));
    return { report: mergeReports(reports), isMistaken };
  }
}

type MemberInput = IpvsOptions['families'][number] & { readonly own: OwnWrites };

function newMember({ settings, tools, look, own }: MemberInput, isPredecessor: boolean): Member {
  const tables = new FamilyTables({
    tools,
    look,
    own,
    isOurs: isPredecessor ? isSource : isOursOrSource,
    jumps: isPredecessor ? [] : JUMPS,
  });
  return {
    family: settings.family,
    tools,
    desired: new IpvsDesired(settings),
    state: new FamilyState(settings, tables, { isPredecessor }),
  };
}
