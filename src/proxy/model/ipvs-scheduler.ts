/** Schedulers of IPVS: how a virtual server chooses among its destinations (ipvsadm(8), linux/ip_vs.h). Pure. */

/** A name goes to the kernel unchanged: at most 15 letters and digits (IP_VS_SCHEDNAME_MAXLEN). */
const NAME = /^[a-z0-9]{1,15}$/;

/** Flags of a scheduler, by ipvsadm's names, with the bits of a server (IP_VS_SVC_F_SCHED1, IP_VS_SVC_F_SCHED2). */
const FALLBACK = 0x8;
const PORT = 0x10;
const FLAGS: ReadonlyMap<string, number> = new Map([
  ['sh-fallback', FALLBACK],
  ['sh-port', PORT],
  ['mh-fallback', FALLBACK],
  ['mh-port', PORT],
]);

/** kube-proxy's own choice: mh hashes the port as well as the address (pkg/proxy/ipvs/proxier.go). */
const DEFAULT_FLAGS: ReadonlyMap<string, readonly string[]> = new Map([['mh', ['mh-port']]]);

/**
 * The schedulers of the kernel, each with the endpoint of a new connection as the end of a sentence. A virtual server has one address (net/netfilter/ipvs/ip_vs_*.c).
 */
const CHOICES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    rr: 'gives connections to the endpoints in turn',
    wrr: 'gives connections to the endpoints in turn, by their weights',
    lc: 'takes the endpoint with the fewest connections',
    wlc: 'takes the endpoint with the fewest connections for its weight',
    lblc: 'stays with one endpoint as long as that is not overloaded, because the Service has one address',
    lblcr: 'stays with a set of endpoints, which grows while those are overloaded, because the Service has one address',
    dh: 'takes the same endpoint for all connections, because it goes by the address of the Service',
    sh: 'takes the endpoint by the client, and another one for many clients when the endpoints change',
    sed: 'takes the endpoint with the fewest connections, the new one included',
    nq: 'takes an endpoint without a connection, and where there is none the one with the fewest',
    fo: 'takes the same endpoint for all connections, because none has a higher weight',
    ovf: 'fills one endpoint after another, each with two open connections, and refuses further ones when all have two',
    mh: 'takes the endpoint by the client, and another one for few clients when the endpoints change',
    twos: 'draws two endpoints, and takes the one with fewer connections',
  }),
);

export const SCHEDULERS: readonly string[] = [...CHOICES.keys()];

/** Schedulers whose endpoints get equal shares, whoever asks. */
const EVEN: ReadonlySet<string> = new Set(['rr', 'wrr']);

/** Schedulers that hash the client. */
const HASHING: ReadonlySet<string> = new Set(['sh', 'mh']);

/** How it departs from equal shares, as a sentence; undefined where it does not, and for one of a module of its own. */
export function schedulerSentence({ name, flags }: Scheduler): string | undefined {
  const choice = CHOICES.get(name);
  if (choice === undefined || EVEN.has(name)) return undefined;
  const by = HASHING.has(name)
    ? `; it goes by ${(flags & PORT) === 0 ? 'the address' : 'address and port'} of the client`
    : '';
  return `The scheduler ${name} ${choice}${by}.`;
}

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
  const chosen = flags.length > 0 ? flags : (DEFAULT_FLAGS.get(name) ?? []);
  return { name, flags: chosen.reduce((bits, flag) => bits | (FLAGS.get(flag) ?? 0), 0) };
}

/** Schedulers that take all weights as equal, and those that do the same with weights. */
const WEIGHTED: ReadonlyMap<string, string> = new Map([
  ['rr', 'wrr'],
  ['lc', 'wlc'],
]);

/** The scheduler of a server: where its endpoints have weights, the one that counts them. */
export function schedulerFor(text: SchedulerText, hasWeights: boolean): Scheduler {
  const { name, flags } = schedulerOf(text);
  return { name: hasWeights ? (WEIGHTED.get(name) ?? name) : name, flags };
}

/** The scheduler of a stable choice by the client's address, or also by its port (docs/traffic.md): Maglev, as nftables mode has it. */
export function hashingScheduler(countsPort: boolean): Scheduler {
  return { name: 'mh', flags: countsPort ? PORT : 0 };
}

/** The problem of a text as the end of a sentence; undefined for none. */
export function schedulerProblem(text: string): string | undefined {
  const [name = '', ...flags] = text.split(',');
  if (!NAME.test(name)) return 'must begin with the name of a scheduler, such as rr or lc';
  const own = [...FLAGS.keys()].filter((flag) => flag.startsWith(`${name}-`));
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
