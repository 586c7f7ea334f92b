/** The part of docs/benchmarks.md that has slicewire beside the real kube-proxy and beside the bare tool. */
import { LEAST_WAIT } from './health-watch.ts';
import type { ProxiesResult, ProxyMeasured, ProxyMode, ProxyName } from './proxies.ts';
import { MADE_UP } from './server-process.ts';
import {
  type Aim,
  duration,
  median,
  most,
  ms,
  NOT_RUN,
  percent,
  ratio,
  size,
  spread,
  spreadOf,
  table,
} from './text.ts';

/** `kube-proxy 1.36.2`; without a binary its name alone. */
export function rivalName({ kubeProxy }: { readonly kubeProxy?: string }): string {
  return kubeProxy === undefined ? 'kube-proxy' : `kube-proxy ${kubeProxy.replace(/^v/, '')}`;
}

/** The figures of a proxy in a cluster; undefined: it was not measured there. */
export function measuredOf(
  { measured }: ProxiesResult,
  proxy: ProxyName,
  at: { readonly mode: ProxyMode; readonly services: number; readonly endpoints: number },
): ProxyMeasured | undefined {
  return measured.find(
    ({ shape, mode, proxy: name }) =>
      name === proxy && mode === at.mode && shape.services === at.services && shape.endpoints === at.endpoints,
  );
}

/** A figure of slicewire in one cluster, and what is wanted of it. The smaller is the better. */
interface Goal {
  readonly what: string;
  readonly mode: ProxyMode;
  readonly services: number;
  readonly endpoints: number;
  /** undefined: it must be below kube-proxy's in the same run. */
  readonly aim?: number;
  readonly value: (one: ProxyMeasured) => number | undefined;
  /** A figure of the same run that says what can be had; kube-proxy's own unless it is said. */
  readonly beside?: (one: ProxyMeasured) => string | undefined;
  readonly text: (value: number) => string;
  /** The reason, where the aim is missed: by profile and measurement. */
  readonly inTheWay?: string;
}

const seconds = (value: number) => `${(value / 1000).toFixed(2)} s`;
const megabytes = (value: number) => `${value.toFixed(0)} MB`;
const bytes = (value: number) => `${Math.round(value).toLocaleString('en')} bytes`;
const milliseconds = (value: number) => ms(value, 1);

const at = (services: number, endpoints: number, mode: ProxyMode = 'nftables') => ({ services, endpoints, mode });
const medianOf = (values: readonly number[] | undefined) => (values === undefined ? undefined : median(values));

const cold = { what: 'cold start', value: (one: ProxyMeasured) => median(one.cold), text: seconds };
const processor = {
  ...{ what: 'processor time of a cold start', text: seconds },
  value: (one: ProxyMeasured) => median(one.processor),
};
const floored = {
  what: 'cold start / the bare tool',
  value: ({ cold: own, floor }: ProxyMeasured) => (floor === undefined ? undefined : median(own) / median(floor)),
  beside: ({ floor, mode }: ProxyMeasured) => {
    const tool = mode === 'nftables' ? 'nft -f' : 'iptables-restore';
    return floor === undefined ? undefined : `\`${tool}\` ${seconds(median(floor))}`;
  },
  text: (value: number) => `${value.toFixed(2)} ×`,
};
const change = {
  ...{ what: 'one endpoint changed', text: milliseconds },
  value: ({ change: all }: ProxyMeasured) => medianOf(all),
  beside: ({ changeFloor }: ProxyMeasured) =>
    changeFloor === undefined ? undefined : `the bare tool ${milliseconds(median(changeFloor))}`,
};
const churnAt = (period: string) => (one: ProxyMeasured) => one.churn?.find((flow) => flow.period === period);
const churn = {
  what: 'processor at 100 changes a second',
  value: (one: ProxyMeasured) => churnAt('1s')(one)?.processor,
  text: (value: number) => percent(value),
};
const anonymous = { what: 'anonymous memory', value: (one: ProxyMeasured) => one.anonymous, text: megabytes };
const resident = { what: 'resident memory', value: (one: ProxyMeasured) => one.resident, text: megabytes };
const peak = {
  what: 'memory at the peak of a cold start',
  value: (one: ProxyMeasured) => median(one.peak),
  text: megabytes,
};
const restart = {
  ...{ what: 'restart with nothing to do', text: seconds },
  value: ({ restart: all }: ProxyMeasured) => medianOf(all),
};
const holds = {
  what: 'longest wait for an answer of `/livez`',
  value: ({ watched }: ProxyMeasured) =>
    watched?.holds === undefined ? undefined : most(Object.values(watched.holds)),
  text: (value: number) => ms(value),
};
const lock = {
  ...{ what: "longest wait for the kernel's lock, 100 changes a second", text: milliseconds },
  value: ({ watched }: ProxyMeasured) => watched?.lock?.steady,
  beside: ({ watched }: ProxyMeasured) =>
    watched?.lock === undefined ? undefined : `without a proxy ${milliseconds(watched.lock.idle)}`,
};
const rest = {
  ...{ what: 'processor at rest', text: (value: number) => percent(value, 2) },
  value: ({ idle }: ProxyMeasured) => idle,
};
const received = {
  ...{ what: 'bytes received for a changed slice of 100 endpoints', text: bytes },
  value: (one: ProxyMeasured) => one.received,
};

