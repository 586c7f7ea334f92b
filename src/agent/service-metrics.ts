/**
 * The metrics of Services for --service-metrics: connections, bytes and endpoints of each port of a Service. The kernel's counters are read on
 * demand, never twice at the same time, and for at most a hundredth of the time.
 */
import { causeOf } from '../base/cause.ts';
import { breath, type Clock, endsWithin } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import { type Mutex, shared } from '../base/mutex.ts';
import type { Cache } from '../cluster/cache/cache.ts';
import type { Config } from '../config/config.ts';
import { countUses, isOfEndpoint, isSliceUsed, type SliceUse } from '../proxy/model/endpoint-uses.ts';
import type { ServiceKey, Slice, TrafficPolicy } from '../proxy/model/objects.ts';
import type { ProxyModel } from '../proxy/model/proxy-model.ts';
import type { Location, ServicePort, ServicePortKey } from '../proxy/model/service-port.ts';
import type { Mode, ModeMetrics } from '../proxy/modes/mode.ts';
import type { Log } from '../telemetry/log.ts';
import { labelsText, SeriesText } from '../telemetry/service-series.ts';
import type { KernelLock } from './agent.ts';
import { type FrontendTraffic, type PortTraffic, ServiceTraffic } from './service-traffic.ts';

/** Minimum interval of readings of the counters: a second, and a multiple of a reading's time. */
const MIN_READ_INTERVAL_MS = 1000;
const READ_INTERVAL_FACTOR = 100;
/** Limit of an answer's wait for a reading. A reading waits for the running sync, which may take a minute. */
const READ_TIMEOUT_MS = 2000;
/** Services that are written before the event loop gets its turn: about a millisecond. */
const SERVICES_AT_ONCE = 50;
/** Limit of series that one Prometheus takes from one target without trouble. */
const MAX_SERIES = 100_000;

/** The parts of an agent that are measured. */
export interface MeasuredAgent {
  readonly mode: Pick<Mode, 'name' | 'isObserved'> & { readonly metrics: Pick<ModeMetrics, 'connectionCounts'> };
  readonly kernelLock: Pick<KernelLock, 'between'>;
  readonly feed: { readonly cache: Cache };
  readonly model: Pick<ProxyModel, 'location'>;
}

interface ServiceMetricsOptions {
  readonly log: Pick<Log, 'warn'>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly maxSeries?: number;
}

export class ServiceMetrics {
  readonly #options: ServiceMetricsOptions;
  #traffic = new ServiceTraffic();
  #endpoints = new ServiceEndpoints();
  #agent: MeasuredAgent | undefined;
  #isOn = false;
  #refreshing: Promise<void> | undefined;
  #nextRefresh = 0;
  /** The cause why the last reading of the counters failed. */
  #failure: string | undefined;
  #isOverBound = false;

  constructor(options: ServiceMetricsOptions) {
    this.#options = options;
  }

