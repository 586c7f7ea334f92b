/**
 * The metrics of Services, where --service-metrics asks for them: connections, bytes and endpoints of each port of a Service. The kernel's
 * counters are read when somebody asks, never twice at the same time, for at most a hundredth of the time.
 */
import { causeOf } from '../base/cause.ts';
import { breath, type Clock } from '../base/clock.ts';
import { sameData } from '../base/equal.ts';
import type { Mutex } from '../base/mutex.ts';
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

/** Milliseconds between two looks at the counters, at least; and how many times as long as a look took. */
const LOOK_PAUSE = 1000;
const LOOK_SHARE = 100;
/** Milliseconds that an answer waits for a look: a look waits for a sync that runs, and that may take a minute. */
const LOOK_PATIENCE = 2000;
/** Services that are written before other work has its turn: about a millisecond. */
const SERVICES_AT_ONCE = 50;
/** Most series: what one Prometheus takes from one target without trouble. */
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
  readonly mostSeries?: number;
}

export class ServiceMetrics {
  readonly #options: ServiceMetricsOptions;
  #traffic = new ServiceTraffic();
  #endpoints = new ServiceEndpoints();
  #agent: MeasuredAgent | undefined;
  #isOn = false;
  #looking: Promise<void> | undefined;
  #nextLook = 0;
  /** Why the counters could not be read at the last look. */
  #failure: string | undefined;
  #isOverBound = false;

  constructor(options: ServiceMetricsOptions) {
    this.#options = options;
  }

  /** Count for this agent from now on, before it reports ServicePorts. */
  use(agent: MeasuredAgent, { serviceMetrics }: Pick<Config, 'serviceMetrics'>): void {
    if (!serviceMetrics) {
      this.#traffic = new ServiceTraffic();
      this.#endpoints = new ServiceEndpoints();
    }
    if (agent.mode.name !== this.#agent?.mode.name) this.#traffic.begin();
    this.#agent = agent;
    this.#isOn = serviceMetrics;
    this.#nextLook = 0;
  }

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    if (this.#isOn) this.#traffic.update(changes);
  }

  /** What came to the frontends of a Service, as of the last look; undefined where connections are not counted, or not yet. A look is begun where one is due. */
  async trafficOf(service: ServiceKey): Promise<readonly FrontendTraffic[] | undefined> {
    if (!this.#isOn) return undefined;
    const look = this.#look();
    if (!this.#traffic.isCounted) await atMost(LOOK_PATIENCE, look, this.#options.clock);
    if (!this.#traffic.isCounted) return undefined;
    return this.#traffic.of(service).flatMap(({ frontends }) => frontends);
  }

  /** In Prometheus' form; "" where the metrics are off. All who ask while it is written have the same text. */
  readonly text = shared(async (): Promise<string> => {
    const agent = this.#agent;
    if (!this.#isOn || agent === undefined) return '';
    await atMost(LOOK_PATIENCE, this.#look(), this.#options.clock);
    const { into, leftOut } = await this.#collect(agent);
    this.#warnOf(leftOut, into.count);
    const served = into.count;
    into.add('slicewire_service_series', labelsText({ state: 'served' }), served);
    into.add('slicewire_service_series', labelsText({ state: 'left out' }), leftOut);
    return into.text;
  });

  /** Read the counters where that is due; a look that runs is waited for. Never rejects. */
  async #look(): Promise<void> {
    const { clock } = this.#options;
    if (this.#looking === undefined && clock.now() < this.#nextLook) return;
    this.#looking ??= this.#read().finally(() => {
      this.#looking = undefined;
    });
    await this.#looking;
  }

  async #read(): Promise<void> {
    const { clock, signal, log } = this.#options;
    const agent = this.#agent;
    if (agent?.mode.isObserved !== true) return;
    const start = clock.now();
    // The time in which syncs had their turn is no time of the look.
    let waited = 0;
    const between: Mutex = (work) => {
      const asked = clock.now();
      return agent.kernelLock.between(() => {
        waited += clock.now() - asked;
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
    this.#nextLook = now + Math.max(LOOK_PAUSE, (now - start - waited) * LOOK_SHARE);
  }

  async #collect({ feed: { cache }, model }: MeasuredAgent): Promise<{ into: SeriesText; leftOut: number }> {
    const { mostSeries = MAX_SERIES } = this.#options;
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
      if (into.count + own.length > mostSeries) leftOut += own.length;
      else for (const one of own) into.add(...one);
    }
    return { into, leftOut };
  }

  #warnOf(leftOut: number, served: number): void {
    const isOver = leftOut > 0;
    if (isOver && !this.#isOverBound) {
      this.#options.log.warn(
        { served, leftOut },
        `the metrics of Services have ${served + leftOut} series, and ${leftOut} of them are left out: at most ${this.#options.mostSeries ?? MAX_SERIES} are served`,
      );
    }
    this.#isOverBound = isOver;
  }
}

/** One run of the work at a time, for all who ask meanwhile. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** Resolves with the work, or after some milliseconds; the work goes on. */
async function atMost(milliseconds: number, work: Promise<void>, clock: Clock): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(milliseconds, resolve);
  await Promise.race([work, promise]);
  cancel();
}

type Series = Parameters<SeriesText['add']>;

function labelsOf({ service, name, protocol, family }: PortTraffic): string {
  return labelsText({ service, port: name, protocol, ip_family: family });
}

/** What came to the ports of one Service. */
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

/** The endpoints of the ports of one Service. */
function endpointSeries(
  ports: readonly PortTraffic[],
  endpoints: readonly PortEndpoints[],
  setAside: number,
): Series[] {
  const series: Series[] = [];
  for (const [i, port] of ports.entries()) {
    const labels = labelsOf(port);
    for (const { policy, isUsed, reason, count } of endpoints[i] ?? []) {
      const fate = labelsText({ policy, state: isUsed ? 'used' : 'not used', reason });
      series.push(['slicewire_service_endpoints', `${labels},${fate}`, count]);
    }
  }
  const [first] = ports;
  if (setAside > 0 && first !== undefined) {
    // A slice's faults name no port: the endpoints are missing in all of them.
    const labels = labelsText({ service: first.service, state: 'not used', reason: 'set-aside' });
    series.push(['slicewire_service_endpoints', labels, setAside]);
  }
  return series;
}

// The endpoints of Services by what becomes of them on this node. A Service is counted anew only when it or one of its slices changed.

/** Endpoints of a ServicePort with the same fate, under a policy. */
interface EndpointCount {
  /** The policy under which they are used or not. */
  readonly policy: TrafficPolicy;
  readonly isUsed: boolean;
  /** Without spaces: `not-ready`. */
  readonly reason: string;
  readonly count: number;
}

/** Of one ServicePort. */
type PortEndpoints = readonly EndpointCount[];

interface CountedEndpoints {
  /** Of its slices, and its ServicePorts. */
  readonly version: readonly unknown[];
  /** In the order of the ServicePorts. */
  readonly counts: readonly PortEndpoints[];
}

/** One text for all Services. */
const REASONS = new Map<SliceUse, string>();

function reasonOf(use: SliceUse): string {
  const known = REASONS.get(use) ?? use.replaceAll(' ', '-');
  REASONS.set(use, known);
  return known;
}

export class ServiceEndpoints {
  readonly #known = new Map<ServiceKey, CountedEndpoints>();
  #location: Location = { nodeName: '', zone: '' };
  #counted = 0;

