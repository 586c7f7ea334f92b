/**
 * slicewire and the real kube-proxy, one after the other in the same namespace with the same API server: cold starts, memory, rest,
 * single changes, changes without end, restart. Without a kube-proxy, slicewire alone is measured, and the result says so.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type ClusterShape, churnStep, clusterIP, FIRST, lastAddress } from './cluster.ts';
import { HealthWatch, type Wait } from './health-watch.ts';
import { KernelProbe } from './kernel-probe.ts';
import { KubeProxy, kubeProxyVersion } from './kube-proxy.ts';
import { tableText } from './nftables.ts';
import { MemorySampler, processorTime, residentMemory } from './process-cost.ts';
import { receivedBytes } from './received.ts';
import { serverVersion } from './server-process.ts';
import { most, type Summary, summary } from './text.ts';
import { Trial, timeOf } from './trial.ts';

export type RivalMode = 'iptables' | 'nftables';
export type ProxyName = 'slicewire' | 'kube-proxy';

/** What is measured of one proxy in one cluster. */
export interface RivalPlan {
  readonly shape: ClusterShape;
  readonly mode: RivalMode;
  readonly proxy: ProxyName;
  /** Cold starts. */
  readonly runs: number;
  /** Seconds at rest that are watched; 0: none. */
  readonly rest: number;
  /** Single changes, and seconds of changes without end; 0: none. */
  readonly changes: number;
  readonly churn: number;
  /** How often it is started over what is there. */
  readonly restarts: number;
  /** nftables mode of slicewire: whether `nft -f` of the same state is measured beside it. */
  readonly hasFloor: boolean;
}

export interface RivalMeasured extends Pick<RivalPlan, 'shape' | 'mode' | 'proxy'> {
  /** Milliseconds from exec to the end of the first sync, of each run. */
  readonly cold: readonly number[];
  /** Milliseconds of processor time until then, with children. */
  readonly processor: readonly number[];
  /** Milliseconds of `nft -f` of the same state, in another namespace. */
  readonly floor?: readonly number[];
  /** Megabytes with children, at the peak of each run. */
  readonly peak: readonly number[];
  /** Megabytes at rest, and of this what is of no file. */
  readonly resident: number;
  readonly anonymous: number;
  /** Share of a core at rest. */
  readonly idle?: number;
  /** Milliseconds from the event to the kernel. */
  readonly change?: readonly number[];
  readonly churn?: ChurnMeasured;
  /** Milliseconds of each start over what is there. */
  readonly restart?: readonly number[];
  /** slicewire: how long `/livez` was kept waiting in a cold start. */
  readonly holds?: Holds;
  /** TLS included: bytes that the proxy received for each changed slice of 100 endpoints. */
  readonly received?: number;
}

/** The longest wait of each phase, in milliseconds. */
export interface Holds {
  /** From exec until all lists were there; from then until the first sync was complete; in the seconds after it. */
  readonly lists: number;
  readonly sync: number;
  readonly after: number;
}

export interface ChurnMeasured {
  readonly perSecond: number;
  readonly seconds: number;
  /** With children, until the last change was in the kernel; as a share of the seconds in which changes came. */
  readonly processor: number;
  readonly delays: Summary;
  readonly syncs: number;
}

export interface RivalsResult {
  /** Version of kube-proxy; undefined: none was given. */
  readonly kubeProxy?: string;
  /** The API server: `made up`, or the versions of the real ones. */
  readonly server: string;
  readonly measured: readonly RivalMeasured[];
  /** What could not be measured, and why. */
  readonly missing: readonly string[];
}

const MEGABYTE = 2 ** 20;
/** Milliseconds after a sync until memory is looked at. */
const SETTLE = 5000;
/** Milliseconds after a first sync in which health is still asked for. */
const AFTER = 3000;
/** Milliseconds between two single changes: more than minSyncPeriod, so that each is written at once. */
const BETWEEN = 1200;
/** Milliseconds. */
const PATIENCE = 300_000;
const REAPED = 500;
const FLOORS = 3;
const PER_SECOND = 100;
/** Seconds of a first round, that what is measured is not the compiler's. */
const WARM = 5;

