/** docs/benchmarks.md, from the results. */
import type { ChangeResult } from './change.ts';
import type { ChurnResult } from './churn.ts';
import type { ColdResult } from './cold.ts';
import { type ConnectionsResult, connectionCells, lastBesideSingle } from './connections.ts';
import { type DriftResult, driftAims, driftSection } from './drift.ts';
import { type ExplainResult, explainAims, explainSection } from './explain.ts';
import type { FlowsMeasured } from './flows-inside.ts';
import type { LargeResult } from './large.ts';
import { type LiveResult, liveAims, liveSection } from './live.ts';
import type { ModesResult } from './modes.ts';
import type { NftablesResult } from './nftables.ts';
import { modesSection, nftablesAims, nftablesSection } from './nftables-page.ts';
import type { ProducersResult } from './producers.ts';
import { type RecorderResult, recorderAims, recorderSection } from './recorder.ts';
import type { RivalsResult } from './rivals.ts';
import { rivalsSection, trafficSection } from './rivals-page.ts';
import type { RolloutResult } from './rollout.ts';
import { MADE_UP } from './server-process.ts';
import type { ShapesResult } from './shapes.ts';
import { type Aim, median, most, ms, percent, quantile, ratio, size, spread, spreadOf, table } from './text.ts';
import { todayBesideThen } from './then.ts';
import type { TrafficResult } from './traffic.ts';

export interface Results {
  readonly machine: string;
  readonly cold: readonly ColdResult[];
  readonly change: readonly ChangeResult[];
  readonly churn: ChurnResult;
  readonly large: LargeResult;
  readonly rollout: RolloutResult;
  readonly connections: readonly ConnectionsResult[];
  readonly shapes: ShapesResult;
  readonly flows: readonly FlowsMeasured[];
  readonly producers: readonly ProducersResult[];
  readonly explain: readonly ExplainResult[];
  readonly recorder: readonly RecorderResult[];
  readonly live: readonly LiveResult[];
  readonly drift: readonly DriftResult[];
  readonly nftables: NftablesResult;
  readonly modes: ModesResult;
  readonly rivals: RivalsResult;
  readonly traffic: TrafficResult;
  /** Which API server each part had beside it: `made up`, or the versions of a real one. */
  readonly servers?: Readonly<Record<string, string>>;
}

export function page(results: Results): string {
  const nftables = (all: Results) => nftablesSection(all.nftables);
  const explain = (all: Results) => explainSection(all.explain);
  const recorder = (all: Results) => recorderSection(all.recorder);
  const live = (all: Results) => liveSection(all.live);
  const drift = (all: Results) => driftSection(all.drift);
  const modes = (all: Results) => modesSection(all.modes);
  const then = (all: Results) => todayBesideThen(all.rivals);
  const rivals = (all: Results) => rivalsSection(all.rivals);
  const traffic = (all: Results) => trafficSection(all.traffic);
  const sections = [
    head,
    aims,
    then,
    rivals,
    traffic,
    modes,
    nftables,
    cold,
    memory,
    change,
    shapes,
    churn,
    large,
    rollout,
    connections,
    flows,
    producers,
    explain,
    recorder,
    live,
    drift,
  ];
  return `${sections.map((section) => section(results)).join('\n\n')}\n`;
}

const isPlain = ({ backend, shape }: ColdResult) => backend === 'nft' && shape.nodePorts === undefined;

function head({ machine, servers = {} }: Results): string {
  const real = Object.entries(servers).filter(([, server]) => server !== MADE_UP);
  const others = real.map(([part, server]) => `Part \`${part}\` was measured with ${server} instead.\n`).join('');
  return `# Benchmarks

\`npm run bench\` writes this page, its chart and [its figures](benchmarks.json); do not edit it.
Machine: ${machine}.
Machines are noisy: read the ratios.
Every figure has its floor or its rival beside it, measured in the same run; several runs are given as the median, with the least and the most.
IPVS mode has [its own page](benchmarks-ipvs.md).

The agent is the executable of \`npm run build\`, a process in a network namespace.
The cluster is a made-up API server in another process: TLS, lists in pages, watches with bookmarks, objects as long as real ones.
${others}"N × E" is N Services of E endpoints, pods of 100 nodes.

![slicewire beside kube-proxy, beside its layout and beside the bare tool](benchmarks.svg)`;
}