  /** Count for this agent from now on. Call it before the agent reports ServicePorts. */
  use(agent: MeasuredAgent, { serviceMetrics }: Pick<Config, 'serviceMetrics'>): void {
    if (!serviceMetrics) {
      this.#traffic = new ServiceTraffic();
      this.#endpoints = new ServiceEndpoints();
    }
    if (agent.mode.name !== this.#agent?.mode.name) this.#traffic.begin();
    this.#agent = agent;
    this.#isOn = serviceMetrics;
    this.#nextRefresh = 0;
  }

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    if (this.#isOn) this.#traffic.update(changes);
  }

  /**
   * The traffic of a Service's frontends as of the last reading; undefined where connections are not counted, or not yet. It begins a
   * reading that is due.
   */
  async trafficOf(service: ServiceKey): Promise<readonly FrontendTraffic[] | undefined> {
    if (!this.#isOn) return undefined;
    const refresh = this.#refresh();
    if (!this.#traffic.isCounted) await endsWithin(READ_TIMEOUT_MS, refresh, this.#options.clock);
    if (!this.#traffic.isCounted) return undefined;
    return this.#traffic.of(service).flatMap(({ frontends }) => frontends);
  }

  /** The metrics in Prometheus' format; "" where they are off. Requests at the same time share one text. */
  readonly text = shared(async (): Promise<string> => {
    const agent = this.#agent;
    if (!this.#isOn || agent === undefined) return '';
    await endsWithin(READ_TIMEOUT_MS, this.#refresh(), this.#options.clock);
    const { into, leftOut } = await this.#collect(agent);
    this.#warnOf(leftOut, into.count);
    const served = into.count;
    into.add('slicewire_service_series', labelsText({ state: 'served' }), served);
    into.add('slicewire_service_series', labelsText({ state: 'left out' }), leftOut);
    return into.text;
  });

  /** Read the counters if that is due, or wait for the reading that runs. Never rejects. */
  async #refresh(): Promise<void> {
    const { clock } = this.#options;
    if (this.#refreshing === undefined && clock.now() < this.#nextRefresh) return;
    this.#refreshing ??= this.#read().finally(() => {
      this.#refreshing = undefined;
    });
    await this.#refreshing;
  }

  async #read(): Promise<void> {
    const { clock, signal, log } = this.#options;
    const agent = this.#agent;
    if (agent?.mode.isObserved !== true) return;
    const start = clock.now();
    // The wait for syncs does not count as time of the reading.
    let waited = 0;
    const between: Mutex = (work) => {
      const began = clock.now();
      return agent.kernelLock.between(() => {
        waited += clock.now() - began;
        return work();
      });
    };
    try {
      const counts = await agent.mode.metrics.connectionCounts({ signal, between });
      // Another generation may have begun meanwhile: its counters are read next time.
      if (agent === this.#agent) this.#traffic.take(counts);
      this.#failure = undefined;
    } catch (error) {
      const cause = causeOf(error);
      const follows = 'the metrics of Services keep their last values';
      if (cause !== this.#failure && !signal.aborted)
        log.warn({ cause }, `connections to Services cannot be counted: ${cause}; ${follows}`);
      this.#failure = cause;
    }
    const now = clock.now();
    this.#nextRefresh = now + Math.max(MIN_READ_INTERVAL_MS, (now - start - waited) * READ_INTERVAL_FACTOR);
  }

  async #collect({ feed: { cache }, model }: MeasuredAgent): Promise<{ into: SeriesText; leftOut: number }> {
    const { maxSeries = MAX_SERIES } = this.#options;
    const into = new SeriesText();
    this.#endpoints.prepare(model.location, (service) => this.#traffic.of(service).length > 0);
    const setAside = endpointsSetAside(cache);
    const { isCounted } = this.#traffic;
    let leftOut = 0;
    let visited = 0;
    for (const ports of this.#traffic.ports) {
      visited += 1;
      if (visited % SERVICES_AT_ONCE === 0) await breath();
      const endpoints = this.#endpoints.of(ports, cache);
      const missing = setAside.get(ports[0]?.service ?? '') ?? 0;
      const own = [...(isCounted ? trafficSeries(ports) : []), ...endpointSeries(ports, endpoints, missing)];
      if (into.count + own.length > maxSeries) leftOut += own.length;
      else for (const one of own) into.add(...one);
    }
    return { into, leftOut };
  }

  #warnOf(leftOut: number, served: number): void {
    const isOver = leftOut > 0;
    if (isOver && !this.#isOverBound) {
      this.#options.log.warn(
        { served, leftOut },
        `the metrics of Services have ${served + leftOut} series, and ${leftOut} of them are left out: at most ${this.#options.maxSeries ?? MAX_SERIES} are served`,
      );
    }
    this.#isOverBound = isOver;
  }
}

type Series = Parameters<SeriesText['add']>;

function labelsOf({ service, name, protocol, family }: PortTraffic): string {
  return labelsText({ service, port: name, protocol, ip_family: family });
}

/** Series of the traffic to the ports of one Service. */
function trafficSeries(ports: readonly PortTraffic[]): Series[] {
  const series: Series[] = [];
  for (const port of ports) {
    const { frontends } = port;
    const labels = labelsOf(port);
    const connections = frontends.reduce((sum, one) => sum + one.connections, 0);
    series.push(['slicewire_service_connections_total', labels, connections]);
    if (frontends.every(({ bytes }) => bytes === undefined)) continue;
    for (const direction of ['in', 'out'] as const) {
      const bytes = frontends.reduce((sum, one) => sum + (one.bytes?.[direction] ?? 0), 0);
      series.push(['slicewire_service_bytes_total', `${labels},direction="${direction}"`, bytes]);
    }
  }
  return series;
}

/** Series of the endpoints of one Service's ports. */
function endpointSeries(
  ports: readonly PortTraffic[],
  endpoints: readonly PortEndpoints[],
  setAside: number,
): Series[] {
  const series: Series[] = [];
  for (const [i, port] of ports.entries()) {
    const labels = labelsOf(port);
    for (const { policy, isUsed, reason, count } of endpoints[i] ?? []) {
      const use = labelsText({ policy, state: isUsed ? 'used' : 'not used', reason });
      series.push(['slicewire_service_endpoints', `${labels},${use}`, count]);
    }
  }
  const [first] = ports;
  if (setAside > 0 && first !== undefined) {
    // A slice's faults name no port, so the endpoints are missing in all of them.
    const labels = labelsText({ service: first.service, state: 'not used', reason: 'set-aside' });
    series.push(['slicewire_service_endpoints', labels, setAside]);
  }
  return series;
}

/** The number of a ServicePort's endpoints that a policy uses, or does not use, for the same reason. */
interface EndpointCount {
  readonly policy: TrafficPolicy;
  readonly isUsed: boolean;
  /** Without spaces, such as `not-ready`. */
  readonly reason: string;
  readonly count: number;
}

/** The counts of one ServicePort. */
type PortEndpoints = readonly EndpointCount[];

interface CountedEndpoints {
  /** Versions of its slices, and its ServicePorts, to find changes. */
  readonly version: readonly unknown[];
  /** In the order of the ServicePorts. */
  readonly counts: readonly PortEndpoints[];
}

/** Texts of reasons, kept so that all Services share them. */
const REASONS = new Map<SliceUse, string>();

function reasonOf(use: SliceUse): string {
  const known = REASONS.get(use) ?? use.replaceAll(' ', '-');
  REASONS.set(use, known);
  return known;
}

/** Counts the endpoints of Services by their use on this node. A Service is counted anew only when it or one of its slices changed. */
export class ServiceEndpoints {
  readonly #known = new Map<ServiceKey, CountedEndpoints>();
  #location: Location = { nodeName: '', zone: '' };
  #counted = 0;

  get counted(): number {
    return this.#counted;
  }

  /** Forget the Services that are gone, and all of them when the node's zone changed. */
  prepare(location: Location, isThere: (service: ServiceKey) => boolean): void {
    if (!sameData(location, this.#location)) this.#known.clear();
    this.#location = location;
    for (const key of this.#known.keys()) if (!isThere(key)) this.#known.delete(key);
  }

  /** The counts of all ServicePorts of a Service, in their order. */
  of(ports: readonly PortTraffic[], cache: Cache): readonly PortEndpoints[] {
    const [first] = ports;
    if (first === undefined) return [];
    const version = [cache.slices.versionOf(first.service), ...ports];
    const before = this.#known.get(first.service);
    const isSame = before?.version.length === version.length && before.version.every((part, i) => part === version[i]);
    if (isSame) return before.counts;
    const counts = this.#count(ports, cache.slicesOf(first.service));
    this.#known.set(first.service, { version, counts });
    return counts;
  }

  #count(ports: readonly PortTraffic[], slices: readonly Slice[]): CountedEndpoints['counts'] {
    this.#counted += 1;
    // Endpoints of a family in which the Service has no address are missing in each port.
    const foreign = slices.filter(({ family }) => !ports.some((port) => port.family === family));
    const others = foreign.reduce((sum, { endpoints }) => sum + endpoints.length, 0);
    return ports.map(({ portName: name, protocol, family, policies }) => {
      const counts: EndpointCount[] = [];
      const port = { name, protocol, family, slices, location: this.#location };
      for (const [policy, byUse] of countUses(port, policies)) {
        if (!byUse.has('ready')) byUse.set('ready', 0);
        for (const [use, count] of byUse) {
          counts.push({ policy, isUsed: isSliceUsed(use), reason: reasonOf(use), count });
        }
        if (others > 0) counts.push({ policy, isUsed: false, reason: 'other-family', count: others });
      }
      return counts;
    });
  }
}

/** The number of endpoints that are set aside because of a fault, by Service. */
function endpointsSetAside(cache: Cache): ReadonlyMap<ServiceKey, number> {
  const found = new Map<ServiceKey, number>();
  for (const fault of cache.faults.all) {
    if (fault.kind !== 'EndpointSlice' || !isOfEndpoint(fault)) continue;
    const service = cache.slices.get(fault.object)?.service;
    if (service !== undefined) found.set(service, (found.get(service) ?? 0) + 1);
  }
  return found;
}
