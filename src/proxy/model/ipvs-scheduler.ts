/** Schedulers of IPVS: how a virtual server chooses among its destinations (ipvsadm(8), linux/ip_vs.h). Pure. */

/** The schedulers of the kernel. */
export const SCHEDULERS = [
  ...['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'dh', 'sh', 'sed', 'nq', 'fo', 'ovf', 'mh', 'twos'],
] as const;

/** A name goes to the kernel unchanged: at most 15 letters and digits (IP_VS_SCHEDNAME_MAXLEN). */
const NAME = /^[a-z0-9]{1,15}$/;

/** Flags of a scheduler, by ipvsadm's names, with the bits of a server (IP_VS_SVC_F_SCHED1, IP_VS_SVC_F_SCHED2). */
const FLAGS: Readonly<Record<string, number>> = {
  'sh-fallback': 0x8,
  'sh-port': 0x10,
  'mh-fallback': 0x8,
  'mh-port': 0x10,
};

/** kube-proxy's own choice: mh hashes the port as well as the address (pkg/proxy/ipvs/proxier.go). */
const DEFAULT_FLAGS: Readonly<Record<string, readonly string[]>> = { mh: ['mh-port'] };

/** A scheduler as people write it: its name, then flags, such as `sh` or `mh,mh-port,mh-fallback`. Without flags it has kube-proxy's. */
export type SchedulerText = string;

interface Scheduler {
  readonly name: string;
  /** Bits of the flags of a virtual server. */
  readonly flags: number;
}

/** The parts of a text for which `schedulerProblem` is undefined. */
export function schedulerOf(text: SchedulerText): Scheduler {
  const [name = '', ...flags] = text.split(',');
  const chosen = flags.length > 0 ? flags : (DEFAULT_FLAGS[name] ?? []);
  return { name, flags: chosen.reduce((bits, flag) => bits | (FLAGS[flag] ?? 0), 0) };
}

/** The problem of a text as the end of a sentence; undefined for none. */
export function schedulerProblem(text: string): string | undefined {
  const [name = '', ...flags] = text.split(',');
  if (!NAME.test(name)) return 'must begin with the name of a scheduler, such as rr or lc';
  const own = Object.keys(FLAGS).filter((flag) => flag.startsWith(`${name}-`));
  const wrong = flags.find((flag) => !own.includes(flag));
  if (wrong === undefined) return undefined;
  return own.length === 0
    ? `has a flag, and ${name} takes none`
    : `has the flag "${wrong}"; ${name} takes ${own.join(' and ')}`;
}

/** The same for a Service, which may name a scheduler of the kernel alone. */
export function serviceSchedulerProblem(text: string): string | undefined {
  const [name = ''] = text.split(',');
  const isKnown = (SCHEDULERS as readonly string[]).includes(name);
  return isKnown ? schedulerProblem(text) : `must begin with a scheduler of IPVS: ${SCHEDULERS.join(', ')}`;
}
