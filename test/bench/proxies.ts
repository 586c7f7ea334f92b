/**
 * slicewire and the real kube-proxy, one after the other in the same namespace with the same API server: cold starts, memory, rest,
 * single changes, changes without end, restart, each beside the bare tool. Without a kube-proxy, slicewire alone is measured, and the
 * result says so.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { sameData } from '../../src/base/equal.ts';
import { type ClusterShape, churnStep, clusterIP, endpointsOf, FIRST, lastAddress } from './cluster.ts';
import { HealthWatch, type Wait } from './health-watch.ts';
import { KernelProbe } from './kernel-probe.ts';
import type { Awaited } from './kernel-probe-protocol.ts';
import { KubeProxy, kubeProxyVersion } from './kube-proxy.ts';
import { LockWatch } from './lock-watch.ts';
import { MemorySampler, processorTime, residentMemory } from './process-cost.ts';
import { receivedBytes } from './received.ts';
import { tableText } from './table-text.ts';
import { most, type Summary, size, summary } from './text.ts';
import { type BenchMode, Trial, timeOf } from './trial.ts';

/** The modes of the page: IPVS mode, which few kernels have, has a page of its own. */
export type ProxyMode = Exclude<BenchMode, 'ipvs'>;
export type ProxyName = 'slicewire' | 'kube-proxy';

/** What is measured of one proxy in one cluster. */
export interface ProxyPlan {
  readonly shape: ClusterShape;
  readonly mode: BenchMode;
  readonly proxy: ProxyName;
  /** Cold starts. */
  readonly runs: number;
  /** Seconds at rest that are watched; 0: none. */
  readonly rest: number;
  /** Single changes; 0: none. */
  readonly changes: number;
  /** Seconds of changes without end; 0: none. They are repeated with these minSyncPeriods, as Go writes a duration. */
  readonly churn: number;
  readonly periods: readonly string[];
  /** How often it is started over what is there. */
  readonly restarts: number;
  /** Whether one more cold start is watched from outside (`Watched`). */
  readonly isWatched: boolean;
}

export interface ProxyMeasured extends Pick<ProxyPlan, 'shape' | 'mode' | 'proxy'> {
  /** Milliseconds from exec to the end of the first sync, of each run. */
  readonly cold: readonly number[];
  /** Milliseconds of processor time until then, with children. */
  readonly processor: readonly number[];
  /** Of slicewire: milliseconds of the bare tool for the same state, in an empty namespace. */
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
  /** Of slicewire: milliseconds of the bare tool for as much, in the same table. */
  readonly changeFloor?: readonly number[];
  readonly churn?: readonly ChurnMeasured[];
  /** Milliseconds of each start over what is there. */
  readonly restart?: readonly number[];
  readonly watched?: Watched;
  /** TLS included: bytes that the proxy received for each changed slice of 100 endpoints. */
  readonly received?: number;
}

/** Milliseconds, of one cold start that was watched from outside, and of changes after it. */
export interface Watched {
  /** slicewire: the longest wait for an answer of `/livez`, by phase. */
  readonly holds?: Holds;
  /** nftables mode: the longest wait of another program for the kernel's lock: without a proxy, in the cold start, under changes. */
  readonly lock?: { readonly idle: number; readonly cold: number; readonly steady: number };
}

export interface Holds {
  /** From exec until all lists were there; from then until the first sync was complete; in the seconds after it. */
  readonly lists: number;
  readonly sync: number;
  readonly after: number;
}

export interface ChurnMeasured {
  /** minSyncPeriod, as Go writes a duration. */
  readonly period: string;
  readonly perSecond: number;
  readonly seconds: number;
  /** With children, until the last change was in the kernel; as a share of the seconds in which changes came. */
  readonly processor: number;
  readonly delays: Summary;
  readonly syncs: number;
  /** Megabytes resident, before and after. */
  readonly before: number;
  readonly after: number;
}

