/** The parts of IPVS mode that exist once for the node, not for each family: device, timeouts, kernel settings. */

import { FAMILIES, type Family } from '../../../base/address.ts';
import { causeOf } from '../../../base/cause.ts';
import { sameData } from '../../../base/equal.ts';
import { SERVICE_DEVICE } from '../../../kernel/devices.ts';
import type { IpvsKernel, IpvsQuestions, IpvsReader, Timeouts } from '../../../kernel/ipvs-kernel.ts';
import type { Sysctls } from '../../../kernel/sysctls.ts';
import type { Unlike } from '../../reconcile/compare.ts';
import { type ApplyReport, failedReport, NOTHING_TO_DO, type Step, type StepName } from '../../reconcile/step.ts';
import type { NodeInspection } from '../inspection.ts';
import { KernelSettings, type SettingsPlan } from '../kernel-settings.ts';
import { type CleanupPart, ServersLeft } from '../mode.ts';
import type { NodePart, NodePlan } from '../node-part.ts';
import type { OnResized, OnSetKept } from './apply.ts';
import { serverKey } from './tracked-objects.ts';

/** Timeouts of IPVS in seconds; 0 keeps the kernel's. */
export interface IpvsNodeSettings {
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
}

export interface NodeOptions {
  readonly kernel: IpvsKernel;
  /** A predecessor answers no questions. */
  readonly questions?: IpvsQuestions;
  readonly sysctls: Sysctls;
  /** Undefined when the timeouts stay as they are. */
  readonly node?: IpvsNodeSettings;
  /** Kernel settings to write, by name. */
  readonly wantedSettings?: ReadonlyMap<string, string>;
  /** Called when a set that kube-proxy has too became larger than kube-proxy's, or has its size again. */
  readonly onResized?: OnResized | undefined;
  /** Called when a set could not be made smaller, or the spare set not removed; once for each cause. */
  readonly onSetKept?: OnSetKept | undefined;
  /** Set for a predecessor: the device is removed, and settings and timeouts stay. */
  readonly predecessor?: {
    /** Returns whether only the device remains. */
    readonly areEmptied: () => boolean;
  };
}

export class IpvsNode implements NodePart {
  readonly kernel: IpvsKernel;
  readonly #questions: IpvsQuestions | undefined;
  readonly onResized: OnResized;
  readonly onSetKept: OnSetKept;
  readonly #areEmptied: () => boolean;
  readonly #settings: KernelSettings;
  readonly #timeouts: IpvsTimeouts;
  readonly #device: ServiceDevice;
  /** Keys of the servers that the kernel had at the last probe. */
  #probed: ReadonlySet<string> = new Set();

