/**
 * What packets pay: connections, round trips, UDP flows and the bytes of a long connection, by each way to a Service and to the bare address
 * of its Pod, with the rules of each proxy in place and with none.
 */
import { fileURLToPath } from 'node:url';
import { LAB } from '../../src/cli/lab/lab.ts';
import { kubeProxyRules } from '../netns/kube-proxy-rules.ts';
import { kubeProxyTable } from '../netns/kube-proxy-table.ts';
import {
  type ClusterShape,
  clusterIP,
  endpointsOf,
  LOAD_BALANCER,
  TARGET_PORT,
  VARIANT_NODE_PORT,
  variantAt,
} from './cluster.ts';
import { InsideProcess } from './inside.ts';
import { KubeProxy, kubeProxyVersion } from './kube-proxy.ts';
import { proxiedServices } from './layout.ts';
import type { ProxyMode, ProxyName } from './proxies.ts';
import type {
  Target,
  TrafficAnswer,
  TrafficCommand,
  TrafficKind,
  TrafficSinkAnswer,
  TrafficSinkCommand,
} from './traffic-protocol.ts';
import { Trial } from './trial.ts';

const CLIENT = fileURLToPath(new URL('./traffic-inside.ts', import.meta.url));
const SINK = fileURLToPath(new URL('./traffic-sink-inside.ts', import.meta.url));
const PODS = '10.128.0.0/9';

/** Whose rules are in the kernel. `layout`: kube-proxy's rules as text, loaded by the bare tool. */
export interface Rules {
  readonly proxy: ProxyName | 'layout' | 'none';
  readonly mode: ProxyMode;
}

/** Where the client sends to. */
export type Way = 'pod' | 'cluster IP' | 'node port' | 'load balancer' | 'sticky cluster IP';

/** Of each turn. */
export interface Rate {
  /** Connections, round trips, flows or bytes a second. */
  readonly perSecond: readonly number[];
  /** Microseconds of processor time of client and server together, for each of them, or for each megabyte (10^6 bytes). */
  readonly processor: readonly number[];
}

export interface WayMeasured extends Rules, Rate {
  readonly kind: TrafficKind;
  readonly way: Way;
}

export interface TrafficCluster {
  readonly shape: ClusterShape;
  readonly measured: readonly WayMeasured[];
}

export interface TrafficResult {
  readonly kubeProxy?: string;
  readonly clusters: readonly TrafficCluster[];
}

interface TrafficPlan {
  readonly shape: ClusterShape;
  readonly kinds: Readonly<Partial<Record<TrafficKind, readonly Way[]>>>;
}

const TWO: readonly Way[] = ['cluster IP', 'pod'];
/** Every way in a cluster in which kube-proxy comes to an end; the number of Services is nothing to a connection that stands. */
const PLANS: readonly TrafficPlan[] = [
  { shape: { services: 3, endpoints: 1 }, kinds: { connects: TWO } },
  {
    shape: { services: 1000, endpoints: 1, hasVariants: true },
    kinds: {
      connects: [...TWO, 'node port', 'load balancer', 'sticky cluster IP'],
      flows: TWO,
      'round-trips': TWO,
      stream: TWO,
    },
  },
  { shape: { services: 10_000, endpoints: 1 }, kinds: { connects: TWO } },
  { shape: { services: 3, endpoints: 5000 }, kinds: { connects: TWO } },
];
const TURNS = 8;
const SECONDS = 0.5;
/** Of traffic before what is measured, which compiles the code. */
const WARM = 0.1;
/** Milliseconds. */
const PATIENCE = 150_000;