const plan = (proxy: ProxyName, mode: RivalMode, services: number, endpoints: number): RivalPlan => ({
  ...{ shape: { services, endpoints }, mode, proxy },
  ...{ runs: 3, rest: 0, changes: 0, churn: 0, restarts: 1, hasFloor: false },
});
const SMALL = { runs: 5 };
const MIDDLE = { runs: 5, changes: 10, churn: 10 };
const LARGE = { rest: 20, changes: 10, churn: 15, restarts: 3 };
/** In this order: what is compared follows each other. */
export const RIVAL_PLANS: readonly RivalPlan[] = [
  { ...plan('slicewire', 'nftables', 1, 1), ...SMALL },
  { ...plan('kube-proxy', 'nftables', 1, 1), ...SMALL },
  { ...plan('slicewire', 'iptables', 1, 1), ...SMALL },
  { ...plan('kube-proxy', 'iptables', 1, 1), ...SMALL },
  { ...plan('slicewire', 'nftables', 1000, 5), ...MIDDLE },
  { ...plan('kube-proxy', 'nftables', 1000, 5), ...MIDDLE },
  { ...plan('slicewire', 'iptables', 1000, 5), ...MIDDLE },
  { ...plan('kube-proxy', 'iptables', 1000, 5), ...MIDDLE },
  { ...plan('slicewire', 'nftables', 10_000, 5), ...LARGE, hasFloor: true },
  // A minute for each start, and seconds for each change.
  { ...plan('kube-proxy', 'nftables', 10_000, 5), ...LARGE, runs: 1, changes: 3, restarts: 0 },
  { ...plan('slicewire', 'iptables', 10_000, 5), ...LARGE, restarts: 1 },
  { ...plan('slicewire', 'nftables', 44_000, 1), hasFloor: true },
  { ...plan('slicewire', 'nftables', 5000, 50), runs: 1, restarts: 3 },
];
/** What is never run here. */
const TOO_LONG = [
  'kube-proxy, iptables, 10,000 × 5: one `iptables-restore` of its layout was stopped after 450 s',
  'kube-proxy, 44,000 × 1: its first sync in nftables mode takes 16 minutes (k8s#139513)',
];

export interface RivalsOptions {
  /** Path of the binary; undefined: slicewire alone. */
  readonly kubeProxy: string | undefined;
  readonly plans?: readonly RivalPlan[];
}

export async function measureRivals({ kubeProxy, plans = RIVAL_PLANS }: RivalsOptions): Promise<RivalsResult> {
  const missing = [...(kubeProxy === undefined ? ['kube-proxy: no binary was given (`--kube-proxy PATH`)'] : TOO_LONG)];
  const version = kubeProxy === undefined ? undefined : await kubeProxyVersion(kubeProxy);
  const measured: RivalMeasured[] = [];
  for (const one of plans.filter(({ proxy }) => proxy === 'slicewire' || kubeProxy !== undefined)) {
    process.stdout.write(`  ${one.proxy} ${one.mode} ${one.shape.services} × ${one.shape.endpoints}\n`);
    try {
      measured.push(await measureOne(one, kubeProxy ?? ''));
    } catch (error) {
      // A rival that fails is no reason to lose what was measured of the others; ours must not fail.
      if (one.proxy === 'slicewire') throw error;
      missing.push(`${one.proxy}, ${one.mode}, ${one.shape.services} × ${one.shape.endpoints}: ${firstLine(error)}`);
      process.stdout.write(`  ${String(error)}\n`);
    }
  }
  return { ...(version === undefined ? {} : { kubeProxy: version }), server: await serverVersion(), measured, missing };
}

const firstLine = (error: unknown) => String(error).split('\n')[0] ?? '';

