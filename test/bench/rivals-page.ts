/** The part of docs/benchmarks.md that has slicewire beside the real kube-proxy. */
import type { RivalMeasured, RivalsResult } from './rivals.ts';
import { MADE_UP } from './server-process.ts';
import { duration, median, ms, percent, ratio, size, spread, spreadOf, table } from './text.ts';
import type { Rate, TrafficResult, WayMeasured } from './traffic.ts';

const NONE = 'not run';

/** `kube-proxy 1.36.2`; without a binary its name alone. */
export function rivalName({ kubeProxy }: Pick<RivalsResult, 'kubeProxy'>): string {
  return kubeProxy === undefined ? 'kube-proxy' : `kube-proxy ${kubeProxy.replace(/^v/, '')}`;
}

export function rivalsSection(rivals: RivalsResult): string {
  const { measured, missing, server } = rivals;
  const name = ({ proxy }: RivalMeasured) => (proxy === 'kube-proxy' ? rivalName(rivals) : proxy);
  const of = (one: RivalMeasured) => [size(one.shape), one.mode, name(one)];
  const given =
    rivals.kubeProxy === undefined ? 'No binary of kube-proxy was given.' : `${rivalName(rivals)} is its binary.`;
  return `## Beside kube-proxy

${given} The API server: ${server}.${server === MADE_UP ? '' : ' An event is dated just before its write to etcd.'}
Both proxies run one after the other in the same namespace, beside the same API server, with minSyncPeriod 1 s.

- Cold start: from exec until both address families were synced, by slicewire's log and by kube-proxy's metric
  \`kubeproxy_sync_proxy_rules_last_timestamp_seconds\`. "1 × 1" is the one Service \`default/kubernetes\`.
- Processor: processor time until then, with children (\`nft\`, \`iptables-restore\`).
- Memory is in megabytes: with children at the peak of a cold start; at rest, 5 s after the first sync; of this, what is of no file.

${table(
  ['cluster', 'mode', 'proxy', 'cold start', 'processor', 'peak', 'at rest', 'not of a file', 'restart'],
  measured.map((one) => [
    ...of(one),
    spread(one.cold),
    spread(one.processor),
    spreadOf(one.peak),
    one.resident.toFixed(0),
    one.anonymous.toFixed(0),
    one.restart === undefined ? NONE : spread(one.restart),
  ]),
)}

- One change: one endpoint, from the API server's event to the kernel's notification; more than minSyncPeriod after the last one.
- 100 changes a second, of one endpoint each: the delay from event to kernel of each Service's last change; the syncs meanwhile; the
  processor time until the last change was in the kernel, as a share of the seconds in which changes came.
- At rest: share of a core while nothing happens.

${table(
  ['cluster', 'mode', 'proxy', 'one change', 'processor of 100 a second', 'delay p50', 'p99', 'syncs', 'at rest'],
  measured
    .filter(({ change, churn }) => (change ?? churn) !== undefined)
    .map((one) => [
      ...of(one),
      one.change === undefined ? NONE : duration(median(one.change)),
      ...churnCells(one),
      one.idle === undefined ? NONE : percent(one.idle, 2),
    ]),
)}

${receivedText(measured, name)}

${holdsText(measured)}

${missing.length === 0 ? '' : `Not measured:\n\n${missing.map((one) => `- ${one}`).join('\n')}`}`.trimEnd();
}

function holdsText(measured: readonly RivalMeasured[]): string {
  const rows = measured.flatMap(({ shape, mode, holds }) =>
    holds === undefined ? [] : [[size(shape), mode, ms(holds.lists), ms(holds.sync), ms(holds.after)]],
  );
  if (rows.length === 0) return '';
  return `The longest wait for an answer of slicewire's \`/livez\`, asked every 10 ms in one more cold start, by phase: until all lists were there,
in the first sync, and in the 3 s after it. It is the longest hold of the event loop, and what else the machine did meanwhile.

${table(['cluster', 'mode', 'lists', 'first sync', 'after it'], rows)}`;
}