/** Reasons that several aims share. */
const OWN_LISTS = 'the API server prepares the lists on the same two processors at the same time.';
const LOADING =
  'the loading of Node.js and of the program, and the compiling of what the compiled code of the executable lacks.';
const CODE =
  "a Node.js with one TLS context has 13 MB. The rest is mostly V8's: closures, maps and scope infos of the program's 28,000 functions ([design notes](design-notes.md#an-agent-at-rest)).";
const FIRST_SYNC =
  'by profile beside the made-up server, 23 % of a start of 10,000 × 5 is garbage collection, 19 % planning and writing (half of it the kernel), 18 % rendering, 16 % reading the lists. The bare tool reads no list.';
const STORED = 'the time contains the write of the API server to etcd, before which no client hears of the change.';
const VALIDATION =
  'the kernel walks every reachable rule of the table nat, once for each base chain that leads there, in each commit that adds a rule (nft_table_validate). A translation in iptables is a rule of that table, so every way to write it pays that walk ([iptables mode](iptables.md#what-a-change-costs)).';
const HOLD =
  'an answer takes some rounds of the event loop. While the first sync runs, each has a portion of 10 ms, or a plan of 12 to 25 ms. Here the API server has the processors at the same time.';
const CHURN =
  'by profile of 100 changes a second beside the made-up server: 16 % the history; 12 % planning; 12 % reading the events; 9 % the calls of the kernel; 3 % garbage collection. No function has more than 4 %, except for those calls. V8 compiles beside it.';