function aims(results: Results): string {
  const rows = [
    ...coldAims(results),
    ...otherAims(results),
    ...nftablesAims(results.nftables),
    ...explainAims(results.explain),
    ...recorderAims(results.recorder),
    ...liveAims(results.live),
    ...driftAims(results.drift),
  ];
  return `## Aims

${table(
  ['measure', 'at', 'aim', 'found', ''],
  rows.map(({ what, at, aim, found, isReached }) => [what, at, aim, found, isReached ? 'reached' : '**missed**']),
)}`;
}

function coldAims({ cold: all }: Results): Aim[] {
  const plain = all.filter(isPlain);
  const at = (services: number) => plain.find(({ shape }) => shape.services === services);
  const [middle, wide] = [at(10_000), at(44_000)];
  if (middle === undefined || wide === undefined) return [];
  const large = plain.filter(({ shape }) => shape.services !== 1000 && shape !== middle.shape);
  const perRule = (result: ColdResult) => median(result.cold) / result.rules;
  const growth = Math.max(...large.map((result) => perRule(result) / perRule(middle)));
  const hold = Math.max(...large.map(({ health }) => most(health)));
  const [own, floor] = [median(middle.cold), median(middle.floor)];
  const aim = (what: string, where: string, wanted: string, found: string, isReached: boolean): Aim => ({
    ...{ what, at: where, aim: wanted, found, isReached },
  });
  const memoryAim = (result: ColdResult) =>
    aim(
      'memory at rest / peak with children',
      size(result.shape),
      '150 MB / 300 MB',
      `${result.resident.toFixed(0)} MB, ${result.anonymous.toFixed(0)} of them not of the program's file / ${median(result.peak).toFixed(0)} MB`,
      result.resident < 150 && median(result.peak) < 300,
    );
  return [
    aim(
      'cold start',
      size(middle.shape),
      '1.6 × floor + 2 s',
      `${ratio(own - 2000, floor)} × floor + 2 s`,
      own <= 1.6 * floor + 2000,
    ),
    aim(
      'DNS and API server after the lists',
      size(middle.shape),
      '1 s',
      ms(most(middle.first)),
      most(middle.first) <= 1000,
    ),
    aim(
      'cold start, time a rule beside 10,000 × 5',
      large.map(({ shape }) => size(shape)).join(', '),
      'at most 1',
      growth.toFixed(2),
      growth <= 1,
    ),
    aim('longest wait for health meanwhile', 'the same', '250 ms', ms(hold), hold <= 250),
    memoryAim(middle),
    memoryAim(wide),
    aim(
      'at rest',
      size(middle.shape),
      '1 % of a core, no process',
      `${percent(middle.idle ?? Number.NaN)}, ${middle.started ?? 'unknown'} processes`,
      (middle.idle ?? 1) < 0.01 && middle.started === 0,
    ),
    aim(
      'restart, nothing to do',
      size(middle.shape),
      '3 s, nothing written',
      `${spread(middle.restart)}, "${middle.restartSaid}"`,
      median(middle.restart) < 3000 && middle.restartSaid.includes('nothing to do'),
    ),
  ];
}

function otherAims({
  change: changes,
  churn: c,
  large: l,
  rollout: r,
  connections: all,
  producers: p,
}: Results): Aim[] {
  const small = changes[0];
  const delays = changes.map((result) => {
    const [p50, p99] = [median(result.change), quantile(result.change, 0.99)];
    const growth = p50 / median(small?.change ?? []);
    return {
      what: 'one endpoint changed',
      at: size(result.shape),
      aim: '20 ms, p99 60 ms, 1.5 × that at 1,000',
      found: `${ms(p50)}, p99 ${ms(p99)}, ${growth.toFixed(2)} ×; the bare tool ${ms(median(result.floor))}`,
      isReached: p50 <= 20 && p99 <= 60 && growth <= 1.5,
    };
  });
  const failed = Object.values(r.failures).reduce((sum, count) => sum + count, 0);
  const slower = all.map((result) => ({ services: result.services, times: lastBesideSingle(result) }));
  return [
    ...delays,
    {
      what: `${c.perSecond} changes a second for ${c.seconds} s`,
      at: size(c.shape),
      aim: 'p99 1.5 s, 25 % of a core, memory flat',
      found: `p99 ${ms(c.delays.p99)}, ${percent(c.processor)}, ${c.before.toFixed(0)} to ${c.after.toFixed(0)} MB`,
      isReached: c.delays.p99 <= 1500 && c.processor < 0.25 && c.after < 1.1 * c.before,
    },
    {
      what: 'a flap, balance right',
      at: `1 × ${l.endpoints.toLocaleString('en')}`,
      aim: '100 ms',
      found: `${ms(median(l.flaps))}, at most ${ms(most(l.flaps))}; ${l.reached} endpoints reached, ${l.failed} connections failed`,
      isReached: median(l.flaps) < 100 && l.failed === 0 && l.reached === l.endpoints,
    },
    {
      what: `rollout in ${r.seconds} s`,
      at: `${r.rolled.toLocaleString('en')} Services`,
      aim: 'nothing lost, nothing refused',
      found: `${r.connections} connections, ${failed} failed; ${r.wrong} endpoints missing at the end`,
      isReached: failed === 0 && r.wrong === 0,
    },
    {
      what: 'new connection, last Service beside the only one',
      at: slower.map(({ services }) => services.toLocaleString('en')).join(' / '),
      aim: '1.15',
      found: slower.map(({ times }) => times.toFixed(2)).join(' / '),
      isReached: slower.every(({ times }) => times <= 1.15),
    },
    ...podAims(p),
  ];
}