/** TLS included. */
function receivedText(measured: readonly RivalMeasured[], name: (one: RivalMeasured) => string): string {
  const all = measured.flatMap((one) =>
    one.received === undefined ? [] : [`${name(one)} ${Math.round(one.received).toLocaleString('en')} bytes`],
  );
  return all.length === 0 ? '' : `A change of a slice of 100 endpoints brings them, TLS included: ${all.join(', ')}.`;
}

function churnCells({ churn }: RivalMeasured): string[] {
  if (churn === undefined) return [NONE, NONE, NONE, NONE];
  const { processor, delays, syncs, seconds } = churn;
  return [percent(processor), duration(delays.p50), duration(delays.p99), `${syncs} in ${seconds} s`];
}

export function trafficSection(traffic: TrafficResult): string {
  const { clusters } = traffic;
  const largest = clusters.at(-1);
  return `## Connections a second, and a long one

The price of the rules for packets, through the last of N Services of one endpoint and to the bare address of its pod.
Processor: user and system time of client and server together.
On a kernel without CONFIG_IRQ_TIME_ACCOUNTING this contains the kernel's work on the packets, which runs within their calls.
It is steadier than the rate, which other programs on the machine disturb.

- New connections: one after another by one client, client and server in the node's namespace.
- A long connection: one client on the node sends to a pod of another node.
- Bare: no rules of any proxy. Each figure is the median of its turns, and the turns of all rows alternate.

${table(
  [
    'Services',
    'rules of',
    'new connections a second, Service',
    'to the pod',
    'processor each, Service',
    'to the pod',
    'Service − bare pod',
  ],
  clusters.flatMap(({ services, ways }) =>
    ways.map((way) => [services.toLocaleString('en'), wayName(way, traffic), ...connectCells(way, ways)]),
  ),
)}

${table(
  ['rules of', 'long connection, Service', 'to the pod', 'Service / pod', 'processor each GB, Service', 'to the pod'],
  (largest?.ways ?? []).flatMap((way) =>
    way.stream === undefined ? [] : [[wayName(way, traffic), ...streamCells(way.stream)]],
  ),
)}`;
}

function wayName({ proxy, mode }: WayMeasured, traffic: TrafficResult): string {
  if (proxy === 'none') return 'no proxy (bare)';
  const name = { slicewire: 'slicewire', layout: "kube-proxy's layout as text", 'kube-proxy': rivalName(traffic) }[
    proxy
  ];
  return `${name}, ${mode}`;
}

const DASH = '–';

function connectCells({ connects }: WayMeasured, ways: readonly WayMeasured[]): string[] {
  const bare = ways.find(({ proxy }) => proxy === 'none')?.connects.pod;
  const rate = (one: Rate | undefined) =>
    one === undefined ? DASH : Math.round(median(one.perSecond)).toLocaleString('en');
  const cost = (one: Rate | undefined) => (one === undefined ? DASH : `${median(one.processor).toFixed(1)} µs`);
  const { service, pod } = connects;
  const more =
    service === undefined || bare === undefined
      ? DASH
      : `${(median(service.processor) - median(bare.processor)).toFixed(1)} µs`;
  return [rate(service), rate(pod), cost(service), cost(pod), more];
}

function streamCells({ service, pod }: { readonly service?: Rate; readonly pod: Rate }): string[] {
  const rate = (one: Rate | undefined) =>
    one === undefined ? DASH : `${(median(one.perSecond) / 1e9).toFixed(2)} GB/s`;
  // Microseconds a megabyte are milliseconds a gigabyte.
  const cost = (one: Rate | undefined) => (one === undefined ? DASH : ms(median(one.processor)));
  const beside = service === undefined ? DASH : ratio(median(service.perSecond), median(pod.perSecond));
  return [rate(service), rate(pod), beside, cost(service), cost(pod)];
}
