/** The parts of IPVS mode that exist once for the node, not for each family: device, timeouts, kernel settings. */
import type { IpvsKernel, IpvsQuestions, Timeouts } from '../../../kernel/ipvs-kernel.ts';
import type { Sysctls } from '../../../kernel/sysctls.ts';
import type { ApplyReport } from '../../reconcile/step.ts';
import type { CleanupPart } from '../cleanup.ts';
import type { NodeInspection } from '../inspection.ts';
import { KernelSettings, type SettingsPlan } from '../kernel-settings.ts';
import type { NodePart, NodePlan } from '../node-part.ts';
import type { OnResized, OnSetKept } from './apply.ts';
import { type DeviceWrite, deviceStep, ServiceDevice } from './device.ts';
import { type KernelLists, readLists } from './observe.ts';
import type { IpvsNodeSettings } from './settings.ts';
import { IpvsTimeouts, timeoutsStep } from './timeouts.ts';
import { serverKey } from './tracked-objects.ts';

export interface NodeOptions {
  readonly kernel: IpvsKernel;
  /** A predecessor is asked nothing. */
  readonly questions?: IpvsQuestions;
  readonly sysctls: Sysctls;
  /** undefined: the timeouts stay as they are. */
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
  #lists: KernelLists = { servers: [], setNames: new Set() };
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

  /** The lists that the families share. */
  get lists(): KernelLists {
    return this.#lists;
  }

  /** The former state counts until the reading ends: questions that come meanwhile are answered. */
  async observe(): Promise<void> {
    try {
      this.#lists = await readLists(this.kernel);
      const isThere = await this.#device.read();
      await this.#timeouts.observe();
      await this.#settings.observe();
      this.#device.observe(isThere);
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
        return device === 'remove-device' && this.#areEmptied() ? [await this.#device.write(device, signal)] : [];
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

  async stands(): Promise<boolean> {
    if (!(await this.#device.read())) return false;
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

  removal(signal: AbortSignal): CleanupPart {
    return this.#device.removal(signal);
  }
}
