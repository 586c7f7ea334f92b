/** IPVS mode: virtual servers for Service addresses on a dummy device, sets, and rules that name the sets (design 6). */

import { SERVICE_DEVICE } from '../../host/devices.ts';
import type { IptablesTools } from '../../host/iptables-tools.ts';
import type { IpvsKernel, KernelWrite, Timeouts } from '../../host/ipvs-kernel.ts';
import type { Sysctls } from '../../host/sysctls.ts';
import { type Family, familyOf } from '../../model/address.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { Observed } from '../../reconcile/observed.ts';
import { type ApplyReport, type FailedStep, mergeReports, type Plan, type Step } from '../../reconcile/step.ts';
import { KernelSettings, type SettingsPlan } from '../kernel-settings.ts';
import { CleanupIncomplete, type Mode, NOBODY, type ObserveReport, type SetAside } from '../mode.ts';
import { FamilyTables } from '../netfilter/tables.ts';
import { applyFamily, type FamilyReport } from './apply.ts';
import { cleanupFamily } from './cleanup.ts';
import { IpvsDesired } from './desire.ts';
import { JUMPS, SOURCE_JUMP } from './jumps.ts';
import { isOursOrSource, isSource } from './names.ts';
import { serverKey } from './objects.ts';
import { type KernelLists, observeFamily, readLists } from './observe.ts';
import { type FamilyPlan, planFamily } from './plan.ts';
import type { IpvsNodeSettings, IpvsSettings } from './settings.ts';
import { FamilyState } from './state.ts';
import { sourceChain } from './static-chains.ts';

export interface IpvsOptions {
  /** One entry for each family that the node has. */
  readonly families: readonly { readonly settings: IpvsSettings; readonly tools: IptablesTools }[];
  readonly node: IpvsNodeSettings;
  readonly kernel: IpvsKernel;
  readonly sysctls: Sysctls;
  /** Kernel settings to write, by name. */
  readonly wantedSettings: ReadonlyMap<string, string>;
  /**
   * Another mode has taken over: nothing is wanted any more. Connections end in their own time; the rules of the other
   * mode are left alone.
   */
  readonly isLeaving?: boolean;
}

interface Member {
  readonly family: Family;
  readonly tools: IptablesTools;
  readonly desired: IpvsDesired;
  readonly state: FamilyState;
}

export interface IpvsPlan extends Plan {
  readonly settings: SettingsPlan | undefined;
  readonly timeouts: Timeouts | undefined;
  readonly device: 'add-device' | 'remove-device' | undefined;
  readonly families: readonly FamilyPlan[];
  readonly setAside: SetAside;
}

export function ipvsMode(options: IpvsOptions): Mode<IpvsPlan> {
  return new IpvsMode(options);
}

class IpvsMode implements Mode<IpvsPlan> {
  readonly name = 'ipvs';
  readonly #options: IpvsOptions;
  readonly #members: readonly Member[];
  readonly #settings: KernelSettings;
  /** undefined: not known. */
  #hasDevice: boolean | undefined;
  #timeouts: Timeouts | undefined;
  #cause: string | undefined;

