/** The node of a lab with a folder of manifests, and the agents that a test runs there: they are stopped after it, whatever became of it. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentProcess } from '../../../../src/cli/lab/agent-process.ts';
import type { Lab } from '../../../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../../../src/kernel/commands.ts';
import { shellCommands } from '../../kernel/shell-commands.ts';
import { NEVER } from '../../proxy/rig.ts';
import { type Program, SLICEWIRE } from '../slicewire.ts';

/** What became of a command of slicewire. */
export interface Ran {
  readonly status: number | undefined;
  readonly out: string;
  readonly error: string;
}

export class ManifestNode {
  readonly folder: string;
  readonly #lab: Lab;
  readonly #at: string;
  readonly #program: Program;
  readonly #running: { stop(): Promise<void> }[] = [];

  static async create(lab: Lab): Promise<ManifestNode> {
    return new ManifestNode(lab, await temporary());
  }

  /** Another host of the lab as a node of the same cluster: it has the same manifests. Its agents are stopped by itself, too. */
  beside(at: string): ManifestNode {
    return new ManifestNode(this.#lab, this.folder, at, this.#program);
  }

  /** The same node with another version of slicewire. Its agents are stopped by itself, too. */
  with(program: Program): ManifestNode {
    return new ManifestNode(this.#lab, this.folder, this.#at, program);
  }

  private constructor(lab: Lab, folder: string, at = 'node', program: Program = SLICEWIRE) {
    this.#lab = lab;
    this.folder = folder;
    this.#at = at;
    this.#program = program;
  }

  /** End what still runs. */
  async stop(): Promise<void> {
    for (const child of this.#running.splice(0)) await child.stop();
  }

  /** Stop what runs, and remove the folder. */
  async clear(): Promise<void> {
    await this.stop();
    await rm(this.folder, { recursive: true });
  }

  /** Stop it with the rest. */
  keep<T extends { stop(): Promise<void> }>(child: T): T {
    this.#running.push(child);
    return child;
  }

  async write(name: string, ...objects: object[]): Promise<void> {
    const list = { apiVersion: 'v1', kind: 'List', items: objects };
    await writeFile(join(this.folder, `${name}.json`), JSON.stringify(list));
  }

  async delete(name: string): Promise<void> {
    await rm(join(this.folder, `${name}.json`));
  }

  /** An agent that goes on. */
  start(...flags: string[]): AgentProcess {
    return this.#start('run', ...this.#own(), ...flags);
  }

  /** The same with the objects of an API server instead of the folder's. */
  startFrom(kubeconfig: string, ...flags: string[]): AgentProcess {
    const args = ['run', '--kubeconfig', kubeconfig, ...this.#settings(), ...flags];
    return this.#start(...args);
  }

  /** The program and its arguments for a command of slicewire. */
  command(command: string, ...flags: string[]): Program {
    return [...this.#program, command, ...this.#own(), ...flags];
  }

  /** The same by a command that does something first: `setpriv …`, `env …`. */
  startBy([file = '', ...before]: readonly string[], ...flags: string[]): AgentProcess {
    const args = [...before, ...this.command('run', ...flags)];
    return this.keep(new AgentProcess(this.#lab, args, file, this.#at));
  }

  /** Run a command of slicewire to its end. */
  run(command: string, ...flags: string[]): Promise<Ran> {
    return this.runBy([], command, ...flags);
  }

  /** The same by a command that does something first. */
  async runBy(before: readonly string[], command: string, ...flags: string[]): Promise<Ran> {
    const own = command === 'cleanup' ? [] : this.#own();
    return await this.#ran([...before, ...this.#program, command, ...own, ...flags]);
  }

  /** Ask the agent of the node. */
  async asks(command: string, ...flags: string[]): Promise<Ran> {
    return await this.#ran([...this.#program, command, ...flags]);
  }

  /** Run a script of bash that goes on until the test ends. */
  shell(script: string): Child {
    return this.keep(startChild(this.#lab.inside(this.#at, 'bash', ['-c', script])));
  }

  async #ran([file = '', ...args]: readonly string[]): Promise<Ran> {
    const inside = this.#lab.inside(this.#at, file, args);
    const { exitCode, stdout, stderr } = await shellCommands.run(inside, NEVER);
    return { status: exitCode, out: stdout, error: stderr };
  }

  #start(...args: readonly string[]): AgentProcess {
    const [file = '', ...before] = this.#program;
    return this.keep(new AgentProcess(this.#lab, [...before, ...args], file, this.#at));
  }

  #own(): string[] {
    return ['--manifests', this.folder, ...this.#settings()];
  }

  /** The size of the table of connections is the host's: a namespace cannot set it. */
  #settings(): string[] {
    return ['--hostname-override', this.#at, '--conntrack-max-per-core', '0'];
  }
}

const temporary = () => mkdtemp(join(tmpdir(), 'slicewire-test-'));