export async function measureTraffic(kubeProxy: string | undefined): Promise<TrafficResult> {
  const clusters: TrafficCluster[] = [];
  const rival = kubeProxy === undefined ? 'layout' : 'kube-proxy';
  const all: Rules[] = [
    { proxy: 'none', mode: 'nftables' },
    { proxy: 'slicewire', mode: 'nftables' },
    { proxy: rival, mode: 'nftables' },
    { proxy: 'slicewire', mode: 'iptables' },
    { proxy: rival, mode: 'iptables' },
  ];
  for (const { shape, kinds } of PLANS) {
    process.stdout.write(`  ${shape.services} × ${shape.endpoints}\n`);
    const work = (prepared: readonly Prepared[]) => measureInTurns(prepared, kinds);
    clusters.push({ shape, measured: await withLabs({ all, shape, kubeProxy, prepared: [] }, work) });
  }
  const version = kubeProxy === undefined ? {} : { kubeProxy: await kubeProxyVersion(kubeProxy) };
  return { ...version, clusters };
}

/** A lab with the rules of a proxy. */
interface Prepared {
  readonly rules: Rules;
  readonly trial: Trial;
}

interface Labs {
  /** Those that have no lab yet. */
  readonly all: readonly Rules[];
  readonly shape: ClusterShape;
  readonly kubeProxy: string | undefined;
  readonly prepared: readonly Prepared[];
}

/** All labs are there at the same time, so that what is measured in them can take turns. */
async function withLabs<T>(labs: Labs, work: (prepared: readonly Prepared[]) => Promise<T>): Promise<T> {
  const { all, shape, kubeProxy, prepared } = labs;
  const [rules, ...others] = all;
  if (rules === undefined) return await work(prepared);
  process.stdout.write(`    ${rules.proxy}, ${rules.mode}\n`);
  return await Trial.of({ shape, mode: rules.mode }, async (trial) => {
    await trial.empty('node');
    const filled = await fill(trial, rules, kubeProxy);
    await trial.server.stop();
    return await withLabs({ ...labs, all: others, prepared: [...prepared, { rules: filled, trial }] }, work);
  });
}

/**
 * The proxy ends once its rules are there: what is measured is the kernel's work alone. Returns whose rules they are: those of a
 * kube-proxy that does not come to an end are the layout's.
 */
async function fill(trial: Trial, rules: Rules, file: string | undefined): Promise<Rules> {
  const { proxy, mode } = rules;
  if (proxy === 'none') return rules;
  if (proxy === 'slicewire') {
    await (await trial.start()).agent.stop();
    return rules;
  }
  if (proxy === 'kube-proxy' && file !== undefined) {
    const { lab, server } = trial;
    try {
      const started = await KubeProxy.start({ lab, file, kubeconfig: server.kubeconfig, mode }, { within: PATIENCE });
      await started.stop();
      return rules;
    } catch (error) {
      process.stdout.write(`    ${String(error)}\n    its layout is loaded as text instead\n`);
      await trial.empty('node');
    }
  }
  await loadLayout(trial, mode);
  return { ...rules, proxy: 'layout' };
}

async function loadLayout(trial: Trial, mode: ProxyMode): Promise<void> {
  const services = proxiedServices(trial.shape);
  if (mode === 'nftables') {
    await trial.nft(kubeProxyTable(services), 'node');
    return;
  }
  // No endpoints but the last's: a restore with all of them takes minutes.
  const bare = services.map((one, n) => (n === services.length - 1 ? one : { ...one, endpoints: [] }));
  await trial.restore(kubeProxyRules(bare), { namespace: 'node', isEmptied: false });
}

interface Measured extends Omit<WayMeasured, keyof Rate> {
  readonly perSecond: number[];
  readonly processor: number[];
}

async function measureInTurns(prepared: readonly Prepared[], kinds: TrafficPlan['kinds']): Promise<WayMeasured[]> {
  const all = new Map<string, Measured>();
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [kind, ways] of Object.entries(kinds) as [TrafficKind, readonly Way[]][]) {
      // Each turn begins with another one: the machine may get slower or faster meanwhile.
      for (const i of prepared.keys().map((n) => (n + turn) % prepared.length)) {
        const one = prepared[i];
        if (one === undefined) continue;
        for (const [way, rate] of await measureOnce(one, kind, turn % 2 === 0 ? ways : ways.toReversed())) {
          const name = `${i} ${kind} ${way}`;
          const measured = all.get(name) ?? { ...one.rules, kind, way, perSecond: [], processor: [] };
          measured.perSecond.push(rate.perSecond);
          measured.processor.push(rate.processor);
          all.set(name, measured);
        }
      }
    }
  }
  return [...all.values()];
}

