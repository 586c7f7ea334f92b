/** A node in namespaces on which an operator asks: the lab, a folder of manifests, the agent, and commands beside it. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import type { HostAnswer } from '../../src/cli/lab/host-process.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { SLICEWIRE, slicewire } from '../helpers/cli/slicewire.ts';
import { nodeOf } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { withoutSctp } from '../helpers/kernel/without-sctp.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const PODS = [1, 2, 3];
export const TCP_PORT = 8080;
export const UDP_PORT = 5353;

/** The output of a command and its exit status. */
export interface Said {
  readonly command: string;
  readonly status: number | undefined;
  readonly text: string;
}

interface StartOptions {
  readonly path?: string;
  readonly flags?: readonly string[];
}

export type AskedMode = 'nftables' | 'iptables';

export class Scene {
  readonly lab: Lab;
  readonly folder: string;
  /** Tools that come first in the PATH of an agent. */
  readonly #tools: string;
  #agent: AgentProcess | undefined;

  private constructor(lab: Lab, folder: string, tools: string) {
    this.lab = lab;
    this.folder = folder;
    this.#tools = tools;
  }

  /** Three pods on the node, each a server, and one pod on another node. */
  static async create(): Promise<Scene> {
    const lab = await Lab.create({ commands: shellCommands, pods: PODS.length, remotePods: 1, signal: NEVER });
    const temporary = (what: string) => mkdtemp(join(tmpdir(), `slicewire-${what}-`));
    const scene = new Scene(lab, await temporary('questions'), await temporary('tools'));
    for (const n of PODS) {
      await lab.serve(`pod-${n}`, 'TCP', TCP_PORT);
      await lab.serve(`pod-${n}`, 'UDP', UDP_PORT);
    }
    await scene.write('node', nodeOf('zone-a'));
    return scene;
  }

  async remove(): Promise<void> {
    await this.#agent?.stop();
    await this.lab.remove();
    for (const folder of [this.folder, this.#tools]) await rm(folder, { recursive: true });
  }

  /** The same agent in iptables mode on a node whose kernel lacks SCTP. */
  async startWithoutSctp(): Promise<void> {
    await withoutSctp(this.#tools, (await this.run('sh', '-c', 'command -v iptables-restore')).text);
    await this.start('iptables', { path: this.#tools });
  }

  /** Start the agent in this mode, in place of the one before. `path` comes first in its PATH. */
  async start(mode: AskedMode, { path, flags: more = [] }: StartOptions = {}): Promise<void> {
    await this.#agent?.stop();
    const own = ['--manifests', this.folder, '--hostname-override', 'node', '--cluster-cidr', '10.244.0.0/16'];
    // The size of the table of connections belongs to the machine, not to a namespace.
    const periods = [`--${mode}-min-sync-period=0s`, `--${mode}-sync-period=10m`];
    const flags = ['run', `--mode=${mode}`, ...own, '--conntrack-max-per-core', '0', ...periods, ...more];
    const env = path === undefined ? [] : [`PATH=${path}:${process.env.PATH}`];
    const args = [...env, ...SLICEWIRE, ...flags];
    this.#agent = new AgentProcess(this.lab, args, 'env');
    await this.#agent.logged(({ msg }) => msg.startsWith('synced'));
  }

  /** Stop the agent: nobody repairs what others change. The result has the flags with which a command needs no agent. */
  async stop(mode: AskedMode): Promise<readonly string[]> {
    await this.#agent?.stop();
    this.#agent = undefined;
    return [
      `--mode=${mode}`,
      '--manifests',
      this.folder,
      '--hostname-override',
      'node',
      '--cluster-cidr',
      '10.244.0.0/16',
    ];
  }

  /** Write objects to a file of the folder without waiting. */
  async write(name: string, ...objects: object[]): Promise<void> {
    const list = { apiVersion: 'v1', kind: 'List', items: objects };
    await writeFile(join(this.folder, `${name}.json`), JSON.stringify(list));
  }

  /** Write objects, and wait for the sync that takes them. */
  async apply(name: string, ...objects: object[]): Promise<void> {
    await this.#applyUntil(/^(synced|sync incomplete)/, name, objects);
  }

  /** Write objects, and wait until the agent deleted the flows that became stale. */
  async applyUntilSwept(name: string, ...objects: object[]): Promise<void> {
    await this.#applyUntil(/^deleted .* stale UDP flows/, name, objects);
  }

  async #applyUntil(line: RegExp, name: string, objects: readonly object[]): Promise<void> {
    const agent = this.#agent;
    if (agent === undefined) throw new Error('no agent runs');
    const since = agent.log.length;
    await this.write(name, ...objects);
    await agent.logged(({ msg }) => line.test(msg), { since });
  }

  /** `slicewire WORDS` on the node, as an operator types it. */
  async slicewire(...words: string[]): Promise<Said> {
    return await this.#said('slicewire', slicewire(...words).args, words, SLICEWIRE[0]);
  }

  /** Another command on the node. */
  async run(file: string, ...words: string[]): Promise<Said> {
    return await this.#said(file, words, words, file);
  }

  /** A request over the network: who answered and as whom the client was seen, or the failure. */
  async send(from: string, address: string, port: number, more: { protocol?: 'UDP'; fromPort?: number } = {}) {
    const answer: HostAnswer = await this.lab.ask(from, { address, port, ...more });
    if (answer.outcome === 'reply') return `${answer.by} answers, and sees ${answer.seen}`;
    return answer.outcome === 'error' ? answer.error : answer.outcome;
  }

  async #said(name: string, args: readonly string[], words: readonly string[], file: string): Promise<Said> {
    const { exitCode, stdout, stderr } = await shellCommands.run(this.lab.inside('node', file, args), NEVER);
    // Progress comes before the answer. The folder has another name in each run.
    const shown = (text: string) => text.replaceAll(this.folder, '/etc/slicewire/manifests');
    const text = shown(`${stderr}${stdout}`.trimEnd());
    return { command: shown([name, ...words].join(' ')), status: exitCode, text };
  }
}
