/** The part of docs/benchmarks.md about traffic through the rules of each proxy. */
import { rivalName } from './proxies-page.ts';
import { type Aim, interval, mean, NOT_RUN, ratio, size, table } from './text.ts';
import type { Rules, TrafficCluster, TrafficResult, WayMeasured } from './traffic.ts';
import type { TrafficKind } from './traffic-protocol.ts';

/** A new connection through the last of many Services may cost so many times one through the only one. */
const GROWTH = 1.15;

/** The words of each kind, and how its rate and its cost are written. */
const KINDS: Readonly<Record<TrafficKind, { readonly name: string; readonly rate: string; readonly cost: string }>> = {
  connects: { name: 'new TCP connection', rate: 'connections a second', cost: 'µs each' },
  flows: { name: 'new UDP flow', rate: 'flows a second', cost: 'µs each' },
  'round-trips': { name: 'round trip on one connection', rate: 'round trips a second', cost: 'µs each' },
  stream: { name: 'stream to a Pod of another node', rate: 'MB a second', cost: 'µs each MB' },
};

/** `server`: the API server of this run. */
export function trafficSection(traffic: TrafficResult, server: string): string {
  return `## Traffic

The price of the rules for packets, through the last Service of each cluster and to the bare address of its Pod.
Processor: user and system time of client and server together.
On a kernel without CONFIG_IRQ_TIME_ACCOUNTING this contains the kernel's work on the packets, which runs within their calls.
It is steadier than the rate, which other programs on the machine disturb.

- Client and server of connections, flows and round trips are in the node's namespace; a stream goes from there to another node.
- The rules come from each proxy, beside the same API server (${server}). A kube-proxy that has not synced within 150 s is replaced by its layout
  as text, which the bare tool loads.
- No proxy: no rules at all. The turns of all rows of a table alternate, and each figure is their mean with its 95 % interval.

${traffic.clusters.map((cluster) => clusterText(cluster, traffic)).join('\n\n')}`;
}

function clusterText({ shape, measured }: TrafficCluster, traffic: TrafficResult): string {
  const bare = ({ kind }: WayMeasured) => measured.find((one) => one.proxy === 'none' && one.kind === kind);
  const rows = measured.map((one) => {
    const { name, rate, cost } = KINDS[one.kind];
    const unit = one.kind === 'stream' ? 1e6 : 1;
    const floor = bare(one);
    return [
      ...[name, one.way, rulesName(one, traffic)],
      `${interval(one.perSecond.map((each) => each / unit))} ${rate}`,
      `${interval(one.processor, 1)} ${cost}`,
      floor === undefined ? '' : ratio(mean(one.processor), mean(floor.processor)),
    ];
  });
  return `### ${size(shape)}\n\n${table(['traffic', 'to', 'rules of', 'rate', 'processor', 'processor / no proxy'], rows)}`;
}

function rulesName({ proxy, mode }: Rules, traffic: TrafficResult): string {
  if (proxy === 'none') return 'no proxy';
  const name = { slicewire: 'slicewire', layout: "kube-proxy's layout as text", 'kube-proxy': rivalName(traffic) };
  return `${name[proxy]}, ${mode}`;
}

/** The processor time of a new connection to a cluster IP, in microseconds; undefined: it was not measured. */
export function connectCost({ measured }: TrafficCluster, is: (rules: Rules) => boolean): number | undefined {
  const one = measured.find((each) => each.kind === 'connects' && each.way === 'cluster IP' && is(each));
  return one === undefined ? undefined : mean(one.processor);
}

export function trafficAims({ clusters }: TrafficResult): Aim[] {
  const plain = clusters.filter(({ shape }) => shape.endpoints === 1);
  const [least, ...larger] = [...plain].sort((a, b) => a.shape.services - b.shape.services);
  return (['nftables', 'iptables'] as const).flatMap((mode) =>
    larger.map((cluster) => {
      const own = (one: TrafficCluster | undefined) =>
        one && connectCost(one, ({ proxy, mode: of }) => proxy === 'slicewire' && of === mode);
      const rival = connectCost(cluster, ({ proxy, mode: of }) => of === mode && proxy !== 'slicewire');
      const [cost, floor] = [own(cluster) ?? Number.NaN, own(least) ?? Number.NaN];
      return {
        ...{
          what: `new connection, beside one with ${least?.shape.services} Services`,
          at: `${size(cluster.shape)}, ${mode}`,
        },
        aim: `${GROWTH} ×`,
        found: Number.isNaN(cost / floor) ? NOT_RUN : `${ratio(cost, floor)} ×`,
        beside: `${floor.toFixed(1)} µs there${rival === undefined ? '' : `, kube-proxy's rules ${rival.toFixed(1)} µs`}`,
        isReached: Number.isNaN(cost / floor) ? undefined : cost / floor <= GROWTH,
      };
    }),
  );
}