interface Once {
  readonly perSecond: number;
  readonly processor: number;
}

/** By each way, in one pair of processes. */
async function measureOnce(
  { rules, trial }: Prepared,
  kind: TrafficKind,
  ways: readonly Way[],
): Promise<ReadonlyMap<Way, Once>> {
  const { lab, shape } = trial;
  await route(trial, kind);
  const pod = targetOf(shape, 'pod', kind);
  const ends = { lab, program: CLIENT, namespace: 'node' };
  const client = new InsideProcess<TrafficCommand, TrafficAnswer, never>(ends);
  const sink = new InsideProcess<TrafficSinkCommand, TrafficSinkAnswer, never>({
    ...{ lab, program: SINK, namespace: kind === 'stream' ? 'other' : 'node', args: [`${pod.port}`, pod.address] },
  });
  try {
    const measured = new Map<Way, Once>();
    const run = async (target: Target, seconds: number): Promise<Once> => {
      const before = await sink.ask({ kind });
      const { count, seconds: took, processor } = await client.ask({ kind, target, seconds });
      const after = await sink.ask({ kind });
      const unit = kind === 'stream' ? count / 1e6 : count;
      return { perSecond: count / took, processor: (processor + after.processor - before.processor) / unit };
    };
    for (const way of ways) {
      if (!isThere(rules, way, kind)) continue;
      const target = targetOf(shape, way, kind);
      await run(target, WARM);
      measured.set(way, await run(target, SECONDS));
    }
    return measured;
  } finally {
    await client.stop();
    await sink.stop();
  }
}

/** kube-proxy's layout as text has plain cluster IPs of TCP. */
function isThere({ proxy }: Rules, way: Way, kind: TrafficKind): boolean {
  if (way === 'pod') return true;
  return proxy !== 'none' && (proxy !== 'layout' || (way === 'cluster IP' && kind !== 'flows'));
}

/**
 * Connections are within the node: nothing but the rules is on the way. A stream goes to the other node, as it would in a cluster. A UDP
 * flow is forgotten soon: the table of connections would be full of them.
 */
async function route({ lab }: Trial, kind: TrafficKind): Promise<void> {
  const [where, other] = kind === 'stream' ? ['other', 'node'] : ['node', 'other'];
  await lab.exec(other, 'ip', 'route', 'flush', PODS);
  await lab.exec(where, 'ip', 'route', 'replace', 'local', PODS, 'dev', 'lo');
  const settings = ['net.core.somaxconn=65535', 'net.ipv4.tcp_max_syn_backlog=65535'];
  const conntrack = ['udp_timeout', 'udp_timeout_stream'].map((name) => `net.netfilter.nf_conntrack_${name}=1`);
  await lab.exec(where, 'sysctl', '-qw', ...settings, ...(kind === 'flows' ? conntrack : []));
  if (where !== 'other') return;
  await lab.exec('node', 'ip', 'route', 'flush', 'table', 'local', 'root', PODS);
  await lab.exec('node', 'ip', 'route', 'replace', PODS, 'via', LAB.otherNode.v4);
}

function targetOf(shape: ClusterShape, way: Way, kind: TrafficKind): Target {
  const n = kind === 'flows' ? variantAt(shape, 'udp') : shape.services - 1;
  switch (way) {
    case 'pod':
      return { address: endpointsOf(shape, n)[0]?.addresses[0] ?? '', port: TARGET_PORT };
    case 'cluster IP':
      return { address: clusterIP(n), port: 80 };
    case 'sticky cluster IP':
      return { address: clusterIP(variantAt(shape, 'sticky')), port: 80 };
    case 'node port':
      return { address: LAB.node.v4, port: VARIANT_NODE_PORT };
    case 'load balancer':
      return { address: LOAD_BALANCER, port: 80 };
  }
}