  /** The number of times that a Service was counted. */
  get counted(): number {
    return this.#counted;
  }

  /** Forget the Services that are gone, and all of them when the node's zone changed. */
  prepare(location: Location, isThere: (service: ServiceKey) => boolean): void {
    if (!sameData(location, this.#location)) this.#known.clear();
    this.#location = location;
    for (const key of this.#known.keys()) if (!isThere(key)) this.#known.delete(key);
  }

  /** Of all ServicePorts of a Service, in their order. */
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
    // Endpoints of a family in which the Service has no address: they are missing in each port.
    const foreign = slices.filter(({ family }) => !ports.some((port) => port.family === family));
    const others = foreign.reduce((sum, { endpoints }) => sum + endpoints.length, 0);
    return ports.map(({ portName: name, protocol, family, policies }) => {
      const counts: EndpointCount[] = [];
      const asked = { name, protocol, family, slices, location: this.#location };
      for (const [policy, byUse] of countUses(asked, policies)) {
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

/** The endpoints that are set aside because of a fault, by Service. */
function endpointsSetAside(cache: Cache): ReadonlyMap<ServiceKey, number> {
  const found = new Map<ServiceKey, number>();
  for (const fault of cache.faults.all) {
    if (fault.kind !== 'EndpointSlice' || !isOfEndpoint(fault)) continue;
    const service = cache.slices.get(fault.object)?.service;
    if (service !== undefined) found.set(service, (found.get(service) ?? 0) + 1);
  }
  return found;
}
