/** Judges the probes of a soak: lost, wrong, or asked while another program's write was not repaired yet. */
import type { Probed } from './probe-protocol.ts';
import type { Moved } from './server-protocol.ts';

/**
 * Milliseconds that an endpoint may still answer after it left its Service: a pod that ends works on for 30 s by default
 * (terminationGracePeriodSeconds). The time in which no agent worked does not count.
 */
export const GRACE = 30_000;

/**
 * Milliseconds after a repair: a flow that a client with one port opened meanwhile went around the rules, and is deleted by the sweep
 * after the sync that repaired them.
 */
export const SWEEP = 5000;

/** Milliseconds after a repair: an alarm of the data path is told after two failed rounds, 2 s apart, which end before 700 ms are over. */
const ALARM = 5000;

/** Such as from before a write of another program until the agent repaired it. Milliseconds of the monotonic clock. */
export interface DamageWindow {
  readonly from: number;
  /** Undefined: not repaired yet. */
  readonly to: number | undefined;
}

export interface Verdict {
  readonly lost: readonly Probed[];
  readonly wrong: readonly Probed[];
  /**
   * Questions that were on their way when the endpoint of their flow left the Service: the agent deletes the flow, as kube-proxy
   * does, so that the next question goes to another endpoint, and the answer to this one no longer finds its way.
   */
  readonly cut: readonly Probed[];
  readonly whileDamaged: readonly Probed[];
}

export class Judge {
  readonly #failures: Probed[] = [];
  /** Of each client that keeps its port, when it was answered by whom, as long as it was the same endpoint. */
  readonly #runs = new Map<number, { first: number; last: number; by: string }[]>();
  readonly #windows: DamageWindow[] = [];
  /** When no agent worked: from the end of one to the first sync of the next. */
  readonly #pauses: DamageWindow[] = [];
  /** The newest last; as many as may still matter. */
  #moves: Moved[] = [];

  moved(moved: Moved): void {
    const settled = moved.at - 10 * GRACE;
    this.#moves = [...this.#moves.filter(({ at }, i, all) => at > settled || i === all.length - 1), moved];
  }

  probed(probed: Probed): void {
    if (probed.outcome !== 'moving') this.#failures.push(probed);
    else {
      this.#answered(probed);
      if (!this.#mayAnswer(probed)) this.#failures.push({ ...probed, outcome: 'wrong' });
    }
  }

  #answered({ target: { fromPort }, asked, by }: Probed): void {
    if (fromPort === undefined) return;
    const runs = this.#runs.get(fromPort) ?? [];
    this.#runs.set(fromPort, runs);
    const run = runs.at(-1);
    if (run?.by === by) run.last = Math.max(run.last, asked);
    else runs.push({ first: asked, last: asked, by });
  }

  /** The only lost question between the last answer of one endpoint and the first of another. */
  #isCut({ target: { fromPort }, outcome, asked }: Probed): boolean {
    if (outcome !== 'lost' || fromPort === undefined) return false;
    const runs = this.#runs.get(fromPort) ?? [];
    const next = runs.findIndex(({ first }) => first > asked);
    const [before, after] = [runs[next - 1], runs[next]];
    if (before === undefined || after === undefined || before.last > asked) return false;
    const isBetween = (one: Probed) =>
      one.target.fromPort === fromPort && one.asked > before.last && one.asked < after.first;
    return this.#failures.filter(isBetween).length === 1;
  }

  /** Rules are damaged from now on; call what is returned when they are repaired. */
  damaged(from: number): (to: number) => void {
    return opened(this.#windows, from);
  }

  /** No agent works from now on; call what is returned when the next one has written all. */
  paused(from: number): (to: number) => void {
    return opened(this.#pauses, from);
  }

  /** Of alarms at these moments those without a cause: no rules were damaged then, nor shortly before. */
  falseAlarms(alarms: readonly number[]): number {
    return alarms.filter((at) => !this.#isDamaged(at, ALARM)).length;
  }

  #isDamaged(at: number, more = 0): boolean {
    return this.#windows.some(({ from, to }) => at >= from && at <= (to ?? Number.POSITIVE_INFINITY) + more);
  }

  /** A question counts as asked of damaged rules when it was asked then; what is asked afterwards must be answered. */
  get verdict(): Verdict {
    const isDamaged = ({ asked, target }: Probed) => this.#isDamaged(asked, target.fromPort === undefined ? 0 : SWEEP);
    const cut = this.#failures.filter((one) => this.#isCut(one));
    const others = this.#failures.filter((one) => !this.#isCut(one) && !isDamaged(one));
    return {
      cut,
      lost: others.filter(({ outcome }) => outcome === 'lost'),
      wrong: others.filter(({ outcome }) => outcome === 'wrong'),
      whileDamaged: this.#failures.filter((one) => isDamaged(one) && !this.#isCut(one)),
    };
  }

  /** Whether this was an endpoint at some time from the grace period before the question until the answer. */
  #mayAnswer({ by, asked, over }: Probed): boolean {
    return this.#moves.some(({ at, endpoints }, i) => {
      const until = this.#moves[i + 1]?.at ?? Number.POSITIVE_INFINITY;
      return endpoints.includes(by) && at <= over && until + GRACE + this.#pausedBetween(until, asked) >= asked;
    });
  }

  #pausedBetween(start: number, end: number): number {
    return this.#pauses.reduce((sum, { from, to = end }) => {
      return sum + Math.max(0, Math.min(to, end) - Math.max(from, start));
    }, 0);
  }
}

function opened(windows: DamageWindow[], from: number): (to: number) => void {
  const at = windows.push({ from, to: undefined }) - 1;
  return (to) => {
    windows[at] = { from, to };
  };
}
