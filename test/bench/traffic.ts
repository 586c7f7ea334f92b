/**
 * What packets pay: new connections a second and the bytes of one long connection, through the last of many Services and to the
 * bare address of its pod, with the rules of each proxy in place and with none.
 */
import { fileURLToPath } from 'node:url';
import { LAB } from '../../src/cli/lab/lab.ts';
import { kubeProxyRules } from '../netns/kube-proxy-rules.ts';
import { kubeProxyTable } from '../netns/kube-proxy-table.ts';
import { type ClusterShape, clusterIP, endpointsOf, TARGET_PORT } from './cluster.ts';
import type { Target } from './connects-protocol.ts';
import { InsideProcess } from './inside.ts';
import { KubeProxy, kubeProxyVersion } from './kube-proxy.ts';
import { proxiedServices } from './rival.ts';
import type { ProxyName, RivalMode } from './rivals.ts';
import type { TrafficAnswer, TrafficCommand, TrafficSinkAnswer, TrafficSinkCommand } from './traffic-protocol.ts';
import { Trial } from './trial.ts';

const CLIENT = fileURLToPath(new URL('./traffic-inside.ts', import.meta.url));
const SINK = fileURLToPath(new URL('./traffic-sink-inside.ts', import.meta.url));
const PODS = '10.128.0.0/9';

/** Whose rules are in the kernel. `layout`: kube-proxy's rules as text, loaded by the bare tool. */
export interface Way {
  readonly proxy: ProxyName | 'layout' | 'none';
  readonly mode: RivalMode;
}

/** Of each turn. */
export interface Rate {
  /** Connections or bytes a second. */
  readonly perSecond: readonly number[];
  /** Microseconds of processor time of client and server together, for each connection or for each megabyte (10^6 bytes). */
  readonly processor: readonly number[];
}

export interface WayMeasured extends Way {
  /** `service` is undefined where there is no proxy. */
  readonly connects: { readonly service?: Rate; readonly pod: Rate };
  /** In the largest cluster alone: the number of Services is nothing to a connection that stands. */
  readonly stream?: { readonly service?: Rate; readonly pod: Rate };
}

export interface TrafficResult {
  readonly kubeProxy?: string;
  readonly clusters: readonly { readonly services: number; readonly ways: readonly WayMeasured[] }[];
}

const KINDS: readonly TrafficCommand['kind'][] = ['connects', 'stream'];
const TARGETS = ['service', 'pod'] as const;
const TURNS = 3;
const SECONDS = 1;
/** Of connections and bytes before what is measured, which compile the code. */
const WARM = 0.2;
/** Milliseconds. */
const PATIENCE = 150_000;

export async function measureTraffic(sizes: readonly number[], kubeProxy: string | undefined): Promise<TrafficResult> {
  const clusters: TrafficResult['clusters'][number][] = [];
  const rival = kubeProxy === undefined ? 'layout' : 'kube-proxy';
  const ways: Way[] = [
    { proxy: 'none', mode: 'nftables' },
    { proxy: 'slicewire', mode: 'nftables' },
    { proxy: rival, mode: 'nftables' },
    { proxy: 'slicewire', mode: 'iptables' },
    { proxy: rival, mode: 'iptables' },
  ];
  for (const services of sizes) {
    process.stdout.write(`  ${services} Services\n`);
    const shape = { services, endpoints: 1 };
    const kinds = services === Math.max(...sizes) ? KINDS : KINDS.slice(0, 1);
    const work = (prepared: readonly Prepared[]) => measureInTurns(prepared, kinds);
    clusters.push({ services, ways: await withLabs(ways, shape, kubeProxy, [], work) });
  }
  const version = kubeProxy === undefined ? {} : { kubeProxy: await kubeProxyVersion(kubeProxy) };
  return { ...version, clusters };
}

/** A lab with the rules of a proxy, and the programs at both ends. */
interface Prepared {
  readonly way: Way;
  readonly trial: Trial;
}

/** All labs are there at the same time, so that what is measured in them can take turns. */
async function withLabs<T>(
  [way, ...others]: readonly Way[],
  shape: ClusterShape,
  kubeProxy: string | undefined,
  prepared: readonly Prepared[],
  work: (prepared: readonly Prepared[]) => Promise<T>,
): Promise<T> {
  if (way === undefined) return await work(prepared);
  process.stdout.write(`    ${way.proxy}, ${way.mode}\n`);
  return await Trial.of({ shape, mode: way.mode }, async (trial) => {
    await trial.empty('node');
    const filled = await fill(trial, way, kubeProxy);
    await trial.server.stop();
    return await withLabs(others, shape, kubeProxy, [...prepared, { way: filled, trial }], work);
  });
}

/**
 * The proxy ends once its rules are there: what is measured is the kernel's work alone. Returns whose rules they are: those of a
 * kube-proxy that does not come to an end are the layout's.
 */
