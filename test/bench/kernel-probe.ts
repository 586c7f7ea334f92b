/**
 * When an endpoint is in the kernel, seen from beside the agent (`kernel-probe-inside.ts`). Say what is waited for before
 * it happens:
 *
 *     await probe.expect([{ address }]);
 *     const { at } = await server.put(n, turn);
 *     const took = ((await probe.seen(10_000)).get(address) - at) / 1e6;
 *
 * While rules are waited for, the kernel notifies each rule that is committed, which takes it time of its own: nothing
 * beside the agent's work for a few rules, a part of a cold start.
 */
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { InsideProcess } from './inside.ts';
import type { Awaited, ProbeCommand, ProbeTold } from './kernel-probe-protocol.ts';

const PROGRAM = fileURLToPath(new URL('./kernel-probe-inside.ts', import.meta.url));

export interface ProbeOptions {
  readonly lab: Lab;
  /** `nft`: rules of iptables-nft, elements of nftables. `ipvs`: destinations of virtual servers, which must be named. */
  readonly by: 'nft' | 'ipvs';
  readonly namespace?: string;
}

export class KernelProbe {
  readonly #process: InsideProcess<ProbeCommand, object, ProbeTold>;
  readonly #seen = new Map<string, number>();
  #expected: readonly Awaited[] = [];
  #isLost = false;
  #onTold: () => void = () => undefined;

  static async start({ lab, by, namespace = 'node' }: ProbeOptions): Promise<KernelProbe> {
    const probe = new KernelProbe({ lab, by, namespace });
    await probe.expect([]);
    return probe;
  }

  private constructor({ lab, by, namespace }: Required<ProbeOptions>) {
    const onTold = (told: ProbeTold) => this.#told(told);
    this.#process = new InsideProcess({ lab, namespace, program: PROGRAM, args: [by], onTold });
  }

  /** Wait for these from now on, and for nothing that was waited for before. Resolves when the kernel is listened to. */
  async expect(awaited: readonly Awaited[]): Promise<void> {
    this.#seen.clear();
    this.#isLost = false;
    this.#expected = awaited;
    await this.#process.ask({ awaited });
  }

  /** The kernel had more to tell than there was room for: what is measured must be measured again. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Nanoseconds of the monotonic clock by address: what was seen so far of what is expected. */
  get sofar(): ReadonlyMap<string, number> {
    return this.#seen;
  }

  /** The same once all was seen. Throws when that is not so within the milliseconds, or when something was lost. */
  async seen(within: number): Promise<ReadonlyMap<string, number>> {
    const late = AbortSignal.timeout(within);
    while (this.#seen.size < this.#expected.length && !this.#isLost && !late.aborted) await this.#nextTold(late);
    if (this.#isLost) throw new Error('notifications of the kernel were lost');
    const missing = this.#expected.filter(({ address }) => !this.#seen.has(address));
    if (missing.length === 0) return new Map(this.#seen);
    const first = missing.slice(0, 3).map(({ address }) => address);
    throw new Error(`${missing.length} of ${this.#expected.length} are not in the kernel: ${first.join(' ')}`);
  }

  async stop(): Promise<void> {
    await this.#process.stop();
  }

  #nextTold(late: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        late.removeEventListener('abort', done);
        resolve();
      };
      late.addEventListener('abort', done);
      this.#onTold = done;
    });
  }

  #told(told: ProbeTold): void {
    if ('lost' in told) this.#isLost = true;
    else this.#seen.set(told.address, told.at);
    this.#onTold();
  }
}
