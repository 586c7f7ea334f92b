/** What IPVS mode has once for the node, not for each family: the device, the three timeouts, the kernel settings. */
import { SERVICE_DEVICE } from '../../host/devices.ts';
import type { IpvsKernel, Timeouts } from '../../host/ipvs-kernel.ts';
import type { Sysctls } from '../../host/sysctls.ts';
import { causeOf } from '../../model/cause.ts';
import { type ApplyReport, failedReport, type Step } from '../../reconcile/step.ts';
import type { IpvsNodeSettings } from '../ipvs/settings.ts';
import { KernelSettings, type SettingsPlan } from '../kernel-settings.ts';

export interface NodeOptions {
  readonly node: IpvsNodeSettings;
  readonly kernel: IpvsKernel;
  readonly sysctls: Sysctls;
  /** Kernel settings to write, by name. */
  readonly wantedSettings: ReadonlyMap<string, string>;
  /** Nothing is wanted any more: the device goes, all else stays as it is. */
  readonly isPredecessor?: boolean;
}

export interface NodePlan {
  readonly settings: SettingsPlan | undefined;
  readonly timeouts: Timeouts | undefined;
  readonly device: 'add-device' | 'remove-device' | undefined;
  readonly steps: readonly Step[];
}

const DEVICE_STEP = `device ${SERVICE_DEVICE}`;
const TIMEOUTS_STEP = 'timeouts of IPVS';

export class NodeState {
  readonly #kernel: IpvsKernel;
  readonly #settings: KernelSettings;
  readonly #wanted: Timeouts | undefined;
  readonly #isPredecessor: boolean;
  /** undefined: not known. */
  #hasDevice: boolean | undefined;
  #timeouts: Timeouts | undefined;

  constructor({ node, kernel, sysctls, wantedSettings, isPredecessor = false }: NodeOptions) {
    this.#kernel = kernel;
    this.#isPredecessor = isPredecessor;
    this.#wanted = isPredecessor ? undefined : wantedTimeouts(node);
    this.#settings = new KernelSettings({
      sysctls,
      prefix: '',
      wanted: isPredecessor ? new Map() : wantedSettings,
      hint: 'run --init-only with more privileges writes it',
    });
  }

  get isKnown(): boolean {
    return this.#hasDevice !== undefined;
  }

  /** It is known that our device is not there. */
  get isWithoutDevice(): boolean {
    return this.#hasDevice === false;
  }

  /** Settings that were compared for plans. */
  get compared(): number {
    return this.#settings.compared;
  }

  forget(): void {
    this.#hasDevice = undefined;
  }

  /** Throws what the kernel says; then nothing is known. */
  async observe(): Promise<void> {
    this.forget();
    const hasDevice = await this.#kernel.hasDevice();
    this.#timeouts = this.#wanted === undefined ? undefined : await this.#kernel.timeouts();
    await this.#settings.observe();
    this.#hasDevice = hasDevice;
  }

  /** `isEmptied`: nothing will be left that needs the device. */
  plan(isEmptied: boolean): NodePlan {
    const settings = this.#hasDevice === undefined ? undefined : this.#settings.plan();
    const timeouts = this.#pendingTimeouts();
    const device = this.#pendingDevice(isEmptied);
    const steps = [
      ...(settings?.steps ?? []),
      ...(timeouts === undefined ? [] : [timeoutsStep(timeouts)]),
      ...(device === undefined ? [] : [deviceStep(device)]),
    ];
    return { settings, timeouts, device, steps };
  }

  /** What comes before all else. Without the device (`failed`) no address can be written. */
  async applyFirst({ settings, timeouts, device }: NodePlan, signal: AbortSignal): Promise<readonly ApplyReport[]> {
    const reports: ApplyReport[] = [];
    if (settings !== undefined && settings.writes.length > 0) reports.push(await this.#settings.apply(settings));
    if (timeouts !== undefined) reports.push(await this.#writeTimeouts(timeouts));
    if (device === 'add-device') reports.push(await this.#writeDevice('add-device', signal));
    return reports;
  }

  async removeDevice(signal: AbortSignal): Promise<ApplyReport> {
    return await this.#writeDevice('remove-device', signal);
  }

  #pendingDevice(isEmptied: boolean): NodePlan['device'] {
    if (this.#hasDevice !== this.#isPredecessor) return undefined;
    if (!this.#isPredecessor) return 'add-device';
    return isEmptied ? 'remove-device' : undefined;
  }

  #pendingTimeouts(): Timeouts | undefined {
    const wanted = this.#wanted;
    const now = this.#timeouts;
    if (wanted === undefined || now === undefined) return undefined;
    const isRight = (['tcp', 'tcpFin', 'udp'] as const).every((key) => wanted[key] === 0 || wanted[key] === now[key]);
    return isRight ? undefined : wanted;
  }

  async #writeTimeouts(timeouts: Timeouts): Promise<ApplyReport> {
    try {
      await this.#kernel.setTimeouts(timeouts);
      this.#timeouts = await this.#kernel.timeouts();
      return { outcome: 'complete', applied: 1, failed: [], skipped: [] };
    } catch (error) {
      return failedReport(TIMEOUTS_STEP, `${TIMEOUTS_STEP}: ${causeOf(error)}`);
    }
  }

  async #writeDevice(kind: 'add-device' | 'remove-device', signal: AbortSignal): Promise<ApplyReport> {
    const [error] = await this.#kernel.write([{ kind }], signal);
    if (error === undefined || error.failure === (kind === 'add-device' ? 'exists' : 'missing')) {
      this.#hasDevice = kind === 'add-device';
      return { outcome: 'complete', applied: 1, failed: [], skipped: [] };
    }
    this.#hasDevice = undefined;
    return failedReport(DEVICE_STEP, `${DEVICE_STEP}: ${error.message}`);
  }
}

function wantedTimeouts({ tcpTimeout, tcpFinTimeout, udpTimeout }: IpvsNodeSettings): Timeouts | undefined {
  if (tcpTimeout + tcpFinTimeout + udpTimeout === 0) return undefined;
  return { tcp: tcpTimeout, tcpFin: tcpFinTimeout, udp: udpTimeout };
}

function timeoutsStep({ tcp, tcpFin, udp }: Timeouts): Step {
  return plainStep(TIMEOUTS_STEP, 'update', `ipvsadm --set ${tcp} ${tcpFin} ${udp}`);
}

function deviceStep(kind: 'add-device' | 'remove-device'): Step {
  if (kind === 'remove-device') return plainStep(DEVICE_STEP, 'remove', SERVICE_DEVICE);
  return plainStep(DEVICE_STEP, 'create', `ip link add ${SERVICE_DEVICE} type dummy`);
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