export interface ProxiesResult {
  /** Version of kube-proxy; undefined: none was given. */
  readonly kubeProxy?: string;
  readonly measured: readonly ProxyMeasured[];
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
/** The minSyncPeriod of all that is measured but churn: kube-proxy's default. */
const PERIOD = '1s';
/** A chain that the bare tool writes. */
const FLOOR_CHAIN = 'KUBE-BENCH';

const plan = (proxy: ProxyName, mode: BenchMode, services: number, endpoints: number): ProxyPlan => ({
  ...{ shape: { services, endpoints }, mode, proxy },
  ...{ runs: 3, rest: 0, changes: 10, churn: 0, periods: [], restarts: 1, isWatched: false },
});
const SMALL = { runs: 5 };
const MIDDLE = { runs: 5, churn: 10 };
const LARGE = { rest: 20, changes: 20, churn: 15, restarts: 3, isWatched: true };
const HUGE = { runs: 1, isWatched: true };
/** In this order: what is compared follows each other. */
export const PROXY_PLANS: readonly ProxyPlan[] = [
  { ...plan('slicewire', 'nftables', 1, 1), ...SMALL, changes: 0, rest: 20 },
  { ...plan('kube-proxy', 'nftables', 1, 1), ...SMALL, changes: 0, rest: 20 },
  { ...plan('slicewire', 'iptables', 1, 1), ...SMALL, changes: 0 },
  { ...plan('kube-proxy', 'iptables', 1, 1), ...SMALL, changes: 0 },
  { ...plan('slicewire', 'nftables', 100, 5), ...SMALL },
  { ...plan('kube-proxy', 'nftables', 100, 5), ...SMALL },
  { ...plan('slicewire', 'iptables', 100, 5), ...SMALL },
  { ...plan('kube-proxy', 'iptables', 100, 5), ...SMALL },
  { ...plan('slicewire', 'nftables', 1000, 5), ...MIDDLE },
  { ...plan('kube-proxy', 'nftables', 1000, 5), ...MIDDLE },
  { ...plan('slicewire', 'iptables', 1000, 5), ...MIDDLE },
  { ...plan('kube-proxy', 'iptables', 1000, 5), ...MIDDLE },
  { ...plan('slicewire', 'nftables', 10_000, 5), ...LARGE, periods: ['100ms', '0s'] },
  // A minute for each start, and seconds for each change.
  {
    ...plan('kube-proxy', 'nftables', 10_000, 5),
    ...{ ...LARGE, runs: 1, changes: 3, restarts: 0, periods: ['100ms'] },
  },
  { ...plan('slicewire', 'iptables', 10_000, 5), ...LARGE, restarts: 1 },
  { ...plan('slicewire', 'nftables', 5000, 50), ...HUGE, restarts: 3 },
  { ...plan('slicewire', 'nftables', 5200, 50), ...HUGE },
];
/**
 * The most Services, and one cluster of the page beside the same API server: the made-up one. A real one goes through all addresses that are
 * taken for each new Service (`Allocator.Used` in pkg/registry/core/service/ipallocator): 37 minutes for 44,000, and hours for 100,000.
 */
export const LARGEST_PLANS: readonly ProxyPlan[] = [
  { ...plan('slicewire', 'nftables', 10_000, 5), isWatched: true },
  { ...plan('slicewire', 'nftables', 44_000, 1), isWatched: true },
  { ...plan('slicewire', 'iptables', 44_000, 1), runs: 1 },
  { ...plan('slicewire', 'nftables', 100_000, 1), isWatched: true },
];
/** What is never run here. */
const TOO_LONG = [
  'kube-proxy, iptables, 10,000 × 5: one `iptables-restore` of its layout was stopped after 450 s',
  'kube-proxy, 44,000 × 1: its first sync in nftables mode takes 16 minutes (k8s#139513)',
  'slicewire, 44,000 × 1 and 100,000 × 1: the part `largest` has them, beside the made-up API server',
];

export interface ProxiesOptions {
  /** Path of the binary; undefined: slicewire alone. */
  readonly kubeProxy: string | undefined;
  readonly plans?: readonly ProxyPlan[];
  /** Reasons why others were not planned. */
  readonly tooLong?: readonly string[];
}

export async function measureProxies({
  kubeProxy,
  plans = PROXY_PLANS,
  tooLong = TOO_LONG,
}: ProxiesOptions): Promise<ProxiesResult> {
  const missing = [...(kubeProxy === undefined ? ['kube-proxy: no binary was given (`--kube-proxy PATH`)'] : tooLong)];
  const version = kubeProxy === undefined ? undefined : await kubeProxyVersion(kubeProxy);
  const measured: ProxyMeasured[] = [];
  const wanted = plans.filter(({ proxy }) => proxy === 'slicewire' || kubeProxy !== undefined);
  // What fails is told, and is no reason to lose the figures of an hour; ours must not fail.
  const failed = ({ proxy, mode, shape }: ProxyPlan, error: unknown) => {
    missing.push(`${proxy}, ${mode}, ${size(shape)}: ${firstLine(error)}`);
    process.stdout.write(`  ${String(error)}\n`);
    if (proxy === 'slicewire') process.exitCode = 1;
  };
  for (const ofShape of inARow(wanted)) {
    const [first] = ofShape;
    const { shape } = first;
    const left = new Set(ofShape);
    const measureAll = async (trial: Trial) => {
      let current = trial;
      for (const one of ofShape) {
        process.stdout.write(`  ${one.proxy} ${one.mode} ${size(shape)}\n`);
        left.delete(one);
        try {
          current = await current.in(one.mode);
          measured.push(await measureOne(current, one, kubeProxy ?? ''));
        } catch (error) {
          failed(one, error);
        }
      }
    };
    // A real API server takes minutes for its objects: all plans of a shape have the same.
    await Trial.of({ shape, mode: first.mode }, measureAll).catch((error: unknown) => {
      if (left.size === 0) process.stdout.write(`  ${String(error)}\n`);
      for (const one of left) failed(one, error);
    });
  }
  return { ...(version === undefined ? {} : { kubeProxy: version }), measured, missing };
}

const firstLine = (error: unknown) => String(error).split('\n')[0] ?? '';

/** Plans of the same shape that follow each other. */
function inARow(plans: readonly ProxyPlan[]): [ProxyPlan, ...ProxyPlan[]][] {
  const rows: [ProxyPlan, ...ProxyPlan[]][] = [];
  for (const one of plans) {
    const row = rows.at(-1);
    if (row !== undefined && sameData(row[0].shape, one.shape)) row.push(one);
    else rows.push([one]);
  }
  return rows;
}

async function measureOne(trial: Trial, one: ProxyPlan, kubeProxy: string): Promise<ProxyMeasured> {
  const { shape, mode, proxy } = one;
  const starts = await new Measurement(trial, one, kubeProxy).all();
  if (shape.services !== 1 || mode !== 'nftables') return { shape, mode, proxy, ...starts };
  // The bytes of a slice depend on the proxy alone: they are measured once, in a cluster of one full slice.
  const full = { services: FIRST + 1, endpoints: 100 };
  const received = await Trial.of({ shape: full, mode }, async (other) => {
    await other.empty('node');
    const running = await new Measurement(other, one, kubeProxy).start();
    return await receivedBytes(other, running.pid).finally(() => running.stop());
  });
  return { shape, mode, proxy, ...starts, received };
}

/** Either proxy, running. */
interface Running {
  readonly pid: number;
  readonly milliseconds: number;
  /** slicewire: when its lists were complete, in milliseconds since 1970. */
  readonly listed: number | undefined;
  syncs(): Promise<number>;
  stop(): Promise<void>;
}

class Measurement {
  readonly #trial: Trial;
  readonly #plan: ProxyPlan;
  readonly #kubeProxy: string;