/** Slices from Pods: what one changed Pod costs, beside the same in the smallest cluster. */
function podAims([small, ...larger]: Results['producers']): Aim[] {
  return larger.map((result) => {
    const times = result.processor / (small?.processor ?? Number.NaN);
    return {
      what: 'rolling update, cost of a changed Pod',
      at: size({ services: result.services, endpoints: result.pods }),
      aim: 'as at 1,000 (1.5 ×)',
      found: `${ms(result.processor, 2)}, ${times.toFixed(2)} ×`,
      isReached: times <= 1.5,
    };
  });
}

function cold({ cold: all }: Results): string {
  return `## Cold start

The time from exec to the end of the first sync, into empty tables, the API server's lists included.

- Floor: one \`iptables-restore\` of the same rules into the empty tables of another namespace.
- kube-proxy's layout: one \`iptables-restore\` of the same Services with a chain an endpoint and one long KUBE-SERVICES (minutes at 10,000 with nft).
- First: from the end of the lists until DNS and the API server's own Service are in the kernel, before all others.
- Health: the longest wait for an answer of \`/livez\`, asked every 10 ms from exec; a step that holds the event loop delays the answer.

${table(
  [
    'cluster',
    'backend',
    'chains',
    'rules',
    'cold start',
    'floor',
    '(cold − 2 s) / floor',
    "kube-proxy's layout",
    'first',
    'health',
    'restart',
  ],
  all.map((m) => [
    `${size(m.shape)}${m.shape.nodePorts === undefined ? '' : ', mixed'}`,
    m.backend,
    `${m.chains}`,
    `${m.rules}`,
    spread(m.cold),
    spread(m.floor),
    ratio(median(m.cold) - 2000, median(m.floor)),
    m.rival.length > 0 ? spread(m.rival) : 'not run',
    ms(most(m.first)),
    ms(most(m.health)),
    spread(m.restart),
  ]),
)}

slicewire is faster than its floor where there are many rules: it writes new chains in portions (see the shapes below),
and nothing refers to a chain before it is complete.
"Mixed" has a node port for every tenth Service, affinity and policy Local for every twentieth, and every twentieth endpoint not ready.
A restart is the time from exec to the end of the first sync when the kernel is already right; the agent reads the rules and the lists at the same time.
A restart above the aim of 3 s reads and decodes the lists, renders all rules once, and compares them.

The time of a rule grows where chains have few rules: a chain costs the tool more than a rule does, and 44,000 × 1 has a chain for three rules.
Agent, tool, API server and the client of \`/livez\` share two cores while health is waited for.`;
}

function memory({ cold: all }: Results): string {
  return `## Memory and rest

Resident memory in megabytes, ${5} s after the first sync; its anonymous part
(the rest is the program itself, mostly Node.js, which processes of one executable share); and the peak of the agent with its children during a cold start.
At rest: the share of a core, and the number of processes started.

${table(
  ['cluster', 'backend', 'resident', 'anonymous', 'peak', 'CPU at rest', 'processes started'],
  all.map((m) => [
    size(m.shape),
    m.backend,
    m.resident.toFixed(0),
    m.anonymous.toFixed(0),
    spreadOf(m.peak),
    m.idle === undefined ? 'not run' : percent(m.idle),
    m.started === undefined ? 'not run' : `${m.started}`,
  ]),
)}

The aim of 150 MB at rest is missed: an agent with a single Service takes 110 MB, of which 77 MB are Node.js' own file.
10,000 Services of 5 endpoints are 65 MB of live objects (the decoded objects, the ServicePorts, the rules as text, the trees),
and the allocator's gaps between them.

| tried | effect | kept |
| --- | --- | --- |
| short lists instead of a map for each Service | 8 MB less | yes |
| room for young objects that does not grow | 45 MB less at the peak | yes |
| portions | the tool takes 8 to 15 MB instead of 174 MB | yes |
| \`--optimize-for-size\` | 25 MB less before the last collection, 50 % more CPU time | no |
| one malloc arena | none | no |`;
}

