/** What IPVS mode has once for the node, not for each family: the device, the three timeouts, the kernel settings. */
import { SERVICE_DEVICE } from '../../host/devices.ts';
import type { IpvsKernel, Timeouts } from '../../host/ipvs-kernel.ts';
import type { Sysctls } from '../../host/sysctls.ts';
import { causeOf } from '../../model/cause.ts';
import { type ApplyReport, failedReport, NOTHING_TO_DO, type Step, type StepName } from '../../reconcile/step.ts';
import type { Part } from '../cleanup.ts';
import type { NodePart, NodePlan } from '../families.ts';
import { KernelSettings, type SettingsPlan } from '../kernel-settings.ts';
import { serverKey } from './objects.ts';
import { type KernelLists, readLists } from './observe.ts';
import type { IpvsNodeSettings } from './settings.ts';

export interface NodeOptions {
  readonly kernel: IpvsKernel;
  readonly sysctls: Sysctls;
  /** undefined: the timeouts stay as they are. */
  readonly node?: IpvsNodeSettings;
  /** Kernel settings to write, by name. */
  readonly wantedSettings?: ReadonlyMap<string, string>;
  /** Nothing is wanted any more: the device goes, all else stays as it is. */
  readonly predecessor?: {
    /** Nothing but the device is left. */
    readonly areEmptied: () => boolean;
  };
}

const DEVICE: StepName = { key: `device ${SERVICE_DEVICE}`, family: undefined, kind: 'device' };
const TIMEOUTS: StepName = { key: 'timeouts of IPVS', family: undefined, kind: 'setting' };

export class IpvsNode implements NodePart {
  readonly kernel: IpvsKernel;
  readonly #options: NodeOptions;
  readonly #settings: KernelSettings;
  readonly #timeouts: WantedTimeouts;
  /** undefined: unknown. */
  #hasDevice: boolean | undefined;
  #lists: KernelLists = { servers: [], setNames: new Set() };
  /** Keys of the servers that the kernel had when it was probed last. */
  #probed: ReadonlySet<string> = new Set();

  constructor(options: NodeOptions) {
    const { kernel, sysctls, node, wantedSettings = new Map() } = options;
    this.kernel = kernel;
    this.#options = options;
    this.#timeouts = new WantedTimeouts(kernel, node);
    this.#settings = new KernelSettings({
      sysctls,
      family: undefined,
      wanted: wantedSettings,
      hint: 'run --init-only with more privileges writes it',
    });
  }

  get isKnown(): boolean {
    return this.#hasDevice !== undefined;
  }

  /** The device of a predecessor goes last. */
  get isWaiting(): boolean {
    return this.#isPredecessor && this.#hasDevice !== false;
  }

  get compared(): number {
    return this.#settings.compared;
  }

  /** What the families share of a reading. */
  get lists(): KernelLists {
    return this.#lists;
  }

  get #isPredecessor(): boolean {
    return this.#options.predecessor !== undefined;
  }

  async observe(): Promise<void> {
    this.#hasDevice = undefined;
    this.#lists = await readLists(this.kernel);
    const hasDevice = await this.kernel.hasDevice();
    await this.#timeouts.observe();
    await this.#settings.observe();
    this.#hasDevice = hasDevice;
  }

  plan(isEmptied: boolean): NodePlan {
    const settings = this.isKnown ? this.#settings.plan() : undefined;
    const timeouts = this.#timeouts.pending();
    const device = this.#pendingDevice(isEmptied);
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
        if (device !== 'remove-device' || this.#options.predecessor?.areEmptied() !== true) return [];
        return [await this.#writeDevice('remove-device', signal)];
      },
    };
  }

  async #before(
    { settings, timeouts }: { settings: SettingsPlan | undefined; timeouts: Timeouts | undefined },
    device: 'add-device' | 'remove-device' | undefined,
    signal: AbortSignal,
  ): Promise<readonly ApplyReport[]> {
    const reports: ApplyReport[] = [];
    if (settings !== undefined && settings.writes.length > 0) reports.push(await this.#settings.apply(settings));
    if (timeouts !== undefined) reports.push(await this.#timeouts.write(timeouts));
    if (device === 'add-device') reports.push(await this.#writeDevice('add-device', signal));
    return reports;
  }

  async stands(): Promise<boolean> {
    if (!(await this.kernel.hasDevice())) return false;
    this.#probed = new Set((await this.kernel.servers()).map(serverKey));
    return true;
  }

  /** Whether the kernel had this server when `stands` was called last. */
  hasServer(key: string): boolean {
    return this.#probed.has(key);
  }

  async beforeRemoval(): Promise<void> {
    this.#lists = await readLists(this.kernel);
  }

  removal(signal: AbortSignal): Part {
    const { key: name } = DEVICE;
    return {
      name,
      remove: async () => {
        if (!(await this.kernel.hasDevice())) return [];
        const [error] = await this.kernel.write([{ kind: 'remove-device' }], signal);
        if (error !== undefined) throw error;
        return [name];
      },
    };
  }

  #pendingDevice(isEmptied: boolean): 'add-device' | 'remove-device' | undefined {
    if (this.#hasDevice !== this.#isPredecessor) return undefined;
    if (!this.#isPredecessor) return 'add-device';
    return isEmptied ? 'remove-device' : undefined;
  }

  async #writeDevice(kind: 'add-device' | 'remove-device', signal: AbortSignal): Promise<ApplyReport> {
    const [error] = await this.kernel.write([{ kind }], signal);
    if (error === undefined || error.failure === (kind === 'add-device' ? 'exists' : 'missing')) {
      this.#hasDevice = kind === 'add-device';
      return { ...NOTHING_TO_DO, applied: 1 };
    }
    this.#hasDevice = undefined;
    return failedReport(DEVICE, `${DEVICE.key}: ${error.message}`);
  }
}

/** The timeouts that are wanted, those of the kernel, and the write between. */
class WantedTimeouts {
  readonly #kernel: IpvsKernel;
  /** undefined: those of the kernel stay. */
  readonly #wanted: Timeouts | undefined;
  /** undefined: unknown, or of no interest. */
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
    const isRight = (['tcp', 'tcpFin', 'udp'] as const).every((key) => wanted[key] === 0 || wanted[key] === now[key]);
    return isRight ? undefined : wanted;
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

const NO_TIMEOUTS = { tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 };

function timeoutsStep({ tcp, tcpFin, udp }: Timeouts): Step {
  return plainStep(TIMEOUTS, 'update', `ipvsadm --set ${tcp} ${tcpFin} ${udp}`);
}

function deviceStep(kind: 'add-device' | 'remove-device'): Step {
  if (kind === 'remove-device') return plainStep(DEVICE, 'remove', SERVICE_DEVICE);
  return plainStep(DEVICE, 'create', `ip link add ${SERVICE_DEVICE} type dummy`);
}

function plainStep(name: StepName, action: Step['action'], line: string): Step {
  return {
    ...name,
    action,
    phase: action === 'remove' ? 'remove sets, chains and addresses' : 'sysctls and devices',
    owner: undefined,
    concerns: () => [],
    lines: () => [`${action === 'remove' ? '-' : '+'} ${line}`],
  };
}