async function measureOne(one: RivalPlan, kubeProxy: string): Promise<RivalMeasured> {
  const { shape, mode, proxy } = one;
  const starts = await Trial.of({ shape, mode }, async (trial) => await new Measurement(trial, one, kubeProxy).all());
  if (shape.services !== 1 || mode !== 'nftables') return { shape, mode, proxy, ...starts };
  // The bytes of a slice depend on the proxy alone: they are measured once, in a cluster of one full slice.
  const full = { services: FIRST + 1, endpoints: 100 };
  const received = await Trial.of({ shape: full, mode }, async (trial) => {
    await trial.empty('node');
    const running = await new Measurement(trial, one, kubeProxy).start();
    return await receivedBytes(trial, running.pid).finally(() => running.stop());
  });
  return { shape, mode, proxy, ...starts, received };
}

/** Either proxy, running. */
interface Running {
  readonly pid: number;
  readonly milliseconds: number;
  syncs(): Promise<number>;
  stop(): Promise<void>;
}

class Measurement {
  readonly #trial: Trial;
  readonly #plan: RivalPlan;
  readonly #kubeProxy: string;

  constructor(trial: Trial, one: RivalPlan, kubeProxy: string) {
    this.#trial = trial;
    this.#plan = one;
    this.#kubeProxy = kubeProxy;
  }

  async start(meanwhile: (pid: number) => void = () => undefined): Promise<Running> {
    const { mode, proxy } = this.#plan;
    if (proxy === 'kube-proxy') {
      const { lab, server } = this.#trial;
      const options = { lab, file: this.#kubeProxy, kubeconfig: server.kubeconfig, mode };
      const started = await KubeProxy.start(options, { within: PATIENCE, meanwhile });
      this.#trial.stopAtEnd(started);
      const { pid, milliseconds } = started;
      return { pid, milliseconds, syncs: async () => (await started.syncs()).count, stop: () => started.stop() };
    }
    const { agent, pid, milliseconds } = await this.#trial.start({ flags: this.#flags, meanwhile });
    const syncs = async () => await Promise.resolve(agent.log.filter(({ msg }) => msg.startsWith('synced')).length);
    return { pid, milliseconds, syncs, stop: () => agent.stop() };
  }

  async all(): Promise<Omit<RivalMeasured, 'shape' | 'mode' | 'proxy'>> {
    const { runs, rest, changes, churn, restarts, hasFloor, proxy } = this.#plan;
    const cold: number[] = [];
    const processor: number[] = [];
    const peak: number[] = [];
    let running: Running | undefined;
    for (let i = 0; i < runs; i++) {
      await running?.stop();
      await this.#trial.empty('node');
      let sampler: MemorySampler | undefined;
      running = await this.start((pid) => {
        sampler = new MemorySampler(pid, 10);
      });
      processor.push(costOf(running.pid));
      cold.push(running.milliseconds);
      if (sampler !== undefined) peak.push((await sampler.stop()).peak / MEGABYTE);
    }
    if (running === undefined) throw new Error('nothing was started');
    await pause(SETTLE);
    const { now, anonymous } = residentMemory(running.pid);
    const idle = rest > 0 ? await this.#idle(running, rest) : undefined;
    const change = changes > 0 ? await this.#changes(changes) : undefined;
    const flow = churn > 0 ? await this.#churn(running, churn) : undefined;
    await running.stop();
    const floor = hasFloor ? await this.#floor() : undefined;
    const restart = restarts > 0 ? await this.#restarts(restarts) : undefined;
    const holds = proxy === 'slicewire' ? await this.#holds() : undefined;
    return {
      ...{ cold, processor, peak, resident: now / MEGABYTE, anonymous: anonymous / MEGABYTE },
      ...known({ idle, change, churn: flow, floor, restart, holds }),
    };
  }

  async #idle({ pid }: Running, seconds: number): Promise<number> {
    const before = costOf(pid);
    await pause(seconds * 1000);
    return (costOf(pid) - before) / (seconds * 1000);
  }

  async #floor(): Promise<number[]> {
    const text = await tableText(this.#trial);
    const took: number[] = [];
    for (let i = 0; i < FLOORS; i++) {
      await this.#trial.empty('other');
      took.push(await this.#trial.nft(text));
    }
    return took;
  }

  async #restarts(times: number): Promise<number[]> {
    const took: number[] = [];
    for (let i = 0; i < times; i++) {
      const running = await this.start();
      await running.stop();
      took.push(running.milliseconds);
    }
    return took;
  }

