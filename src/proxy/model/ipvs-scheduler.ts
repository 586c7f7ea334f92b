/** Schedulers of IPVS: how a virtual server chooses among its destinations (ipvsadm(8), linux/ip_vs.h). Pure. */

/**
 * The schedulers of the kernel, each with the endpoint of a new connection as the end of a sentence. Every endpoint of a Service has weight 1,
 * and a virtual server has one address (net/netfilter/ipvs/ip_vs_*.c).
 */
const CHOICES: Readonly<Record<string, string>> = {
  rr: 'gives connections to the endpoints in turn',
  wrr: 'gives connections to the endpoints in turn, as rr does, because all have the same weight',
  lc: 'takes the endpoint with the fewest connections',
  wlc: 'takes the endpoint with the fewest connections, as lc does, because all have the same weight',
  lblc: 'stays with one endpoint as long as that is not overloaded, because the Service has one address',
  lblcr: 'stays with a set of endpoints, which grows while those are overloaded, because the Service has one address',
  dh: 'takes the same endpoint for all connections, because it goes by the address of the Service',
  sh: 'takes the endpoint by the address of the client, and another one for many clients when the endpoints change',
  sed: 'takes the endpoint with the fewest connections, the new one included',
  nq: 'takes an endpoint without a connection, and where there is none the one with the fewest',
  fo: 'takes the same endpoint for all connections, because none has a higher weight',
  ovf: 'fills one endpoint after another, each with as many open connections as its weight, which is one',
  mh: 'takes the endpoint by the address and the port of the client, and another one for few of them when the endpoints change',
  twos: 'draws two endpoints, and takes the one with fewer connections',
};

export const SCHEDULERS: readonly string[] = Object.keys(CHOICES);

/** Schedulers whose endpoints get equal shares, whoever asks. */
const EVEN: ReadonlySet<string> = new Set(['rr', 'wrr']);

/** How it departs from equal shares, as a sentence; undefined where it does not, and for one of a module of its own. */
export function schedulerSentence(name: string): string | undefined {
  const choice = CHOICES[name];
  return choice === undefined || EVEN.has(name) ? undefined : `The scheduler ${name} ${choice}.`;
}

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
  return SCHEDULERS.includes(name)
    ? schedulerProblem(text)
    : `must begin with a scheduler of IPVS: ${SCHEDULERS.join(', ')}`;
}
