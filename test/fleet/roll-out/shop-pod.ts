/** A Pod of the roll-out: an HTTP server that stops as servers do at SIGTERM. It takes nothing new, and ends what it has begun. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { breath } from '../../../src/base/clock.ts';
import { inNamespace } from '../../helpers/kernel/namespace-sockets.ts';
import type { Pod } from '../../upstream/e2e/kubelet.ts';

export const PORT = 8080;
/** Milliseconds that requests have to end after the server stopped listening. */
const GRACE = 2000;

export class ShopPod {
  readonly pod: Pod;
  readonly #server: Server;

  private constructor(pod: Pod) {
    this.pod = pod;
    this.#server = createServer((_, response) => void response.end(pod.name));
  }

  /** It answers each request with its name. */
  static async serve(pod: Pod): Promise<ShopPod> {
    const served = new ShopPod(pod);
    inNamespace(pod.networkNamespace, () => served.#server.listen(PORT));
    await once(served.#server, 'listening');
    return served;
  }

  /** SIGTERM. */
  async stop(): Promise<void> {
    // The kernel has connections that this process did not take yet: a signal comes later than the rules by more than that.
    for (let turn = 0; turn < 3; turn++) await breath();
    const closed = once(this.#server, 'close');
    this.#server.close();
    const late = setTimeout(() => this.#server.closeAllConnections(), GRACE);
    await closed;
    clearTimeout(late);
  }
}