export const GOALS: readonly Goal[] = [
  { ...cold, ...at(1, 1), aim: 250, inTheWay: LOADING },
  { ...cold, ...at(1000, 5) },
  { ...cold, ...at(1000, 5, 'iptables') },
  { ...processor, ...at(1000, 5), inTheWay: `half of it, as with one Service: ${LOADING}` },
  { ...processor, ...at(1000, 5, 'iptables') },
  { ...floored, ...at(10_000, 5), aim: 1.8, inTheWay: `${FIRST_SYNC} Here ${OWN_LISTS}` },
  { ...change, ...at(1000, 5), aim: 5, inTheWay: STORED },
  { ...change, ...at(10_000, 5), aim: 5, inTheWay: STORED },
  {
    ...change,
    ...{ ...at(10_000, 5, 'iptables'), aim: 15 },
    inTheWay: VALIDATION,
  },
  { ...churn, ...at(10_000, 5), aim: 0.03, inTheWay: CHURN },
  {
    ...churn,
    ...at(10_000, 5, 'iptables'),
    aim: 0.08,
    inTheWay: `each sync waits for one commit, in which ${VALIDATION}`,
  },
  { ...anonymous, ...at(1, 1), aim: 22, inTheWay: CODE },
  {
    ...resident,
    ...at(1, 1),
    aim: 90,
    inTheWay: `two thirds are pages of the executable, which its processes share. Of the rest: ${CODE}`,
  },
  { ...anonymous, ...at(10_000, 5), aim: 60 },
  {
    ...peak,
    ...at(10_000, 5),
    aim: 150,
    inTheWay:
      '60 MB are pages of the executable. The rest is the heap of V8 while lists are decoded and the first plans made; flags that lower it cost processor time ([design notes](design-notes.md#an-agent-at-rest)).',
  },
  {
    ...restart,
    ...at(10_000, 5),
    aim: 1200,
    inTheWay: `all lists are read before it is known that nothing is to be done: ${OWN_LISTS}`,
  },
  { ...holds, ...at(5000, 50), aim: 50, inTheWay: HOLD },
  {
    ...rest,
    ...at(10_000, 5),
    aim: 0.001,
    inTheWay: 'the clock of /proc has steps of 10 ms, 0.05 % of these 20 s.',
  },
  { ...received, ...at(1, 1), aim: 15_008 },
];

/** Its cost for each Service and endpoint is compared with that of `LARGE`. */
const WIDE = at(5200, 50);
const LARGE = at(10_000, 5);
/** The goals of the clusters with the most Services, which have an API server of another kind. */
const MANY = at(100_000, 1);
const LARGEST_GOALS: readonly Goal[] = [
  { ...floored, ...at(10_000, 5), aim: 1.8, inTheWay: FIRST_SYNC },
  { ...floored, ...at(44_000, 1), aim: 2, inTheWay: FIRST_SYNC },
  { ...change, ...at(44_000, 1), aim: 5 },
  { ...holds, ...at(44_000, 1), aim: 50, inTheWay: HOLD },
  { ...lock, ...at(44_000, 1), aim: 10 },
  { ...change, ...MANY, aim: 5 },
  { ...holds, ...MANY, aim: 50, inTheWay: HOLD },
  { ...lock, ...MANY, aim: 10 },
];

export function proxiesAims(result: ProxiesResult): Aim[] {
  return [...GOALS.map((goal) => aimOf(result, goal)), linear(result, WIDE)];
}

export function largestAims(result: ProxiesResult): Aim[] {
  return [linear(result, MANY), ...LARGEST_GOALS.map((goal) => aimOf(result, goal))];
}

function aimOf(result: ProxiesResult, goal: Goal): Aim {
  const { what, mode, services, endpoints, aim, value, beside = () => undefined, text, inTheWay } = goal;
  const [own, rival] = (['slicewire', 'kube-proxy'] as const).map((proxy) => measuredOf(result, proxy, goal));
  const [found, theirs] = [own && value(own), rival && value(rival)];
  const floor = own && beside(own);
  const besides = [floor, theirs === undefined ? undefined : `${rivalName(result)} ${text(theirs)}`];
  const limit = aim ?? theirs;
  return {
    ...{ what, at: `${size({ services, endpoints })}, ${mode}` },
    aim: aim === undefined ? 'below kube-proxy' : text(aim),
    found: found === undefined ? NOT_RUN : text(found),
    beside: besides.filter((one) => one !== undefined).join(', '),
    isReached:
      found === undefined || limit === undefined ? undefined : aim === undefined ? found < limit : found <= limit,
    ...(inTheWay === undefined ? {} : { inTheWay }),
  };
}

