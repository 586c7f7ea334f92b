/**
 * Nodes of a cluster on one network: `node`, which runs the agent and has the pod `pod`, and `node-2`, `node-3`… of which each has pods.
 * A Node of them can vanish: its cable is pulled, and nobody answers for it.
 */

import { fileURLToPath } from 'node:url';
import { Host } from '../../../../src/cli/lab/lab.ts';
import { Namespaces } from '../../../../src/cli/lab/network.ts';
import { startChild } from '../../../../src/kernel/commands.ts';
import { shellCommands } from '../../kernel/shell-commands.ts';
import { NEVER } from '../../proxy/rig.ts';

const HOST_PROCESS = fileURLToPath(new URL('../../../../src/cli/lab/host-process.ts', import.meta.url));
const BACKLOG = fileURLToPath(new URL('../../../agent/failover/backlog-inside.ts', import.meta.url));
export const POD_PORT = 8080;

export class NodesLab {
  readonly #namespaces = new Namespaces(shellCommands, NEVER);
  readonly #hosts = new Map<string, { stop(): Promise<void> }>();

  /** `nodes`: how many there are beside that of the agent; `pods`: how many each of these has. Their pods serve TCP. */
  static async create({ nodes, pods }: { readonly nodes: number; readonly pods: number }): Promise<NodesLab> {
    const lab = new NodesLab();
    try {
      await lab.#build(nodes, pods);
      return lab;
    } catch (error) {
      await lab.remove();
      throw error;
    }
  }

  /** The n-th pod of a Node. */
  pod(node: number, n: number): string {
    return `10.244.${node}.${10 + n}`;
  }

  inside(name: string, file: string, args: readonly string[]): { file: string; args: string[] } {
    return this.#namespaces.inside(name, file, args);
  }

  async exec(name: string, file: string, ...args: string[]): Promise<string> {
    return await this.#namespaces.exec(name, file, ...args);
  }

  /** The cable of a Node, at the switch. */
  async cable(name: string, state: 'up' | 'down'): Promise<void> {
    await this.exec('lan', 'ip', 'link', 'set', `to-${name}`, state);
  }

  /** The pods of a Node take no connections any more: their process is stopped, and its backlog is full at once. */
  async fillBacklog(name: string): Promise<void> {
    await this.#hosts.get(name)?.stop();
    const { promise, resolve } = Promise.withResolvers<void>();
    const command = this.inside(name, process.execPath, [BACKLOG, String(POD_PORT)]);
    this.#hosts.set(name, startChild({ ...command, onLine: () => resolve() }));
    await promise;
  }

  async remove(): Promise<void> {
    await Promise.all([...this.#hosts.values()].map((host) => host.stop()));
    await this.#namespaces.remove();
  }

  async #build(nodes: number, pods: number): Promise<void> {
    await this.#add('lan');
    await this.exec('lan', 'ip', 'link', 'add', 'lan0', 'type', 'bridge');
    await this.exec('lan', 'ip', 'link', 'set', 'lan0', 'up');
    await this.#addNode('node', 1);
    await this.#add('pod');
    await this.exec(
      'pod',
      'ip',
      'link',
      'add',
      'eth0',
      'type',
      'veth',
      'peer',
      'name',
      'pod0',
      'netns',
      this.#namespaces.name('node'),
    );
    await this.exec('node', 'ip', 'address', 'add', '10.244.1.1/24', 'dev', 'pod0');
    await this.exec('node', 'ip', 'link', 'set', 'pod0', 'up');
    await this.exec('pod', 'ip', 'address', 'add', '10.244.1.11/24', 'dev', 'eth0');
    await this.exec('pod', 'ip', 'link', 'set', 'eth0', 'up');
    await this.exec('pod', 'ip', 'route', 'add', 'default', 'via', '10.244.1.1');
    for (let node = 2; node <= nodes + 1; node++) {
      const name = `node-${node}`;
      await this.#addNode(name, node);
      for (let n = 1; n <= pods; n++)
        await this.exec(name, 'ip', 'address', 'add', `${this.pod(node, n)}/32`, 'dev', 'lo');
      await this.exec(name, 'ip', 'route', 'add', '10.244.1.0/24', 'via', '192.168.77.1');
      await this.exec('node', 'ip', 'route', 'add', `10.244.${node}.0/24`, 'via', `192.168.77.${node}`);
      const host = new Host(this.inside(name, process.execPath, [HOST_PROCESS]));
      this.#hosts.set(name, host);
      await host.command({ kind: 'serve', protocol: 'TCP', port: POD_PORT, name });
    }
  }

  async #addNode(name: string, n: number): Promise<void> {
    await this.#add(name);
    const lan = this.#namespaces.name('lan');
    await this.exec(name, 'ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', `to-${name}`, 'netns', lan);
    await this.exec('lan', 'ip', 'link', 'set', `to-${name}`, 'master', 'lan0', 'up');
    await this.exec(name, 'ip', 'address', 'add', `192.168.77.${n}/24`, 'dev', 'eth0');
    await this.exec(name, 'ip', 'link', 'set', 'eth0', 'up');
    await this.exec(name, 'sysctl', '-qw', 'net.ipv4.ip_forward=1');
  }

  async #add(name: string): Promise<void> {
    await this.#namespaces.add(name);
    await this.exec(name, 'ip', 'link', 'set', 'lo', 'up');
  }
}
