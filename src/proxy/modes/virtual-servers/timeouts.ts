/** The connection timeouts of IPVS: desired, current, and the write between them. */

import { causeOf } from '../../../base/cause.ts';
import { sameData } from '../../../base/equal.ts';
import type { IpvsKernel, IpvsReader, Timeouts } from '../../../kernel/ipvs-kernel.ts';
import type { Unlike } from '../../reconcile/compare.ts';
import { type ApplyReport, failedReport, NOTHING_TO_DO, type Step, type StepName } from '../../reconcile/step.ts';
import type { IpvsNodeSettings } from './settings.ts';

const TIMEOUTS: StepName = { key: 'timeouts of IPVS', family: undefined, kind: 'setting' };
const NO_TIMEOUTS = { tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 };

export class IpvsTimeouts {
  readonly #kernel: IpvsKernel;
  /** undefined: the kernel's timeouts stay. */
  readonly #wanted: Timeouts | undefined;
  /** undefined: unknown, or not needed. */
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

/** A wanted timeout of 0 stays as it is. */
function isRight(wanted: Timeouts, now: Timeouts): boolean {
  return (['tcp', 'tcpFin', 'udp'] as const).every((key) => wanted[key] === 0 || wanted[key] === now[key]);
}

export function timeoutsStep({ tcp, tcpFin, udp }: Timeouts): Step {
  return {
    ...TIMEOUTS,
    action: 'update',
    phase: 'sysctls and devices',
    owner: undefined,
    concerns: () => [],
    lines: () => [`+ ipvsadm --set ${tcp} ${tcpFin} ${udp}`],
  };
}
