/** The dummy device that makes Service addresses local to the node: its state, and the writes that create and remove it. */
import { SERVICE_DEVICE } from '../../../kernel/devices.ts';
import type { IpvsKernel, IpvsReader } from '../../../kernel/ipvs-kernel.ts';
import type { Unlike } from '../../reconcile/compare.ts';
import { type ApplyReport, failedReport, NOTHING_TO_DO, type Step, type StepName } from '../../reconcile/step.ts';
import type { CleanupPart } from '../cleanup.ts';

export type DeviceWrite = 'add-device' | 'remove-device';

const DEVICE: StepName = { key: `device ${SERVICE_DEVICE}`, family: undefined, kind: 'device' };

export class ServiceDevice {
  readonly #kernel: IpvsKernel;
  readonly #isWanted: boolean;
  /** undefined: unknown. */
  #isThere: boolean | undefined;

  constructor(kernel: IpvsKernel, isWanted: boolean) {
    this.#kernel = kernel;
    this.#isWanted = isWanted;
  }

  get isKnown(): boolean {
    return this.#isThere !== undefined;
  }

  /** The device is not wanted, and may still exist. */
  get isWaiting(): boolean {
    return !this.#isWanted && this.#isThere !== false;
  }

  /** Throws when the kernel does not answer. */
  async read(): Promise<boolean> {
    return await this.#kernel.hasDevice();
  }

  /** The device now against the desired state. Throws when the kernel does not answer. */
  async compare(kernel: IpvsReader): Promise<Iterable<Unlike | undefined>> {
    const isThere = await kernel.hasDevice();
    if (isThere === this.#isWanted) return [undefined];
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
    return [{ ...of, kind: this.#isWanted ? 'missing' : 'foreign', isPending: isThere === this.#isThere }];
  }

  observe(isThere: boolean | undefined): void {
    this.#isThere = isThere;
  }

  /** `isEmptied`: nothing needs the device any more. */
  pending(isEmptied: boolean): DeviceWrite | undefined {
    if (this.#isThere === undefined || this.#isThere === this.#isWanted) return undefined;
    if (this.#isWanted) return 'add-device';
    return isEmptied ? 'remove-device' : undefined;
  }

  async write(kind: DeviceWrite, signal: AbortSignal): Promise<ApplyReport> {
    const [error] = await this.#kernel.write([{ kind }], signal);
    if (error === undefined || error.failure === (kind === 'add-device' ? 'exists' : 'missing')) {
      this.#isThere = kind === 'add-device';
      return { ...NOTHING_TO_DO, applied: 1 };
    }
    this.#isThere = undefined;
    return failedReport(DEVICE, `${DEVICE.key}: ${error.message}`);
  }

  removal(signal: AbortSignal): CleanupPart {
    const { key: name } = DEVICE;
    return {
      name,
      remove: async () => {
        if (!(await this.#kernel.hasDevice())) return [];
        const [error] = await this.#kernel.write([{ kind: 'remove-device' }], signal);
        if (error !== undefined) throw error;
        return [name];
      },
    };
  }
}

export function deviceStep(kind: DeviceWrite): Step {
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