function change({ change: all }: Results): string {
  const small = all[0];
  return `## One endpoint changed

The time from the API server's event to the kernel's notification of the rule (a netlink socket beside the agent), minSyncPeriod 0, ${small?.change.length ?? 0} changes.
Floor: the bare \`iptables-restore\` of one chain of as many endpoints, to which nothing refers, in the same table.
Without jumps: the same, once no built-in chain leads to the Services.

${table(
  [
    'cluster',
    'p50',
    'p99',
    'floor, p50',
    'p50 / floor',
    'without jumps',
    `p50 / that at ${small === undefined ? '' : size(small.shape)}`,
  ],
  all.map((m) => [
    size(m.shape),
    ms(median(m.change), 1),
    ms(quantile(m.change, 0.99), 1),
    ms(median(m.floor), 1),
    ratio(median(m.change), median(m.floor)),
    ms(median(m.unreached), 1),
    ratio(median(m.change), median(small?.change ?? [])),
  ]),
)}

The agent adds a few milliseconds; the floor itself grows.
In each commit that adds a rule the kernel walks every reachable rule of the table,
once for each built-in chain that leads there (nft_table_validate), half a microsecond each; the column without jumps shows the time without that walk.
All DNAT rules belong to the one table nat, so no shape of rules in iptables avoids the walk.
Fewer rules, fewer comments and fewer matches shorten it (next table).
nftables mode writes elements of maps instead of rules, and avoids it.`;
}

function shapes({ shapes: { shape, shapes: all } }: Results): string {
  const first = all[0];
  return `## Shapes of rules

The same rules of ${size(shape)} in other orders, pieces and subsets: the time of \`iptables-nft-restore\` to load them, and to write one more chain beside them.

${table(
  ['shape', 'load', 'load / first', 'one chain more, p50', 'of it / first'],
  all.map(({ name, load, change: more }) => [
    name,
    spread(load),
    ratio(median(load), median(first?.load ?? [])),
    ms(median(more), 1),
    ratio(median(more), median(first?.change ?? [])),
  ]),
)}

The tool keeps the chains of a restore in a list sorted by name, and walks it for each chain: a restore is fastest with few chains, in falling order of names.
The tables cannot be split: a translation works only in the table nat, and iptables-nft has one table of each name.`;
}

function churn({ churn: c }: Results): string {
  return `## Churn

${c.perSecond} changes a second, each of one endpoint of another Service, for ${c.seconds} s at ${size(c.shape)}, minSyncPeriod 1 s.
Delay: from event to kernel, of each of ${c.delays.count} changes.
CPU: agent and children.
Floor: as many bare restores of ${c.perSecond} chains in the same table as there were syncs.

${table(
  ['delay p50', 'p99', 'most', 'CPU', 'floor', 'CPU / floor', 'syncs', 'memory before', 'after'],
  [
    [
      ms(c.delays.p50),
      ms(c.delays.p99),
      ms(c.delays.most),
      percent(c.processor),
      percent(c.floor),
      ratio(c.processor, c.floor),
      `${c.syncs}`,
      `${c.before.toFixed(0)} MB`,
      `${c.after.toFixed(0)} MB`,
    ],
  ],
)}`;
}