  constructor(options: NodeOptions) {
    const { kernel, questions, sysctls, node, wantedSettings = new Map(), predecessor } = options;
    this.kernel = kernel;
    this.#questions = questions;
    this.onResized = options.onResized ?? (() => undefined);
    this.onSetKept = options.onSetKept ?? (() => undefined);
    this.#areEmptied = predecessor?.areEmptied ?? (() => false);
    this.#timeouts = new IpvsTimeouts(kernel, node);
    this.#device = new ServiceDevice(kernel, predecessor === undefined);
    this.#settings = new KernelSettings({
      sysctls,
      family: undefined,
      wanted: wantedSettings,
      hint: 'to write it, run --init-only with more privileges',
    });
  }

  get isKnown(): boolean {
    return this.#device.isKnown;
  }

  /** The device of a predecessor is removed last. */
  get isWaiting(): boolean {
    return this.#device.isWaiting;
  }

  get compared(): number {
    return this.#settings.compared;
  }

  get inspection(): NodeInspection | undefined {
    const questions = this.#questions;
    if (questions === undefined) return undefined;
    return {
      compared: () =>
        questions.ask(async (kernel) => [
          ...(await this.#device.compare(kernel)),
          ...(await this.#timeouts.compare(kernel)),
          ...(await this.#settings.compare()),
        ]),
    };
  }

  /** The former state counts until the reading ends, so that questions can be answered meanwhile. */
  async observe(): Promise<void> {
    try {
      const exists = await this.#device.read();
      await this.#timeouts.observe();
      await this.#settings.observe();
      this.#device.observe(exists);
    } catch (error) {
      this.#device.observe(undefined);
      throw error;
    }
  }

  plan(isEmptied: boolean): NodePlan {
    const settings = this.isKnown ? this.#settings.plan() : undefined;
    const timeouts = this.#timeouts.pending();
    const device = this.#device.pending(isEmptied);
    return {
      steps: [
        ...(settings?.steps ?? []),
        ...(timeouts === undefined ? [] : [timeoutsStep(timeouts)]),
        ...(device === undefined ? [] : [deviceStep(device)]),
      ],
      before: async (signal) => {
        const reports = await this.#before({ settings, timeouts }, device, signal);
        // Without the device no address can be written.
        return { reports, isBlocked: device === 'add-device' && !this.isKnown };
      },
      after: async (signal) => {
        return device === 'remove-device' && this.#areEmptied() ? await this.#device.remove(signal) : [];
      },
    };
  }

  async #before(
    { settings, timeouts }: { settings: SettingsPlan | undefined; timeouts: Timeouts | undefined },
    device: DeviceWrite | undefined,
    signal: AbortSignal,
  ): Promise<readonly ApplyReport[]> {
    const reports: ApplyReport[] = [];
    if (settings !== undefined && settings.writes.length > 0) reports.push(await this.#settings.apply(settings));
    if (timeouts !== undefined) reports.push(await this.#timeouts.write(timeouts));
    if (device === 'add-device') reports.push(await this.#device.write(device, signal));
    return reports;
  }

  async isInstalled(): Promise<boolean> {
    if (!(await this.#device.read())) return false;
    this.#probed = new Set((await this.kernel.servers()).map(serverKey));
    return true;
  }

  /** Whether the kernel had this server at the last `isInstalled`. */
  hasServer(key: string): boolean {
    return this.#probed.has(key);
  }

  removal(signal: AbortSignal): CleanupPart {
    return this.#device.removal(signal);
  }
}

// The dummy device that makes Service addresses local to the node: its state, and the writes that create and remove it.

type DeviceWrite = 'add-device' | 'remove-device';

const DEVICE: StepName = { key: `device ${SERVICE_DEVICE}`, family: undefined, kind: 'device' };

class ServiceDevice {
  readonly #kernel: IpvsKernel;
  readonly #isWanted: boolean;
  /** Undefined when unknown. */
  #exists: boolean | undefined;
  /** A family that this agent does not serve uses it: it stays. */
  #isShared = false;

  constructor(kernel: IpvsKernel, isWanted: boolean) {
    this.#kernel = kernel;
    this.#isWanted = isWanted;
  }

  get isKnown(): boolean {
    return this.#exists !== undefined;
  }

  /** The device is not wanted, and may still exist. */
  get isWaiting(): boolean {
    return !this.#isWanted && this.#exists !== false && !this.#isShared;
  }

  /** Throws when the kernel does not answer. */
  async read(): Promise<boolean> {
    return await this.#kernel.hasDevice();
  }

  /** The device now against the desired state. Throws when the kernel does not answer. */
  async compare(kernel: IpvsReader): Promise<Iterable<Unlike | undefined>> {
    const exists = await kernel.hasDevice();
    if (exists === this.#isWanted) return [undefined];
    const { key: object } = DEVICE;
    const of = {
      object,
      refusedAs: object,
      owner: undefined,
      wanted: [],
      found: [],
      isWaiting: false,
      isRepaired: true,
    } as const;
    return [{ ...of, kind: this.#isWanted ? 'missing' : 'foreign', isPending: exists === this.#exists }];
  }

  observe(exists: boolean | undefined): void {
    this.#exists = exists;
    if (exists !== true) this.#isShared = false;
  }

  /** `isEmptied` means that no family needs the device any more. */
  pending(isEmptied: boolean): DeviceWrite | undefined {
    if (this.#exists === undefined || this.#exists === this.#isWanted) return undefined;
    if (this.#isWanted) return 'add-device';
    return isEmptied && !this.#isShared ? 'remove-device' : undefined;
  }

  async write(kind: DeviceWrite, signal: AbortSignal): Promise<ApplyReport> {
    const [error] = await this.#kernel.write([{ kind }], signal);
    if (error === undefined || error.failure === (kind === 'add-device' ? 'exists' : 'missing')) {
      this.#exists = kind === 'add-device';
      return { ...NOTHING_TO_DO, applied: 1 };
    }
    this.#exists = undefined;
    return failedReport(DEVICE, `${DEVICE.key}: ${error.message}`);
  }

  /** To be called when the families that this agent serves have nothing of IPVS mode. */
  async remove(signal: AbortSignal): Promise<readonly ApplyReport[]> {
    try {
      this.#isShared = (await this.#users()).length > 0;
    } catch (error) {
      this.#exists = undefined;
      return [failedReport(DEVICE, `it cannot be read who uses ${SERVICE_DEVICE}: ${causeOf(error)}`)];
    }
    return this.#isShared ? [] : [await this.write('remove-device', signal)];
  }

  /** The families that have addresses on it. */
  async #users(): Promise<Family[]> {
    const users: Family[] = [];
    for (const family of FAMILIES) if ((await this.#kernel.addresses(family)).ours.length > 0) users.push(family);
    return users;
  }

  removal(signal: AbortSignal): CleanupPart {
    const { key: name } = DEVICE;
    return {
      name,
      remove: async () => {
        if (!(await this.#kernel.hasDevice())) return [];
        const users = await this.#users();
        if (users.length > 0) {
          const of = users.join(' and ');
          throw new ServersLeft(
            `it stays, because ${of} has addresses on it: run it again where the iptables of ${of} works`,
          );
        }
        const [error] = await this.#kernel.write([{ kind: 'remove-device' }], signal);
        if (error !== undefined) throw error;
        return [name];
      },
    };
  }
}

function deviceStep(kind: DeviceWrite): Step {
  const isNew = kind === 'add-device';
  return {
    ...DEVICE,
    action: isNew ? 'create' : 'remove',
    phase: isNew ? 'sysctls and devices' : 'remove sets, chains and addresses',
    owner: undefined,
    concerns: () => [],
    lines: () => [isNew ? `+ ip link add ${SERVICE_DEVICE} type dummy` : `- ${SERVICE_DEVICE}`],
  };
}

// The connection timeouts of IPVS: desired, current, and the write between them.

const TIMEOUTS: StepName = { key: 'timeouts of IPVS', family: undefined, kind: 'setting' };
const NO_TIMEOUTS = { tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 };

class IpvsTimeouts {
  readonly #kernel: IpvsKernel;
  /** Undefined when the kernel's timeouts stay. */
  readonly #wanted: Timeouts | undefined;
  /** Undefined when unknown or not needed. */
  #installed: Timeouts | undefined;

  constructor(kernel: IpvsKernel, settings: IpvsNodeSettings | undefined) {
    this.#kernel = kernel;
    const { tcpTimeout: tcp, tcpFinTimeout: tcpFin, udpTimeout: udp } = settings ?? NO_TIMEOUTS;
    this.#wanted = tcp + tcpFin + udp === 0 ? undefined : { tcp, tcpFin, udp };
  }

  async observe(): Promise<void> {
    this.#installed = this.#wanted === undefined ? undefined : await this.#kernel.timeouts();
  }

  pending(): Timeouts | undefined {
    const [wanted, now] = [this.#wanted, this.#installed];
    if (wanted === undefined || now === undefined) return undefined;
    return isRight(wanted, now) ? undefined : wanted;
  }

  /** The timeouts now against the desired ones. */
  async compare(kernel: IpvsReader): Promise<Iterable<Unlike | undefined>> {
    const { key: object } = TIMEOUTS;
    const text = ({ tcp, tcpFin, udp }: Timeouts) => `ipvsadm --set ${tcp} ${tcpFin} ${udp}`;
    if (this.#wanted === undefined) return [];
    const [wanted, found] = [this.#wanted, await kernel.timeouts()];
    if (isRight(wanted, found)) return [undefined];
    const isPending = this.#installed !== undefined && sameData(found, this.#installed);
    const of = {
      object,
      refusedAs: object,
      owner: undefined,
      kind: 'changed',
      isPending,
      isWaiting: false,
      isRepaired: true,
    } as const;
    return [{ ...of, wanted: [text(wanted)], found: [text(found)] }];
  }

  async write(timeouts: Timeouts): Promise<ApplyReport> {
    try {
      await this.#kernel.setTimeouts(timeouts);
      this.#installed = await this.#kernel.timeouts();
      return { ...NOTHING_TO_DO, applied: 1 };
    } catch (error) {
      return failedReport(TIMEOUTS, `${TIMEOUTS.key}: ${causeOf(error)}`);
    }
  }
}

/** Whether the timeouts need no write. A wanted timeout of 0 keeps the kernel's. */
function isRight(wanted: Timeouts, now: Timeouts): boolean {
  return (['tcp', 'tcpFin', 'udp'] as const).every((key) => wanted[key] === 0 || wanted[key] === now[key]);
}

function timeoutsStep({ tcp, tcpFin, udp }: Timeouts): Step {
  return {
    ...TIMEOUTS,
    action: 'update',
    phase: 'sysctls and devices',
    owner: undefined,
    concerns: () => [],
    lines: () => [`+ ipvsadm --set ${tcp} ${tcpFin} ${udp}`],
  };
}
