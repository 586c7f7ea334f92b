/** What a soak measures of the agent while it runs: memory, descriptors, timers, connections, syncs. */
import type { Look, SoakAgent } from './agent.ts';
import { type Samples, samplesOf, sumOf, Totals } from './metrics.ts';
import type { Watch } from './parts.ts';
import type { DatapathFound, FirstLast, SyncsFound, TailMemory } from './result.ts';
import type { SoakMode } from './timeline.ts';

class Series {
  #first: number | undefined;
  #last = 0;
  #most = 0;

  add(value: number): void {
    this.#first ??= value;
    this.#last = value;
    this.#most = Math.max(this.#most, value);
  }

  get found(): FirstLast {
    return { first: this.#first ?? 0, last: this.#last, most: this.#most };
  }
}

/** Of the bytes of each look, in the order of time. */
export function memoryOf(mode: SoakMode, looks: readonly number[]): TailMemory {
  const third = Math.ceil(looks.length / 3);
  const median = (some: readonly number[]) => [...some].sort((a, b) => a - b)[Math.floor(some.length / 2)] ?? 0;
  return { mode, first: median(looks.slice(0, third)), last: median(looks.slice(-third)), most: Math.max(0, ...looks) };
}

const SYNC = 'kubeproxy_sync_proxy_rules_duration_seconds';
const DATAPATH = 'slicewire_datapath_connections_total';
const PROGRAMMING = 'kubeproxy_network_programming_duration_seconds';

export class Measured {
  readonly #agent: SoakAgent;
  readonly #watch: Watch;
  readonly #totals = new Map<SoakMode, Totals>();
  readonly memory = new Series();
  readonly #tailMemory = new Map<SoakMode, number[]>();
  readonly descriptors = new Series();
  readonly tailDescriptors = new Series();
  readonly timers = new Series();
  readonly connections = new Series();
  /** What this life had counted when it took this mode. */
  #before: Samples = new Map();

  constructor(agent: SoakAgent, watch: Watch) {
    this.#agent = agent;
    this.#watch = watch;
  }

  /** `isWarm`: it has run long enough, or has had this mode for long enough; `isTail`: it is not restarted any more. */
  look(mode: SoakMode, { isWarm, isTail }: { readonly isWarm: boolean; readonly isTail: boolean }): void {
    const look: Look | undefined = this.#agent.look();
    if (look === undefined || !isWarm) return;
    const descriptors = isTail ? this.tailDescriptors : this.descriptors;
    descriptors.add(look.descriptors);
    if (isTail) this.#tailMemory.set(mode, [...(this.#tailMemory.get(mode) ?? []), look.resident]);
    else this.memory.add(look.resident);
  }

  get tailMemory(): TailMemory[] {
    return [...this.#tailMemory].map(([mode, looks]) => memoryOf(mode, looks));
  }

  /** Ask for the metrics, as a Prometheus does. */
  async scrape({ isTail }: { readonly isTail: boolean }): Promise<Samples | undefined> {
    const { metrics, connections } = await this.#watch.ask({ kind: 'scrape' });
    this.connections.add(connections);
    if (metrics === undefined) return undefined;
    const samples = samplesOf(metrics);
    if (isTail) this.timers.add(sumOf(samples, 'nodejs_active_resources', 'type="Timeout"'));
    return samples;
  }

  /** The agent ends, or leaves this mode: what it counted in it is added up. */
  async endOf(mode: SoakMode, { isLife }: { readonly isLife: boolean }): Promise<void> {
    const samples = await this.scrape({ isTail: false });
    const totals = this.#totals.get(mode) ?? new Totals();
    this.#totals.set(mode, totals);
    if (samples !== undefined) totals.add(samples, this.#before);
    this.#before = isLife ? new Map() : (samples ?? this.#before);
  }

  get syncs(): SyncsFound[] {
    return [...this.#totals].map(([mode, totals]) => {
      const of = (name: string) => ({ p50: totals.quantile(name, 0.5), p99: totals.quantile(name, 0.99) });
      const syncs = totals.count('slicewire_syncs_total');
      const failed = syncs - totals.count('slicewire_syncs_total', '"complete"');
      return { mode, syncs, failed, sync: of(SYNC), programming: of(PROGRAMMING) };
    });
  }

  get datapath(): DatapathFound[] {
    const all = [...this.#totals.values()];
    return (['node', 'pod'] as const).map((from) => {
      const count = (result: string) =>
        all.reduce((sum, totals) => sum + totals.count(DATAPATH, `from="${from}"`, `result="${result}"`), 0);
      return { from, passed: count('passed'), failed: count('failed') };
    });
  }
}