  constructor(options: IpvsOptions) {
    this.#options = options;
    this.#members = options.families.map((family) => newMember(family, options.isLeaving === true));
    this.#settings = new KernelSettings({
      sysctls: options.sysctls,
      prefix: '',
      wanted: options.isLeaving === true ? new Map() : options.wantedSettings,
      hint: 'run --init-only with more privileges writes it',
    });
  }

  get isObserved(): boolean {
    return this.#hasDevice !== undefined && this.#members.every(({ state }) => state.isKnown);
  }

  get isWaiting(): boolean {
    const isDraining = this.#members.some(({ state }) => state.isKnown && state.drainingServers().length > 0);
    return isDraining || (this.#options.isLeaving === true && !this.#hasLeft);
  }

  /** Nothing of ours is left. */
  get #hasLeft(): boolean {
    return (
      this.#hasDevice === false && this.#members.every(({ state }) => state.isKnown && state.sets.applied?.size === 0)
    );
  }

  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const { family, desired, state } of this.#members) {
      const mine = [...changes].filter(([key]) => key.endsWith(`/${family}`));
      const changed = desired.update(mine);
      if (this.#options.isLeaving !== true) state.desire(changed);
    }
  }

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    const { kernel, node } = this.#options;
    let lists: KernelLists;
    this.#cause = undefined;
    try {
      lists = await readLists(kernel);
      this.#hasDevice = await kernel.hasDevice();
      this.#timeouts = wantedTimeouts(node) === undefined ? undefined : await kernel.timeouts();
      await this.#settings.observe();
    } catch (error) {
      if (signal.aborted) throw error;
      this.#hasDevice = undefined;
      for (const { state } of this.#members) state.forget();
      this.#cause = messageOf(error);
      return { kind: 'unknown', cause: this.#cause };
    }
    const drift: string[] = [];
    const udpFrontends: UdpFrontend[] = [];
    let objects = 0;
    for (const member of this.#members) {
      const { state } = member;
      state.unread = undefined;
      try {
        const seen = await this.#observeMember(member, lists, signal);
        drift.push(...seen.drift);
        udpFrontends.push(...seen.udpFrontends);
        objects += seen.objects;
      } catch (error) {
        if (signal.aborted) throw error;
        state.forget();
        state.unread = messageOf(error);
      }
    }
    const causes = this.#members.map(({ state }) => state.unread).filter((cause) => cause !== undefined);
    if (causes.length === this.#members.length) return { kind: 'unknown', cause: causes.join('; ') };
    return { kind: 'known', value: { objects, drift, unread: causes, udpFrontends } };
  }

  /** Connections of what drains are read again: they end by themselves. */
  async refresh(signal: AbortSignal): Promise<void> {
    const { kernel } = this.#options;
    for (const { state } of this.#members) {
      if (!state.isKnown) continue;
      if (this.#options.isLeaving === true) this.#keepSource(state);
      for (const server of state.drainingServers()) {
        signal.throwIfAborted();
        state.sawConnections(server, await kernel.destinations(server));
      }
    }
  }

  plan(setAside: SetAside = NOBODY): IpvsPlan {
    const { isLeaving = false } = this.#options;
    const families = this.#members.filter(({ state }) => state.isKnown).map(({ state }) => planFamily(state, setAside));
    const settings = this.#hasDevice === undefined ? undefined : this.#settings.plan();
    const timeouts = this.#pendingTimeouts();
    const device = this.#hasDevice === isLeaving ? (isLeaving ? 'remove-device' : 'add-device') : undefined;
    const isEmptied = device !== 'remove-device' || families.every((plan) => plan.leavesNothing);
    const steps = [
      ...(settings?.steps ?? []),
      ...(timeouts === undefined ? [] : [timeoutsStep(timeouts)]),
      ...(device === undefined || !isEmptied ? [] : [deviceStep(device)]),
      ...families.flatMap((plan) => plan.steps),
    ];
    return { settings, timeouts, device: isEmptied ? device : undefined, families, setAside, steps };
  }

  async apply(plan: IpvsPlan, signal: AbortSignal): Promise<ApplyReport> {
    const first = await this.#applyOnce(plan, signal);
    if (!first.isMistaken) return first.report;
    // Another program wrote meanwhile: read again, and make what is still to do of what is there now.
    const seen = await this.observe(signal);
    if (seen.kind === 'unknown') return mergeReports([first.report, unread('the kernel', seen.cause)]);
    const second = await this.#applyOnce(this.plan(plan.setAside), signal);
    const applied = first.report.applied + second.report.applied;
    if (!second.isMistaken) return { ...second.report, applied };
    const failed: FailedStep = {
      key: 'kernel',
      owner: undefined,
      line: undefined,
      blame: 'environment',
      cause: 'another program changes virtual servers or sets of ours while they are written',
    };
    return { ...second.report, outcome: 'partial', applied, failed: [...second.report.failed, failed] };
  }

  async probe(signal: AbortSignal): Promise<boolean> {
    const { kernel } = this.#options;
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

  async cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const { kernel } = this.#options;
    const removed: string[] = [];
    const problems: string[] = [];
    const lists = await readLists(kernel);
    for (const { family, state, tools } of this.#members) {
      try {
        const { seen } = await observeFamily(kernel, state, lists);
        removed.push(...(await cleanupFamily({ tools, kernel, seen, signal })));
      } catch (error) {
        if (signal.aborted) throw error;
        problems.push(`${family}: ${messageOf(error)}`);
      }
    }
    if (await kernel.hasDevice()) {
      const [error] = await kernel.write([{ kind: 'remove-device' }], signal);
      if (error === undefined) removed.push(`device ${SERVICE_DEVICE}`);
      else problems.push(`device ${SERVICE_DEVICE}: ${error.message}`);
    }
    if (problems.length > 0) throw new CleanupIncomplete(`not all could be removed: ${problems.join('; ')}`);
    return removed;
  }

  async #observeMember({ state, desired }: Member, lists: KernelLists, signal: AbortSignal) {
    const { kernel, isLeaving } = this.#options;
    const tables = await state.tables.observe(signal);
    const { seen, host } = await observeFamily(kernel, state, lists);
    const drift = [...tables.drift, ...state.driftFrom(seen)];
    const changed = desired.hostHas(host);
    if (isLeaving !== true) state.desire(changed);
    state.observe(seen);
    if (isLeaving === true) this.#keepSource(state);
    const udpFrontends: UdpFrontend[] = [];
    for (const { server } of seen.servers.values()) {
      const { protocol, address, port } = server;
      if (protocol === 'UDP') udpFrontends.push({ family: familyOf(address), address, port });
    }
    const objects = seen.servers.size + seen.addresses.size + seen.sets.size + tables.chains.size;
    return { drift, udpFrontends, objects };
  }

  /** While addresses of ours are left, what the node sends from them is masqueraded. */
  #keepSource(state: FamilyState): void {
    const isNeeded = (state.addresses.applied?.size ?? 0) > 0;
    for (const [key, chain] of sourceChain(state.settings.family))
      state.tables.desire(key, isNeeded ? chain : undefined);
    state.tables.desireJump(SOURCE_JUMP, isNeeded);
  }

  #pendingTimeouts(): Timeouts | undefined {
    const wanted = wantedTimeouts(this.#options.node);
    const now = this.#timeouts;
    if (wanted === undefined || now === undefined || this.#options.isLeaving === true) return undefined;
    const isRight = (['tcp', 'tcpFin', 'udp'] as const).every((key) => wanted[key] === 0 || wanted[key] === now[key]);
    return isRight ? undefined : wanted;
  }

  async #applyOnce(
    plan: IpvsPlan,
    signal: AbortSignal,
  ): Promise<{ readonly report: ApplyReport; readonly isMistaken: boolean }> {
    const reports: ApplyReport[] = [];
    if (plan.settings !== undefined && plan.settings.writes.length > 0) {
      reports.push(await this.#settings.apply(plan.settings));
    }
    if (plan.timeouts !== undefined) reports.push(await this.#writeTimeouts(plan.timeouts));
    if (plan.device === 'add-device') {
      const report = await this.#writeDevice('add-device', signal);
      reports.push(report);
      if (report.outcome === 'failed') return { report: mergeReports(reports), isMistaken: false };
    }
    let isMistaken = false;
    for (const { family, state } of this.#members) {
      const part = plan.families.find((candidate) => candidate.family === family);
      const report: ApplyReport & Partial<FamilyReport> =
        part === undefined
          ? unread(family, state.unread ?? this.#cause ?? 'not read yet')
          : await applyFamily(part, state, this.#options.kernel, signal);
      isMistaken ||= report.isMistaken === true;
      reports.push(report);
    }
    const isEmpty = this.#members.every(({ state }) => state.isEmptied && state.sets.applied?.size === 0);
    if (plan.device === 'remove-device' && isEmpty) reports.push(await this.#writeDevice('remove-device', signal));
    return { report: mergeReports(reports), isMistaken };
  }

  async #writeTimeouts(timeouts: Timeouts): Promise<ApplyReport> {
    try {
      await this.#options.kernel.setTimeouts(timeouts);
      this.#timeouts = await this.#options.kernel.timeouts();
      return { outcome: 'complete', applied: 1, failed: [], skipped: [] };
    } catch (error) {
      return unread('timeouts of IPVS', messageOf(error));
    }
  }

  async #writeDevice(kind: 'add-device' | 'remove-device', signal: AbortSignal): Promise<ApplyReport> {
    const write: KernelWrite = { kind };
    const [error] = await this.#options.kernel.write([write], signal);
    if (error === undefined || error.trouble === (kind === 'add-device' ? 'exists' : 'missing')) {
      this.#hasDevice = kind === 'add-device';
      return { outcome: 'complete', applied: 1, failed: [], skipped: [] };
    }
    this.#hasDevice = undefined;
    return unread(`device ${SERVICE_DEVICE}`, error.message);
  }
}

function newMember({ settings, tools }: IpvsOptions['families'][number], isLeaving: boolean): Member {
  const tables = new FamilyTables({
    tools,
    isOurs: isLeaving ? isSource : isOursOrSource,
    jumps: isLeaving ? [] : JUMPS,
  });
  return {
    family: settings.family,
    tools,
    desired: new IpvsDesired(settings),
    state: new FamilyState(settings, tables, { isLeaving }),
  };
}

function wantedTimeouts({ tcpTimeout, tcpFinTimeout, udpTimeout }: IpvsNodeSettings): Timeouts | undefined {
  if (tcpTimeout + tcpFinTimeout + udpTimeout === 0) return undefined;
  return { tcp: tcpTimeout, tcpFin: tcpFinTimeout, udp: udpTimeout };
}

function timeoutsStep({ tcp, tcpFin, udp }: Timeouts): Step {
  return plainStep('timeouts of IPVS', 'update', `ipvsadm --set ${tcp} ${tcpFin} ${udp}`);
}

function deviceStep(kind: 'add-device' | 'remove-device'): Step {
  const isNew = kind === 'add-device';
  return plainStep(
    `device ${SERVICE_DEVICE}`,
    isNew ? 'create' : 'remove',
    isNew ? `ip link add ${SERVICE_DEVICE} type dummy` : SERVICE_DEVICE,
  );
}

function plainStep(key: string, action: Step['action'], line: string): Step {
  return {
    key,
    action,
    phase: action === 'remove' ? 'remove sets, chains and addresses' : 'sysctls and devices',
    owner: undefined,
    concerns: () => [],
    lines: () => [`${action === 'remove' ? '-' : '+'} ${line}`],
  };
}

/** The report of what could not be done at all. */
function unread(key: string, cause: string): ApplyReport {
  const failed: FailedStep = {
    key,
    owner: undefined,
    line: undefined,
    blame: 'environment',
    cause: `${key}: ${cause}`,
  };
  return { outcome: 'failed', applied: 0, failed: [failed], skipped: [] };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