  /** In a start of its own: asking costs the agent time. */
  async #holds(): Promise<Holds> {
    await this.#trial.empty('node');
    const watch = await HealthWatch.start(this.#trial.lab);
    const { agent } = await this.#trial.start({ flags: this.#flags });
    await pause(AFTER);
    const { waits } = await watch.end();
    const holds = holdsOf(waits, {
      lists: timeOf(agent, 'initial lists are complete'),
      synced: timeOf(agent, 'synced'),
    });
    await agent.stop();
    return holds;
  }

  /** Of slicewire. */
  get #flags(): readonly string[] {
    return [`--${this.#plan.mode}-min-sync-period`, '1s'];
  }

  async #changes(times: number): Promise<number[]> {
    const { shape, server, lab } = this.#trial;
    const probe = await KernelProbe.start({ lab, by: 'nft' });
    const took: number[] = [];
    // The first two compile slicewire's code; kube-proxy's is compiled.
    const warm = this.#plan.proxy === 'slicewire' ? 2 : 0;
    try {
      for (let i = -warm; i < times; i++) {
        await pause(BETWEEN);
        const n = FIRST + (((i + warm) * 37) % (shape.services - FIRST));
        const turn = i + warm + 1;
        const address = lastAddress(shape, n, { turn });
        await probe.expect([{ address, server: { protocol: 'TCP', address: clusterIP(n), port: 80 } }]);
        const { at } = await server.put(n, turn);
        const seen = (await probe.seen(PATIENCE)).get(address) ?? Number.NaN;
        if (i >= 0) took.push((seen - at) / 1e6);
      }
    } finally {
      await probe.stop();
    }
    return took;
  }

  async #churn(running: Running, seconds: number): Promise<ChurnMeasured> {
    const { shape, server, lab } = this.#trial;
    // After all turns of the single changes.
    const turn = 200;
    const probe = await KernelProbe.start({ lab, by: 'nft' });
    try {
      await server.churn({ perSecond: PER_SECOND, seconds: WARM, turn });
      const from = turn + Math.ceil((PER_SECOND * WARM) / (shape.services - FIRST));
      const steps = Array.from({ length: PER_SECOND * seconds }, (_, i) => churnStep(shape, i, from));
      const last = new Map(steps.map(({ n, turn: at }) => [n, at]));
      // Where a Service has its turn again before the last one was written, only that one is sure to be in the kernel.
      const awaited = [...last].map(([n, at]) => ({ address: lastAddress(shape, n, { turn: at }) }));
      await probe.expect(awaited);
      const synced = await running.syncs();
      const before = costOf(running.pid);
      const changes = await server.churn({ perSecond: PER_SECOND, seconds, turn: from });
      const seen = await probe.seen(PATIENCE);
      // A child's time counts once it has ended.
      await pause(REAPED);
      const processor = (costOf(running.pid) - before) / (seconds * 1000);
      const delays = changes.flatMap(({ address, at }) => {
        const there = seen.get(address);
        return there === undefined ? [] : [(there - at) / 1e6];
      });
      return {
        ...{ perSecond: PER_SECOND, seconds, processor, delays: summary(delays) },
        syncs: (await running.syncs()) - synced,
      };
    } finally {
      await probe.stop();
    }
  }
}

/** `at`: when the lists were complete and when the first sync was, in milliseconds since 1970. A wait belongs where it began. */
export function holdsOf(waits: readonly Wait[], at: { readonly lists: number; readonly synced: number }): Holds {
  const within = (from: number, to: number) =>
    most([0, ...waits.filter((wait) => wait.from >= from && wait.from < to).map(({ milliseconds }) => milliseconds)]);
  return {
    lists: within(0, at.lists),
    sync: within(at.lists, at.synced),
    after: within(at.synced, Number.POSITIVE_INFINITY),
  };
}

/** Without what is undefined. */
function known<T extends object>(values: { [Key in keyof T]: T[Key] | undefined }): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** Milliseconds of processor time, with children that have ended. */
function costOf(pid: number): number {
  const { user, system } = processorTime(pid);
  return user + system;
}