/** The cold start of a large cluster, for each of its objects in the kernel, beside that of 10,000 × 5. */
function linear(result: ProxiesResult, where: ReturnType<typeof at>): Aim {
  const [large, middle] = [where, LARGE].map((one) => measuredOf(result, 'slicewire', one));
  const each = ({ cold: all, shape }: ProxyMeasured) => median(all) / (shape.services * (1 + shape.endpoints));
  const times = large && middle && each(large) / each(middle);
  return {
    ...{ what: 'cold start for each Service and endpoint, beside 10,000 × 5', at: `${size(where)}, ${where.mode}` },
    aim: '1.00 ×',
    found: times === undefined ? NOT_RUN : `${times.toFixed(2)} ×`,
    beside: large === undefined ? '' : `${seconds(median(large.cold))}, ${megabytes(median(large.peak))} at the peak`,
    isReached: times === undefined ? undefined : times <= 1,
  };
}

/** `server`: the API server of this run. */
export function proxiesSection(result: ProxiesResult, server: string): string {
  const { measured, missing, kubeProxy } = result;
  const given = kubeProxy === undefined ? 'No binary of kube-proxy was given.' : `The rival is ${rivalName(result)}.`;
  return `## Beside kube-proxy

${given} The API server: ${server}.
Both proxies run one after the other in the same namespace, beside the same API server, with minSyncPeriod 1 s unless another is named.

- Cold start: from exec until both address families were synced, by slicewire's log and by kube-proxy's metric
  \`kubeproxy_sync_proxy_rules_last_timestamp_seconds\`, which is asked for every 150 ms. "1 × 1" is the one Service \`default/kubernetes\`.
- Floor: the bare tool (\`nft -f\`, \`iptables-restore\`) writes the same state into an empty namespace, from a prepared text: it reads no list.
- Processor: processor time until then, with children (\`nft\`, \`iptables-restore\`).
- Memory is in megabytes: with children at the peak of a cold start; at rest, 5 s after the first sync; of this, the anonymous memory,
  which no file backs.
- Restart: the same over what is in the kernel, where nothing is to be done.

${startsTable(result)}

### One change

One endpoint is replaced: the time from ${eventOf(server)} to the kernel's notification, more than minSyncPeriod after the last change.
slicewire has made two more before, which compile its code.
Floor: the bare tool writes one element (nftables), or one chain of as many endpoints to which nothing refers (iptables), in the same table.

${changesTable(result)}

### Changes without end

100 changes a second, of one endpoint of another Service each: the delay from event to kernel of each Service's last change; the syncs meanwhile;
the processor time until the last change was in the kernel, as a share of the seconds in which changes came; resident memory before and after.
The 99th percentile of this delay is what Kubernetes calls
[network programming latency](https://github.com/kubernetes/community/blob/main/sig-scalability/slos/network_programming_latency.md).

${table(
  ['cluster', 'mode', 'proxy', 'minSyncPeriod', 'processor', 'delay p50', 'p99', 'syncs', 'memory'],
  measured.flatMap((one) =>
    (one.churn ?? []).map(({ period, processor: share, delays, syncs, seconds: lasted, before, after }) => [
      ...caseOf(result, one),
      ...[period, percent(share), duration(delays.p50), duration(delays.p99), `${syncs} in ${lasted} s`],
      `${megabytes(before)}, ${megabytes(after)}`,
    ]),
  ),
)}

At rest, the share of a core while nothing happens, to 0.05 %: ${listed(
    measured,
    ({ idle }) => idle,
    (value) => percent(value, 2),
    (one) => caseOf(result, one),
  )}.
A change of a slice of 100 endpoints brings them, TLS included: ${listed(
    measured,
    (one) => one.received,
    bytes,
    (one) => [nameOf(result, one)],
  )}.

### Waits of other programs

In one more cold start, and under 100 changes a second after it:

${WAITS}

${waitsTable(result)}

${missing.length === 0 ? '' : `Not measured:\n\n${missing.map((one) => `- ${one}`).join('\n')}`}`.trimEnd();
}

