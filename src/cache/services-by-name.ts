/** Services by their keys, each packed (`model/packed/`). */
import type { Service, ServiceKey } from '../model/objects.ts';
import type { Packed } from '../model/packed/bytes.ts';
import { packService, unpackService } from '../model/packed/service.ts';

export class ServicesByName {
  readonly #services = new Map<ServiceKey, Packed<Service>>();
  #version = 0;

  /** Grows when a Service comes or goes, also one of which nothing is known but its faults. */
  get version(): number {
    return this.#version;
  }

  get count(): number {
    return this.#services.size;
  }

  /** All keys, without unpacking a Service. */
  keys(): MapIterator<ServiceKey> {
    return this.#services.keys();
  }

  get(key: ServiceKey): Service | undefined {
    const packed = this.#services.get(key);
    return packed === undefined ? undefined : unpackService(key, packed);
  }

  *all(): Generator<Service> {
    for (const [key, packed] of this.#services) yield unpackService(key, packed);
  }

  /** Returns what gives the former Service, where it changed. */
  set(key: ServiceKey, service: Service | undefined): (() => Service | undefined) | undefined {
    const before = this.#services.get(key);
    if (before === undefined || service === undefined) this.#version += 1;
    const packed = service && packService(service);
    if (packed === before) return undefined;
    if (packed === undefined) this.#services.delete(key);
    else this.#services.set(key, packed);
    return () => (before === undefined ? undefined : unpackService(key, before));
  }
}
