/** Services by their keys, each packed (`proxy/model/packed/`). */
import type { Service, ServiceKey } from '../../proxy/model/objects.ts';
import type { Packed } from '../../proxy/model/packed/bytes.ts';
import { packService, unpackService } from '../../proxy/model/packed/service.ts';
import { packedVersion, sameContent } from '../../proxy/model/packed/version.ts';

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

  /** The resourceVersion of a Service; "": there is none, or its source has no versions. */
  resourceVersion(key: ServiceKey): string {
    const packed = this.#services.get(key);
    return packed === undefined ? '' : packedVersion(packed);
  }

  /** Returns what gives the former Service and its version, where it changed. `version`: of the Service now; "" for none. */
  set(key: ServiceKey, service: Service | undefined, version = ''): (() => FormerService) | undefined {
    const before = this.#services.get(key);
    if (before === undefined || service === undefined) this.#version += 1;
    const packed = service && packService(service, version);
    if (packed === before) return undefined;
    if (packed === undefined) this.#services.delete(key);
    else this.#services.set(key, packed);
    if (packed !== undefined && before !== undefined && sameContent(packed, before)) return undefined;
    return () =>
      before === undefined
        ? { service: undefined, version: '' }
        : { service: unpackService(key, before), version: packedVersion(before) };
  }
}

/** A Service as it was, with its resourceVersion. */
export interface FormerService {
  readonly service: Service | undefined;
  readonly version: string;
}