export function largestSection(result: ProxiesResult, server: string): string {
  return `## The most Services

The API server: ${server}.
A real one goes through all addresses that are taken for each new Service (\`Allocator.Used\` in pkg/registry/core/service/ipallocator),
which is 37 minutes for 44,000, and hours for 100,000. So a smaller cluster stands beside these, with the same API server.

${startsTable(result)}

${changesTable(result)}

${WAITS}

${waitsTable(result)}`;
}

const WAITS = `- Health: the longest wait for an answer of slicewire's \`/livez\`, asked every 10 ms, until all lists were there, in the first sync, and in the
  3 s after it. It is the longest hold of the event loop, and what else the machine did meanwhile.
- Lock: the longest time that another program waited for the kernel's lock of nftables, which every transaction takes.`;

const nameOf = (result: ProxiesResult, { proxy }: ProxyMeasured) =>
  proxy === 'kube-proxy' ? rivalName(result) : proxy;
const caseOf = (result: ProxiesResult, one: ProxyMeasured) => [size(one.shape), one.mode, nameOf(result, one)];

/** The moment from which a change is measured (`real-server.ts`, `server.ts`). */
const eventOf = (server: string) =>
  server === MADE_UP
    ? "the API server's event"
    : 'the request that changes the EndpointSlice, which etcd has to keep first,';

function startsTable(result: ProxiesResult): string {
  return table(
    [
      ...['cluster', 'mode', 'proxy', 'cold start', 'floor', 'cold / floor', 'processor', 'peak', 'at rest'],
      ...['anonymous', 'restart'],
    ],
    result.measured.map((one) => [
      ...caseOf(result, one),
      spread(one.cold),
      one.floor === undefined ? NOT_RUN : spread(one.floor),
      one.floor === undefined ? NOT_RUN : ratio(median(one.cold), median(one.floor)),
      spread(one.processor),
      spreadOf(one.peak),
      one.resident.toFixed(0),
      one.anonymous.toFixed(0),
      one.restart === undefined ? NOT_RUN : spread(one.restart),
    ]),
  );
}

function changesTable(result: ProxiesResult): string {
  return table(
    ['cluster', 'mode', 'proxy', 'changes', 'median', 'longest', 'floor, median', 'median / floor'],
    result.measured.flatMap((one) => {
      const { change: all, changeFloor: floor } = one;
      if (all === undefined) return [];
      const beside =
        floor === undefined ? [NOT_RUN, NOT_RUN] : [ms(median(floor), 1), ratio(median(all), median(floor))];
      return [[...caseOf(result, one), `${all.length}`, duration(median(all)), duration(most(all)), ...beside]];
    }),
  );
}

function waitsTable(result: ProxiesResult): string {
  return table(
    [
      'cluster',
      'mode',
      'proxy',
      'health: lists',
      'first sync',
      'after it',
      'lock: no proxy',
      'cold start',
      '100 changes a second',
    ],
    result.measured.flatMap((one) => {
      const { watched } = one;
      if (watched === undefined) return [];
      const { holds: health, lock: waits } = watched;
      // Shorter waits are not told (`health-inside.ts`).
      const wait = (value: number | undefined) =>
        value === undefined ? NOT_RUN : value === 0 ? `< ${LEAST_WAIT} ms` : ms(value, 1);
      const held = (value: number | undefined) => (value === undefined ? NOT_RUN : ms(value, 1));
      return [
        [
          ...caseOf(result, one),
          ...[health?.lists, health?.sync, health?.after].map(wait),
          ...[waits?.idle, waits?.cold, waits?.steady].map(held),
        ],
      ];
    }),
  );
}

/** `10,000 × 5 nftables slicewire 0.10 %, …` */
function listed(
  measured: readonly ProxyMeasured[],
  value: (one: ProxyMeasured) => number | undefined,
  text: (value: number) => string,
  name: (one: ProxyMeasured) => readonly string[],
): string {
  const all = measured.flatMap((one) => {
    const found = value(one);
    return found === undefined ? [] : [`${name(one).join(' ')} ${text(found)}`];
  });
  return all.length === 0 ? NOT_RUN : all.join(', ');
}
