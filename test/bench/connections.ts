/** A new connection through the last of many Services, beside one through the only Service, and kube-proxy's layout. */
import { kubeProxyRules } from '../netns/kube-proxy-rules.ts';
import { type ClusterShape, clusterIP, FIRST, TARGET_PORT } from './cluster.ts';
import { Connector, Sink } from './connects.ts';
import { median, type Summary, summary } from './text.ts';
import { type BenchMode, Trial } from './trial.ts';

export interface ConnectionsResult {
  readonly services: number;
  /** Microseconds of connect(), turn by turn. */
  readonly last: readonly Summary[];
  /** The same with no other Service but the two of the system. */
  readonly single: readonly Summary[];
  /** iptables mode: through one rule a Service in one chain, as kube-proxy has them, without their endpoint chains. */
  readonly list?: Summary;
}

const SECONDS = 4;
/** Turns of each, one after the other, for the machine is noisy. */
const TURNS = 3;

/** Both at the same time in two labs, measured in turn. */
export async function measureConnections(services: number, mode: BenchMode = 'iptables'): Promise<ConnectionsResult> {
  const shapeOf = (count: number): ClusterShape => ({ services: count, endpoints: 1 });
  return await Trial.of({ shape: shapeOf(services), mode }, (many) =>
    Trial.of({ shape: shapeOf(FIRST + 1), mode }, async (one) => {
      const last: Summary[] = [];
      const single: Summary[] = [];
      for (const trial of [many, one]) await prepare(trial);
      for (let turn = 0; turn < TURNS; turn++) {
        last.push(await connectTo(many, services - 1));
        single.push(await connectTo(one, FIRST));
      }
      if (mode !== 'iptables') return { services, last, single };
      await many.empty('node');
      await many.restore(oneList(services), { namespace: 'node', isEmptied: false });
      const list = await connectTo(many, services - 1);
      return { services, last, single, list };
    }),
  );
}

async function prepare(trial: Trial): Promise<void> {
  await trial.empty('node');
  const { agent } = await trial.start();
  // Nothing changes any more: what is measured is the kernel's.
  await agent.stop();
}

async function connectTo({ lab }: Trial, n: number): Promise<Summary> {
  // In the node itself: what is measured is not the network.
  const sink = await Sink.start(lab, 'node');
  const client = new Connector(lab, 'node');
  try {
    const { times, failures } = await client.connect({
      targets: [{ address: clusterIP(n), port: 80 }],
      seconds: SECONDS,
    });
    const failed = Object.values(failures).reduce((sum, count) => sum + count, 0);
    if (failed > 0) throw new Error(`${failed} connections failed: ${JSON.stringify(failures)}`);
    return summary(times);
  } finally {
    await client.stop();
    await sink.stop();
  }
}

/** One rule a Service in one chain; only the last has an endpoint, or the restore would take minutes. */
function oneList(services: number): string {
  const all = Array.from({ length: services }, (_, n) => ({
    id: `default/svc-${n}`,
    clusterIP: clusterIP(n),
    port: 80,
    endpoints: n === services - 1 ? [`10.128.1.0:${TARGET_PORT}`] : [],
  }));
  return kubeProxyRules(all);
}

/** The median of the turns' ratios. */
export function lastBesideSingle({ last, single }: ConnectionsResult): number {
  return median(last.map(({ p50 }, turn) => p50 / (single[turn]?.p50 ?? Number.NaN)));
}

/** Of a table: Services, through the last, through the only one, last / only. */
export function connectionCells(result: ConnectionsResult): string[] {
  const turns = (all: readonly Summary[]) => all.map(({ p50 }) => p50.toFixed(0)).join(', ');
  const { services, last, single } = result;
  return [services.toLocaleString('en'), turns(last), turns(single), lastBesideSingle(result).toFixed(2)];
}
