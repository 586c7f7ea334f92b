/**
 * The traffic of Services as totals that only grow. The kernel's counters restart at 0 when a frontend is new, when it gets its first endpoint,
 * and when another program flushes rules. Traffic between the last reading and that moment is lost. Pure.
 */
import type { Family, Protocol } from '../base/address.ts';
import type { ServiceKey, TrafficPolicy } from '../proxy/model/objects.ts';
import { type ServicePort, type ServicePortKey, serviceOfPort } from '../proxy/model/service-port.ts';
import type { ConnectionCount } from '../proxy/modes/mode.ts';

/** A frontend with its traffic since the agent began. */
export interface FrontendTraffic {
  readonly family: Family;
  readonly protocol: Protocol;
  /** "" for a node port. */
  readonly address: string;
  readonly port: number;
  readonly connections: number;
  /** undefined where bytes are not counted. */
  readonly bytes: ByteCounts | undefined;
}

export interface ByteCounts {
  readonly in: number;
  readonly out: number;
}

/** The frontends of a ServicePort, with their traffic. */
export interface PortTraffic {
  readonly key: ServicePortKey;
  readonly service: ServiceKey;
  /** The name of the port; its number when it has none. */
  readonly name: string;
  /** The name of the port in the Service; "" for none. */
  readonly portName: string;
  readonly protocol: Protocol;
  readonly family: Family;
  /** The policies of its frontends. */
  readonly policies: readonly TrafficPolicy[];
  readonly frontends: readonly FrontendTraffic[];
}

interface Counter extends FrontendTraffic {
  connections: number;
  bytes: ByteCounts | undefined;
  /** The kernel's counters as read last. IPVS mode may have several (`counterName`). */
  last: Map<string, ReadCounters> | undefined;
}

type ReadCounters = Pick<FrontendTraffic, 'connections' | 'bytes'>;

interface TrafficRow extends PortTraffic {
  readonly frontends: readonly Counter[];
}

export class ServiceTraffic {
  readonly #services = new Map<ServiceKey, TrafficRow[]>();
  #isCounted = false;

  /** False until the kernel's counters were read once. Before, a total of 0 would look like a counter that restarted. */
  get isCounted(): boolean {
    return this.#isCounted;
  }

  /** The ServicePorts, Service by Service. */
  get ports(): Iterable<readonly PortTraffic[]> {
    return this.#services.values();
  }

  of(service: ServiceKey): readonly PortTraffic[] {
    return this.#services.get(service) ?? [];
  }

  /** Take changed ServicePorts; undefined stands for a removed one. */
  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const [key, port] of changes) this.#put(key, port);
  }

  /** Forget the last readings: another mode has other counters. */
  begin(): void {
    for (const rows of this.#services.values()) {
      for (const { frontends } of rows) for (const counter of frontends) counter.last = undefined;
    }
  }

  /** Add what the kernel has counted since the last time. A frontend that is missing keeps its total. */
  take(counts: readonly ConnectionCount[]): void {
    // An empty reading proves nothing, because the kernel cannot be read while we write.
    if (counts.length > 0) this.#isCounted = true;
    for (const count of counts) {
      const counter = this.#counterOf(count);
      if (counter !== undefined) add(counter, count);
    }
  }

  /** In IPVS mode a virtual server at an address without a frontend belongs to a node port. */
  #counterOf({ service, family, address, protocol, port }: ConnectionCount): Counter | undefined {
    let ofNodePort: Counter | undefined;
    for (const { frontends } of this.#services.get(service) ?? []) {
      for (const counter of frontends) {
        if (counter.family !== family || counter.protocol !== protocol || counter.port !== port) continue;
        if (counter.address === (address ?? '')) return counter;
        if (counter.address === '') ofNodePort = counter;
      }
    }
    return ofNodePort;
  }

  #put(key: ServicePortKey, port: ServicePort | undefined): void {
    const service = serviceOfPort(key);
    const rows = this.#services.get(service) ?? [];
    const at = rows.findIndex((row) => row.key === key);
    const former = rows[at]?.frontends ?? [];
    if (port !== undefined) {
      const row = rowOf(port, former);
      if (at < 0) rows.push(row);
      else rows[at] = row;
    } else if (at >= 0) rows.splice(at, 1);
    if (rows.length === 0) this.#services.delete(service);
    else this.#services.set(service, rows);
  }
}

function rowOf({ key, id, service, family, protocol, frontends }: ServicePort, former: readonly Counter[]): TrafficRow {
  const portName = id.slice(service.length + 1);
  const clusterIP = frontends.find(({ role }) => role === 'cluster-ip') ?? frontends[0];
  return {
    ...{ key, service, family, protocol, portName },
    name: portName === '' ? String(clusterIP?.port ?? '') : portName,
    policies: [...new Set(frontends.map(({ policy }) => policy))],
    frontends: frontends.map(({ address: at, port }) => {
      const address = at ?? '';
      const known = former.find((each) => each.address === address && each.port === port);
      return known ?? { ...{ family, protocol, address, port }, connections: 0, bytes: undefined, last: undefined };
    }),
  };
}

/** Adds the growth since the last reading. A counter that is less than before restarted. */
function add(counter: Counter, read: ConnectionCount): void {
  const { count, bytes, hasEnded = false } = read;
  const name = counterName(read);
  if (count === 0 && counter.last === undefined) return;
  const last = counter.last?.get(name);
  const grown = (now: number, before = 0) => (now >= before ? now - before : now);
  const isNew = count < (last?.connections ?? 0);
  counter.connections += grown(count, last?.connections);
  if (bytes !== undefined) {
    const before = isNew ? undefined : last?.bytes;
    const sum = counter.bytes ?? { in: 0, out: 0 };
    counter.bytes = { in: sum.in + grown(bytes.in, before?.in), out: sum.out + grown(bytes.out, before?.out) };
  }
  counter.last ??= new Map();
  if (hasEnded) counter.last.delete(name);
  else counter.last.set(name, { connections: count, bytes });
}

/** A frontend has several counters in IPVS mode: one for each address of the node, each by a server and by a rule. */
function counterName({ address, isBesideServer = false }: ConnectionCount): string {
  return `${isBesideServer ? 'rule ' : ''}${address ?? ''}`;
}
