/** The switch from one generation of the agent to the next, for those who hear of changed ServicePorts. */

import { inPortions } from '../base/portions.ts';
import type { ProxyModel } from '../proxy/model/proxy-model.ts';
import type { ServicePort, ServicePortKey } from '../proxy/model/service-port.ts';

type Ports = Pick<ProxyModel, 'ports'>;
export type ChangedPorts = ReadonlyMap<ServicePortKey, ServicePort | undefined>;

/** The few milliseconds that it takes are not worth an abort. */
const NEVER = new AbortController().signal;

/**
 * The first sync of a generation reports all of its ServicePorts. Those of former generations that are not among them are gone, and this
 * is where that is said, once, for all who listen. Until the next generation has written, what the former one reported stays in force.
 */
export class GenerationSwitch {
  /** The models of the generations whose ServicePorts may still be in force. */
  #former: Ports[] = [];
  #present: Ports | undefined;

  /** Another generation works from now on. */
  begin(next: Ports): void {
    if (this.#present !== undefined && this.#present !== next) this.#former.push(this.#present);
    this.#present = next;
  }

  /** The present generation has written. Resolves with the ServicePorts that are gone since a former one; empty where nothing is. */
  async written(): Promise<ChangedPorts> {
    const gone = new Map<ServicePortKey, undefined>();
    const [former, present] = [this.#former, this.#present?.ports];
    if (former.length === 0 || present === undefined) return gone;
    this.#former = [];
    for (const { ports } of former) {
      await inPortions(ports.keys(), (key) => void (present.has(key) || gone.set(key, undefined)), NEVER);
    }
    return gone;
  }
}