  constructor(trial: Trial, one: ProxyPlan, kubeProxy: string) {
    this.#trial = trial;
    this.#plan = one;
    this.#kubeProxy = kubeProxy;
  }

  async start(period = PERIOD, meanwhile: (pid: number) => void = () => undefined): Promise<Running> {
    const { mode, proxy } = this.#plan;
    if (proxy === 'kube-proxy') {
      const { lab, server } = this.#trial;
      const options = { lab, file: this.#kubeProxy, kubeconfig: server.kubeconfig, mode, minSyncPeriod: period };
      const started = await KubeProxy.start(options, { within: PATIENCE, meanwhile });
      this.#trial.stopAtEnd(started);
      const { pid, milliseconds } = started;
      const syncs = async () => (await started.syncs()).count;
      return { pid, milliseconds, listed: undefined, syncs, stop: () => started.stop() };
    }
    const flags = [`--${mode}-min-sync-period`, period];
    const { agent, pid, milliseconds } = await this.#trial.start({ flags, meanwhile });
    const syncs = async () => await Promise.resolve(agent.log.filter(({ msg }) => msg.startsWith('synced')).length);
    const listed = timeOf(agent, 'initial lists are complete');
    return { pid, milliseconds, listed, syncs, stop: () => agent.stop() };
  }

  async all(): Promise<Omit<ProxyMeasured, 'shape' | 'mode' | 'proxy'>> {
    const { runs, rest, changes, churn, periods, restarts, isWatched, proxy, mode } = this.#plan;
    const isOurs = proxy === 'slicewire';
    const cold: number[] = [];
    const processor: number[] = [];
    const peak: number[] = [];
    let running: Running | undefined;
    for (let i = 0; i < runs; i++) {
      await running?.stop();
      await this.#trial.empty('node');
      let sampler: MemorySampler | undefined;
      try {
        running = await this.start(PERIOD, (pid) => {
          sampler = new MemorySampler(pid, 10);
        });
        processor.push(costOf(running.pid));
      } finally {
        const sampled = await sampler?.stop();
        if (sampled !== undefined) peak.push(sampled.peak / MEGABYTE);
      }
      cold.push(running.milliseconds);
    }
    if (running === undefined) throw new Error('nothing was started');
    await pause(SETTLE);
    const { now, anonymous } = residentMemory(running.pid);
    const idle = rest > 0 ? await this.#idle(running, rest) : undefined;
    const change = changes > 0 ? await this.#changes(changes) : undefined;
    const flows = churn > 0 ? [await this.#churn(running, { period: PERIOD, seconds: churn })] : undefined;
    await running.stop();
    // IPVS mode has its floors beside its parts (ipvs-inside.ts).
    const isFloored = isOurs && mode !== 'ipvs';
    const floor = isFloored ? await this.#floor() : undefined;
    const restart = restarts > 0 ? await this.#restarts(restarts) : undefined;
    for (const period of periods) {
      const again = await this.start(period);
      flows?.push(await this.#churn(again, { period, seconds: churn }));
      await again.stop();
    }
    // No agent looks at it.
    const changeFloor = changes > 0 && isFloored ? await this.#changeFloor(changes) : undefined;
    const watched = isWatched ? await this.#watched() : undefined;
    return {
      ...{ cold, processor, peak, resident: now / MEGABYTE, anonymous: anonymous / MEGABYTE },
      ...known({ idle, change, changeFloor, churn: flows, floor, restart, watched }),
    };
  }

  async #idle({ pid }: Running, seconds: number): Promise<number> {
    const before = costOf(pid);
    await pause(seconds * 1000);
    return (costOf(pid) - before) / (seconds * 1000);
  }

  /** The bare tool writes the state that the node has into an empty namespace. */
  async #floor(): Promise<number[]> {
    const isNft = this.#plan.mode === 'nftables';
    const text = isNft ? await tableText(this.#trial) : await this.#trial.saved();
    const took: number[] = [];
    for (let i = 0; i < FLOORS; i++) {
      if (isNft) await this.#trial.empty('other');
      took.push(await (isNft ? this.#trial.nft(text) : this.#trial.restore(text)));
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

  /** In a start of its own: asking costs the proxy time. */
  async #watched(): Promise<Watched> {
    const { lab } = this.#trial;
    await this.#trial.empty('node');
    const health = this.#plan.proxy === 'slicewire' ? await HealthWatch.start(lab) : undefined;
    if (health !== undefined) this.#trial.stopAtEnd(health);
    const lock = this.#plan.mode === 'nftables' ? await LockWatch.start(lab) : undefined;
    if (lock !== undefined) this.#trial.stopAtEnd(lock);
    await pause(AFTER);
    const idle = await lock?.longest();
    const since = Date.now();
    const running = await this.start();
    const synced = since + running.milliseconds;
    const cold = await lock?.longest();
    await pause(AFTER);
    const answer = await health?.end();
    await health?.stop();
    await lock?.longest();
    if (lock !== undefined) await this.#churn(running, { period: PERIOD, seconds: WARM });
    const steady = await lock?.longest();
    await lock?.stop();
    await running.stop();
    const holds = answer && holdsOf(answer.waits, { lists: running.listed ?? synced, synced });
    const waits = idle === undefined || cold === undefined || steady === undefined ? undefined : { idle, cold, steady };
    return known({ holds, lock: waits });
  }

  async #probe(): Promise<KernelProbe> {
    return await KernelProbe.start({ lab: this.#trial.lab, by: this.#plan.mode === 'ipvs' ? 'ipvs' : 'nft' });
  }

  /** The endpoint that a change of a Service brings. */
  #awaited(n: number, turn: number): Awaited {
    const address = lastAddress(this.#trial.shape, n, { turn });
    return this.#plan.mode === 'ipvs'
      ? { address, server: { protocol: 'TCP', address: clusterIP(n), port: 80 } }
      : { address };
  }

  async #changes(times: number): Promise<number[]> {
    const { shape, server } = this.#trial;
    const probe = await this.#probe();
    const took: number[] = [];
    // The first two compile slicewire's code; kube-proxy's is compiled.
    const warm = this.#plan.proxy === 'slicewire' ? 2 : 0;
    try {
      for (let i = -warm; i < times; i++) {
        await pause(BETWEEN);
        const n = FIRST + (((i + warm) * 37) % (shape.services - FIRST));
        const turn = this.#trial.turnsOf(1);
        const address = lastAddress(shape, n, { turn });
        await probe.expect([this.#awaited(n, turn)]);
        const { at } = await server.put(n, turn);
        const seen = (await probe.seen(PATIENCE)).get(address) ?? Number.NaN;
        if (i >= 0) took.push((seen - at) / 1e6);
      }
    } finally {
      await probe.stop();
    }
    return took;
  }

  /** nftables mode: one element; iptables mode: one chain of as many endpoints, to which nothing refers. */
  async #changeFloor(times: number): Promise<number[]> {
    const { shape } = this.#trial;
    const took: number[] = [];
    for (let i = 0; i < times; i++) {
      took.push(
        await (this.#plan.mode === 'nftables'
          ? this.#trial.nft(oneElement(i), 'node')
          : this.#trial.restore(oneChain(shape), { namespace: 'node', isEmptied: false })),
      );
    }
    return took;
  }

  async #churn(
    running: Running,
    { period, seconds }: Pick<ChurnMeasured, 'period' | 'seconds'>,
  ): Promise<ChurnMeasured> {
    const { shape, server } = this.#trial;
    const probe = await this.#probe();
    try {
      await server.churn({ perSecond: PER_SECOND, seconds: WARM, turn: this.#trial.turnsOf(PER_SECOND * WARM) });
      const from = this.#trial.turnsOf(PER_SECOND * seconds);
      const steps = Array.from({ length: PER_SECOND * seconds }, (_, i) => churnStep(shape, i, from));
      const last = new Map(steps.map(({ n, turn }) => [n, turn]));
      // Where a Service has its turn again before the last one was written, only that one is sure to be in the kernel.
      await probe.expect([...last].map(([n, turn]) => this.#awaited(n, turn)));
      const synced = await running.syncs();
      const [cost, memory] = [costOf(running.pid), residentMemory(running.pid).now];
      const changes = await server.churn({ perSecond: PER_SECOND, seconds, turn: from });
      const seen = await probe.seen(PATIENCE);
      // A child's time counts once it has ended.
      await pause(REAPED);
      const processor = (costOf(running.pid) - cost) / (seconds * 1000);
      const delays = changes.flatMap(({ address, at }) => {
        const there = seen.get(address);
        return there === undefined ? [] : [(there - at) / 1e6];
      });
      return {
        ...{ period, perSecond: PER_SECOND, seconds, processor, delays: summary(delays) },
        syncs: (await running.syncs()) - synced,
        ...{ before: memory / MEGABYTE, after: residentMemory(running.pid).now / MEGABYTE },
      };
    } finally {
      await probe.stop();
    }
  }
}

/** Of a frontend that nobody has. */
function oneElement(i: number): string {
  return `add element ip slicewire backends { 10.255.255.255 . tcp . 80 . ${i} : 10.255.0.1 . 8080 }\n`;
}

/** A chain of its own, which nothing refers to. */
function oneChain(shape: ClusterShape): string {
  const rules = endpointsOf(shape, shape.services - 1).map(
    ({ addresses }) => `-A ${FLOOR_CHAIN} -p tcp -j DNAT --to-destination ${addresses[0]}:8080`,
  );
  return ['*nat', `:${FLOOR_CHAIN} - [0:0]`, ...rules, 'COMMIT', ''].join('\n');
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
