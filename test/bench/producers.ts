/**
 * `slicewire controller` beside a cluster of Pods: how long it takes to write all slices and Endpoints, and what one changed
 * Pod costs, event to write, at two sizes. The API server is in this process; the controller is the executable.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { FIRST, nodeObject, podOf, serviceOf } from './cluster.ts';
import { processorTime, residentMemory } from './process-cost.ts';
import { type Aim, median, ms, quantile, ratio, size, table } from './text.ts';
import { EXECUTABLE } from './trial.ts';

export interface ProducersOptions {
  readonly services: number;
  /** Pods of each Service. */
  readonly pods: number;
  /** Single changes, one after another. */
  readonly changes: number;
  /** Services of which then all Pods are replaced, one after another. */
  readonly rolled: number;
}

export interface ProducersResult extends ProducersOptions {
  /** Milliseconds from exec until all slices and Endpoints are written. */
  readonly cold: number;
  /** Megabytes resident then. */
  readonly resident: number;
  /** Milliseconds from the event of a Pod to the write of its slice, of each change. */
  readonly change: readonly number[];
  /** The same of a program that writes a slice at each event, and looks at nothing. */
  readonly floor: readonly number[];
  /** Milliseconds of processor time for each Pod that was replaced. */
  readonly processor: number;
  /** Writes of slices for each Pod that was replaced. */
  readonly writes: number;
}

const FLOOR = fileURLToPath(new URL('./producers-floor.ts', import.meta.url));
/** Milliseconds. */
const PATIENCE = 300_000;
const BETWEEN = 20;
/** Milliseconds without a write after which nothing more comes. */
const QUIET = 1000;

export async function measureProducers(options: ProducersOptions): Promise<ProducersResult> {
  const { services, pods, changes, rolled } = options;
  const shape = { services, endpoints: pods };
  const server = await ApiServer.start();
  const running: Child[] = [];
  const start = async (...command: readonly [file: string, ...args: string[]]) => {
    const [file, ...args] = command;
    const child = startChild({ file, args });
    running.push(child);
    return child;
  };
  try {
    const cluster = new PodCluster(server, shape);
    const since = performance.now();
    const kubeconfig = `--kubeconfig=${await server.kubeconfig()}`;
    const controller = await start(
      EXECUTABLE,
      'controller',
      kubeconfig,
      '--bind-address=127.0.0.1:10261',
      '--leader-elect=false',
    );
    // The first two Services have no Pods here.
    await cluster.written(2 * services);
    const cold = performance.now() - since;
    await cluster.quiet();
    const resident = residentMemory(controller.pid ?? 0).now / 2 ** 20;
    const change: number[] = [];
    for (let i = 0; i < changes; i++) {
      change.push(await cluster.replace(FIRST + ((i * 37) % (services - FIRST)), i % pods));
      await pause(BETWEEN);
    }
    await cluster.quiet();
    const { processor, writes } = await cluster.roll(controller.pid ?? 0, rolled);
    await controller.stop();
    await start(process.execPath, FLOOR, server.url);
    await cluster.watched();
    const floor: number[] = [];
    for (let i = 0; i < changes; i++) {
      floor.push(await cluster.replace(FIRST + ((i * 41) % (services - FIRST)), i % pods));
      await pause(BETWEEN);
    }
    return { ...options, cold, resident, change, floor, processor, writes };
  } finally {
    for (const child of running) await child.stop();
    await server.stop();
  }
}

/** Services and their Pods, each of which may be replaced again and again. */
class PodCluster {
  readonly #server: ApiServer;
  readonly #shape: { readonly services: number; readonly endpoints: number };
  /** How often each Pod was replaced. */
  readonly #turns = new Map<string, number>();
  #turn = 0;

  constructor(server: ApiServer, shape: { readonly services: number; readonly endpoints: number }) {
    this.#server = server;
    this.#shape = shape;
    server.put(nodeObject());
    for (let n = 0; n < shape.services; n++) {
      server.put(serviceOf(shape, n));
      if (n >= FIRST) for (let i = 0; i < shape.endpoints; i++) server.put(podOf(shape, n, i, 0));
    }
    server.compact();
  }

  #writes(): number {
    return this.#server.requests({ kind: 'write' }).length;
  }

  /** Until so many writes were asked for. */
  async written(count: number): Promise<void> {
    const late = performance.now() + PATIENCE;
    while (this.#writes() < count) {
      if (performance.now() > late) throw new Error(`only ${this.#writes()} of ${count} writes came`);
      await pause(5);
    }
  }

  /** Until no write came for a while. */
  async quiet(): Promise<void> {
    for (let before = -1; before !== this.#writes(); ) {
      before = this.#writes();
      await pause(QUIET);
    }
  }

  async watched(): Promise<void> {
    while (this.#server.watches === 0) await pause(5);
    await pause(QUIET);
  }

  /** Another Pod in place of one, under its name; milliseconds until the next write of a slice arrives. */
  async replace(n: number, i: number): Promise<number> {
    const arrived = new Promise<number>((resolve) => this.#server.onSliceWrite(() => resolve(performance.now())));
    let sent = 0;
    this.#put(n, i, () => {
      sent = performance.now();
    });
    return (await arrived) - sent;
  }

  #put(n: number, i: number, beforeTelling?: () => void): void {
    const turn = (this.#turns.get(`${n} ${i}`) ?? 0) + 1;
    this.#turns.set(`${n} ${i}`, turn);
    this.#turn += 1;
    this.#server.put(podOf(this.#shape, n, i, this.#turn), beforeTelling);
  }

  /** All Pods of so many Services, 10 Pods at a time; what it cost for each Pod. */
  async roll(pid: number, services: number): Promise<{ processor: number; writes: number }> {
    const time = () => {
      const { user, system } = processorTime(pid);
      return user + system;
    };
    const slices = () =>
      this.#server.requests({ kind: 'write' }).filter(({ path }) => path.includes('endpointslices')).length;
    const [before, written] = [time(), slices()];
    const { endpoints } = this.#shape;
    for (let n = FIRST; n < FIRST + services; n++) {
      for (let i = 0; i < endpoints; i++) this.#put(n, i);
      if (n % 2 === 0) await pause(5);
    }
    await this.quiet();
    const pods = services * endpoints;
    return { processor: (time() - before) / pods, writes: (slices() - written) / pods };
  }
}

/** The cost of one changed Pod, beside the same in the smallest cluster. */
export function producersAims([small, ...larger]: readonly ProducersResult[]): Aim[] {
  return larger.map((result) => {
    const times = result.processor / (small?.processor ?? Number.NaN);
    return {
      what: 'rolling update, cost of a changed Pod',
      at: size({ services: result.services, endpoints: result.pods }),
      aim: 'as at 1,000 (1.5 ×)',
      found: `${ms(result.processor, 2)}, ${times.toFixed(2)} ×`,
      beside:
        small === undefined
          ? ''
          : `${ms(small.processor, 2)} at ${size({ services: small.services, endpoints: small.pods })}`,
      isReached: times <= 1.5,
    };
  });
}

export function producersSection(all: readonly ProducersResult[]): string {
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
