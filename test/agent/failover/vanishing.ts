/** A cluster with an agent and a client, of which a Node vanishes while its endpoints stay ready. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentProcess } from '../../../src/cli/lab/agent-process.ts';
import { NodesLab, POD_PORT } from '../../helpers/cli/lab/nodes-lab.ts';
import { SLICEWIRE, startAgent } from '../../helpers/cli/slicewire.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { Attempts } from './attempts.ts';

const WEB = '10.96.0.10';

export interface VanishingOptions {
  readonly mode: 'iptables' | 'ipvs' | 'nftables';
  readonly failover: 'none' | 'confirm';
  /** Nodes beside that of the agent, and the pods on each of them. */
  readonly nodes: number;
  readonly pods: number;
}

export class Vanishing {
  readonly lab: NodesLab;
  readonly agent: AgentProcess;
  readonly client: Attempts;
  readonly #options: VanishingOptions;
  readonly #folder: string;

  /** Connections are attempted from now on. */
  static async start(options: VanishingOptions): Promise<Vanishing> {
    const lab = await NodesLab.create(options);
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-failover-'));
    const vanishing = new Vanishing(lab, folder, options);
    try {
      await vanishing.ready(() => true);
      await vanishing.agent.synced();
      return vanishing;
    } catch (error) {
      await vanishing.end();
      throw error;
    }
  }

  private constructor(lab: NodesLab, folder: string, options: VanishingOptions) {
    const { mode, failover } = options;
    const own = ['--manifests', folder, '--hostname-override', 'node', '--conntrack-max-per-core', '0'];
    const args = ['run', ...own, '--mode', mode, '--failover', failover, '-v', '4'];
    this.lab = lab;
    this.#folder = folder;
    this.#options = options;
    this.agent = startAgent(lab, args);
    this.client = new Attempts(lab, `${WEB}:80`);
  }

  /** The slices say that the pods of these Nodes are ready, and the others are not. */
  async ready(isReady: (node: number) => boolean): Promise<void> {
    const { nodes, pods } = this.#options;
    const endpoints = Array.from({ length: nodes * pods }, (_, i) => {
      const node = 2 + Math.floor(i / pods);
      const address = this.lab.pod(node, 1 + (i % pods));
      return { addresses: [address], nodeName: `node-${node}`, conditions: { ready: isReady(node) } };
    });
    const items = [
      { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' } },
      service({ name: 'web', spec: { clusterIP: WEB, ports: [{ port: 80 }] } }),
      slice({ name: 'web-1', service: 'web', ports: [{ name: '', port: POD_PORT }], endpoints }),
    ];
    await writeFile(join(this.#folder, 'web.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  }

  /** What a command of slicewire prints on the node. */
  async ask(command: string, ...args: readonly string[]): Promise<string> {
    return await this.lab.exec('node', ...SLICEWIRE, command, ...args);
  }

  async end(): Promise<void> {
    await this.client.stop();
    await this.agent.stop();
    await this.lab.remove();
    await rm(this.#folder, { recursive: true });
  }
}