function large({ large: l }: Results): string {
  return `## A Service of ${l.endpoints.toLocaleString('en')} endpoints

One endpoint is replaced, ${l.flaps.length} times: the time from event to kernel.
Rival: the bare restore of one flat chain of as many endpoints, which a flap would write without groups.
Then one client connects as fast as it can, and the connections are counted by endpoint.
Chi-squared a degree of freedom is about 1 when all endpoints are equally likely.

${table(
  [
    'flap p50',
    'most',
    'flat chain, p50',
    'flap / flat',
    'connections',
    'endpoints reached',
    'failed',
    'chi-squared',
    'connect p50',
    'p99',
  ],
  [
    [
      ms(median(l.flaps), 1),
      ms(most(l.flaps), 1),
      ms(median(l.flat), 1),
      ratio(median(l.flaps), median(l.flat)),
      `${l.connections}`,
      `${l.reached}`,
      `${l.failed}`,
      l.chiSquared.toFixed(3),
      `${l.times.p50.toFixed(0)} µs`,
      `${l.times.p99.toFixed(0)} µs`,
    ],
  ],
)}`;
}

function rollout({ rollout: r }: Results): string {
  const failures = Object.entries(r.failures).map(([why, count]) => `${count} ${why}`);
  return `## Rollout

All endpoints of ${r.rolled.toLocaleString('en')} of ${r.services.toLocaleString('en')} Services are replaced within ${r.seconds} s.
Meanwhile a client connects to each in turn; old and new endpoints answer.
${r.connections} connections: ${failures.join(', ')}; connect p50 ${r.times.p50.toFixed(0)} µs, p99 ${r.times.p99.toFixed(0)} µs.
At the end ${r.wrong} of the new endpoints were missing in the kernel.`;
}

function connections({ connections: all }: Results): string {
  return `## New connections

The time of \`connect()\` in microseconds, p50 of ${all[0]?.last.length ?? 0} turns; each turn measures both, one after the other.
Client, server and rules are in one namespace, so the figures show only the way through the rules.
Rival: one rule a Service in one chain, as kube-proxy has them.

${table(
  ['Services', 'through the last', 'through the only one', 'last / only', 'one rule a Service', 'of it / only'],
  all.map((m) => {
    const list = m.list?.p50 ?? Number.NaN;
    return [...connectionCells(m), list.toFixed(0), ratio(list, median(m.single.map(({ p50 }) => p50)))];
  }),
)}`;
}

function flows({ flows: all }: Results): string {
  return `## Stale UDP flows

A sweep of the kernel's table of connections lists the UDP flows, judges each, and deletes the stale ones; it runs beside syncs and does not delay them.
Floor: \`conntrack -L -p udp\` (lists, deletes nothing) and \`conntrack -D\` of the stale flows by their common destination
(one command for the flows of as many Services).
Longest: the longest time that one step of the sweep held the event loop.
After a sweep the agent rests nine times as long as the sweep took.

${table(
  ['UDP flows', 'other flows', 'stale', 'sweep', 'sweep with nothing stale', 'longest', 'conntrack -L', 'conntrack -D'],
  all.map((m) => [
    `${m.flows}`,
    `${m.others}`,
    `${m.stale}`,
    ...[m.sweep, m.sweepOfNone, m.longest, m.list, m.remove].map((milliseconds) => ms(milliseconds)),
  ]),
)}`;
}

function producers({ producers: all }: Results): string {
  const small = all[0];
  return `## Slices from Pods

\`slicewire controller\`, one replica, with an API server in another process.

- Cold: from exec until the slices and the Endpoints of all Services are written, one by one, 5 of each at a time.
- Changes: ${small?.changes ?? 0} Pods replaced by others, one after another, from the event to the arrival of the slice's write.
- Floor: a program that watches Pods and writes a slice at each event, and does nothing else.
- Rolling update: all Pods of ${small?.rolled ?? 0} Services, and the cost of each Pod.

${table(
  [
    'Services × Pods',
    'cold',
    'writes a second',
    'memory',
    'change p50',
    'p99',
    'floor, p50',
    'p50 / that at the first',
    'CPU a Pod',
    'of it / the first',
    'slices written a Pod',
  ],
  all.map((m) => [
    size({ services: m.services, endpoints: m.pods }),
    `${(m.cold / 1000).toFixed(1)} s`,
    ((2 * m.services) / (m.cold / 1000)).toFixed(0),
    `${m.resident.toFixed(0)} MB`,
    ms(median(m.change), 2),
    ms(quantile(m.change, 0.99), 2),
    ms(median(m.floor), 2),
    ratio(median(m.change), median(small?.change ?? [])),
    ms(m.processor, 2),
    ratio(m.processor, small?.processor ?? Number.NaN),
    m.writes.toFixed(2),
  ]),
)}

The controller finds Pods by their labels, and Services by the rarest label of their selector: it walks neither list.
A sync reads the Pods of one Service and its slices.`;
}
