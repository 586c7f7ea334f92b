/** A replica of `slicewire fleet` as a Pod of the cluster. */

import { type Child, startChild } from '../../../src/kernel/commands.ts';
import { until } from '../../helpers/base/until.ts';
import { SLICEWIRE } from '../../helpers/cli/slicewire.ts';
import type { Cluster } from '../../upstream/e2e/cluster.ts';
import type { Pod } from '../../upstream/e2e/kubelet.ts';

export const FLEET_PORT = 10_262;

export class FleetReplica {
  readonly pod: Pod;
  readonly log: string[] = [];
  readonly #cluster: Cluster;
  readonly #child: Child;

  /** Starts on a node; resolves when it is ready, and its endpoint too. */
  static async start(cluster: Cluster, name: string, node: string, flags: readonly string[]): Promise<FleetReplica> {
    const pod = await cluster.kubelet.run({
      name,
      namespace: 'kube-system',
      node,
      labels: { app: 'slicewire-fleet' },
      ports: [{ containerPort: FLEET_PORT }],
      serves: [],
      isReady: false,
    });
    await cluster.openApi(pod.networkNamespace);
    const replica = new FleetReplica(cluster, pod, flags);
    try {
      await until('the fleet is ready', async () => {
        const answer = await pod.ask({ address: pod.addresses.v4, port: FLEET_PORT, path: 'readyz' });
        return answer.outcome === 'reply' && answer.status === 200;
      });
      await cluster.kubelet.setReady(pod, true);
      return replica;
    } catch (error) {
      await replica.stop();
      throw new Error(`${(error as Error).message}; its log:\n${replica.log.join('\n')}`);
    }
  }

  private constructor(cluster: Cluster, pod: Pod, flags: readonly string[]) {
    this.pod = pod;
    this.#cluster = cluster;
    const own = ['--kubeconfig', cluster.kubeconfig, `--bind-address=0.0.0.0:${FLEET_PORT}`];
    this.#child = startChild({
      file: 'ip',
      args: ['netns', 'exec', pod.networkNamespace, ...SLICEWIRE, 'fleet', ...own, ...flags],
      onErrorLine: (line) => this.log.push(line),
    });
  }

  /** It is gone without a word, and its Pod with it. */
  async kill(): Promise<void> {
    process.kill(this.#child.pid ?? 0, 'SIGKILL');
    await this.#child.ended;
    await this.#gone();
  }

  async stop(): Promise<void> {
    await this.#child.stop();
    await this.#gone();
  }

  async #gone(): Promise<void> {
    await this.#cluster.cutApi(this.pod.networkNamespace);
    await this.#cluster.kubelet.end(this.pod);
  }
}