async function fill(trial: Trial, way: Way, file: string | undefined): Promise<Way> {
  const { proxy, mode } = way;
  if (proxy === 'none') return way;
  if (proxy === 'slicewire') {
    await (await trial.start()).agent.stop();
    return way;
  }
  if (proxy === 'kube-proxy' && file !== undefined) {
    const { lab, server } = trial;
    try {
      const started = await KubeProxy.start({ lab, file, kubeconfig: server.kubeconfig, mode }, { within: PATIENCE });
      await started.stop();
      return way;
    } catch (error) {
      process.stdout.write(`    ${String(error)}\n    its layout is loaded as text instead\n`);
      await trial.empty('node');
    }
  }
  await loadLayout(trial, mode);
  return { ...way, proxy: 'layout' };
}

async function loadLayout(trial: Trial, mode: RivalMode): Promise<void> {
  const services = proxiedServices(trial.shape);
  if (mode === 'nftables') {
    await trial.nft(kubeProxyTable(services), 'node');
    return;
  }
  // No endpoints but the last's: a restore with all of them takes minutes.
  const bare = services.map((one, n) => (n === services.length - 1 ? one : { ...one, endpoints: [] }));
  await trial.restore(kubeProxyRules(bare), { namespace: 'node', isEmptied: false });
}

type Measured = { -readonly [Key in keyof Rate]: number[] };

async function measureInTurns(
  prepared: readonly Prepared[],
  kinds: readonly TrafficCommand['kind'][],
): Promise<WayMeasured[]> {
  const rates = prepared.map(() => new Map<string, Measured>());
  for (let turn = 0; turn < TURNS; turn++) {
    for (const kind of kinds) {
      for (const [i, one] of prepared.entries()) {
        for (const [name, rate] of await measureOnce(one, kind)) {
          const all = rates[i]?.get(name) ?? { perSecond: [], processor: [] };
          all.perSecond.push(rate.perSecond);
          all.processor.push(rate.processor);
          rates[i]?.set(name, all);
        }
      }
    }
  }
  return prepared.map(({ way }, i) => {
    const of = (kind: TrafficCommand['kind']) => {
      const [service, pod] = TARGETS.map((target) => rates[i]?.get(`${kind} ${target}`));
      if (pod === undefined) throw new Error(`nothing was measured of ${kind}`);
      return service === undefined ? { pod } : { service, pod };
    };
    return { ...way, connects: of('connects'), ...(kinds.includes('stream') ? { stream: of('stream') } : {}) };
  });
}

interface Once {
  readonly perSecond: number;
  readonly processor: number;
}

/** Through the Service and to its pod, in one pair of processes; by `KIND TARGET`. */
async function measureOnce({ way, trial }: Prepared, kind: TrafficCommand['kind']): Promise<Map<string, Once>> {
  const { lab, shape } = trial;
  // Connections within the node: nothing but the rules is on the way. A stream goes to the other node, as it would in a cluster.
  const where = kind === 'connects' ? 'node' : 'other';
  const other = where === 'node' ? 'other' : 'node';
  await lab.exec(other, 'ip', 'route', 'flush', PODS);
  await lab.exec(where, 'ip', 'route', 'replace', 'local', PODS, 'dev', 'lo');
  await lab.exec(where, 'sysctl', '-qw', 'net.core.somaxconn=65535', 'net.ipv4.tcp_max_syn_backlog=65535');
  if (where !== 'node') {
    await lab.exec('node', 'ip', 'route', 'flush', 'table', 'local', 'root', PODS);
    await lab.exec('node', 'ip', 'route', 'replace', PODS, 'via', LAB.otherNode.v4);
  }
  const ends = { lab, program: CLIENT, namespace: 'node' };
  const client = new InsideProcess<TrafficCommand, TrafficAnswer, never>(ends);
  const sink = new InsideProcess<TrafficSinkCommand, TrafficSinkAnswer, never>({
    ...{ lab, program: SINK, namespace: where, args: [`${TARGET_PORT}`] },
  });
  try {
    const measured = new Map<string, Once>();
    const run = async (target: Target, seconds: number): Promise<Once> => {
      const before = await sink.ask({ kind: kind === 'stream' ? 'read' : 'close' });
      const { count, seconds: took, processor } = await client.ask({ kind, target, seconds });
      const after = await sink.ask({ kind: kind === 'stream' ? 'read' : 'close' });
      const unit = kind === 'stream' ? count / 1e6 : count;
      return { perSecond: count / took, processor: (processor + after.processor - before.processor) / unit };
    };
    for (const name of TARGETS) {
      if (name === 'service' && way.proxy === 'none') continue;
      const target = targetOf(shape, name);
      await run(target, WARM);
      measured.set(`${kind} ${name}`, await run(target, SECONDS));
    }
    return measured;
  } finally {
    await client.stop();
    await sink.stop();
  }
}

function targetOf(shape: ClusterShape, name: 'service' | 'pod'): Target {
  const last = shape.services - 1;
  if (name === 'service') return { address: clusterIP(last), port: 80 };
  return { address: endpointsOf(shape, last)[0]?.addresses[0] ?? '', port: TARGET_PORT };
}
