/** All ServicePorts, looked up and listed as in a map, and unpacked when they are asked for. Pure. */
import type { ServiceKey } from './objects.ts';
import { type ServicePort, type ServicePortKey, serviceOfPort } from './service-port.ts';

export class PortsView implements ReadonlyMap<ServicePortKey, ServicePort> {
  readonly #services: { keys(): Iterable<ServiceKey> };
  readonly #portsOf: (service: ServiceKey) => readonly ServicePort[];

  constructor(services: { keys(): Iterable<ServiceKey> }, portsOf: (service: ServiceKey) => readonly ServicePort[]) {
    this.#services = services;
    this.#portsOf = portsOf;
  }

  /** It counts all of them. */
  get size(): number {
    let size = 0;
    for (const service of this.#services.keys()) size += this.#portsOf(service).length;
    return size;
  }

  has(key: ServicePortKey): boolean {
    return this.get(key) !== undefined;
  }

  get(key: ServicePortKey): ServicePort | undefined {
    return this.#portsOf(serviceOfPort(key)).find((port) => port.key === key);
  }

  *entries(): MapIterator<[ServicePortKey, ServicePort]> {
    for (const port of this.values()) yield [port.key, port];
  }

  *keys(): MapIterator<ServicePortKey> {
    for (const { key } of this.values()) yield key;
  }

  *values(): MapIterator<ServicePort> {
    for (const service of this.#services.keys()) yield* this.#portsOf(service);
  }

  [Symbol.iterator](): MapIterator<[ServicePortKey, ServicePort]> {
    return this.entries();
  }

  forEach(call: (port: ServicePort, key: ServicePortKey, map: ReadonlyMap<ServicePortKey, ServicePort>) => void): void {
    for (const [key, port] of this) call(port, key, this);
  }
}
