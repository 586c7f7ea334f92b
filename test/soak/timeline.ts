/** What happens to the agent in a soak, and when: restarts, writes of another program, and changes of the mode. */

export type SoakMode = 'nftables' | 'iptables';

export interface SoakPlan {
  /** Of the part with restarts. */
  readonly seconds: number;
  /** Of the part after it, in which the agent is never restarted: memory that leaks shows there. */
  readonly tail: number;
  readonly restartEvery: number;
  readonly flushEvery: number;
  readonly services: number;
  /** Changes of objects. */
  readonly perSecond: number;
}

export type SoakEvent =
  | { readonly kind: 'restart'; readonly signal: 'SIGTERM' | 'SIGKILL' }
  /** Another program removes rules; `turn` counts from 0. */
  | { readonly kind: 'flush'; readonly turn: number }
  /** The configuration file gets another mode: the agent follows it, or finds it when it starts again. */
  | { readonly kind: 'switch'; readonly by: 'reload' | 'restart' }
  | { readonly kind: 'no more restarts' }
  | { readonly kind: 'end' };

/** Seconds from the beginning of the soak. */
export type TimedEvent = SoakEvent & { readonly at: number };

/** The modes have a quarter of the time each, in turn, and half of the tail. */
export const FIRST_MODE: SoakMode = 'nftables';

export function otherMode(mode: SoakMode): SoakMode {
  return mode === 'nftables' ? 'iptables' : 'nftables';
}

/** In the order of their times. A switch takes the place of a restart at the same time, and no flush comes at a restart. */
export function timeline(plan: SoakPlan): TimedEvent[] {
  const { seconds, tail, restartEvery, flushEvery } = plan;
  const whole = seconds + tail;
  const switches = [0.25, 0.5, 0.75].map((share, i): TimedEvent => {
    const at = share * seconds;
    return { at, kind: 'switch', by: i % 2 === 0 ? 'reload' : 'restart' };
  });
  const isNear = (at: number) => switches.some((one) => Math.abs(one.at - at) < restartEvery / 2);
  const restarts = every(restartEvery, seconds)
    .filter((at) => !isNear(at))
    .map((at, i): TimedEvent => ({ at, kind: 'restart', signal: i % 2 === 0 ? 'SIGTERM' : 'SIGKILL' }));
  const flushes = every(flushEvery, whole)
    .map((at) => at - restartEvery / 2)
    .map((at, turn): TimedEvent => ({ at, kind: 'flush', turn }));
  const end: TimedEvent[] = [
    { at: seconds, kind: 'no more restarts' },
    { at: seconds + tail / 2, kind: 'switch', by: 'reload' },
    { at: whole, kind: 'end' },
  ];
  return [...switches, ...restarts, ...flushes, ...end].sort((a, b) => a.at - b.at);
}

/** `step`, twice `step`, …, below `end`. */
function every(step: number, end: number): number[] {
  return Array.from({ length: Math.max(0, Math.ceil(end / step) - 1) }, (_, i) => (i + 1) * step);
}
