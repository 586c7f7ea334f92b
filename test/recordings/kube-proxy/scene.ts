/** A node in namespaces with the recorded rules of kube-proxy in its kernel, a folder with the objects, and commands that ask about both. */
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentProcess } from '../../../src/cli/lab/agent-process.ts';
import { Lab } from '../../../src/cli/lab/lab.ts';
import { type Shadow, shadowSchema } from '../../../src/inspect/wire/shadow.ts';
import { until } from '../../helpers/base/until.ts';
import { SLICEWIRE, startAgent } from '../../helpers/cli/slicewire.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { NODE, OBJECTS, settings } from './objects.ts';

/** Versions of kube-proxy that were recorded, the oldest first. */
export const VERSIONS: readonly string[] = readdirSync(import.meta.dirname)
  .filter((name) => /^\d/.test(name))
  .sort((a, b) => Number(a.split('.')[1]) - Number(b.split('.')[1]));
/** The path of a file of a recording. */
export function recordedFile(version: string, name: string): string {
  return join(import.meta.dirname, version, name);
}

/** Those that were recorded in IPVS mode, too. */
export const IPVS_VERSIONS = VERSIONS.filter((version) => existsSync(recordedFile(version, 'ipvs')));
/** The modes that need no IPVS in the kernel. */
export const MODES = ['iptables', 'nftables'] as const;

/** Those of a version: 1.28 has no nftables mode. */
export function modesOf(version: string): readonly (typeof MODES)[number][] {
  return MODES.filter((mode) => mode === 'iptables' || existsSync(recordedFile(version, 'nftables.nft')));
}

export interface Recorded {
  readonly version: string;
  readonly mode: (typeof MODES)[number] | 'ipvs';
  /** The variant of iptables that the rules are loaded by. */
  readonly variant?: 'nft' | 'legacy';
}

interface Answered {
  readonly status: number | undefined;
  readonly text: string;
}

export class RecordedNode {
  readonly lab: Lab;
  readonly #folder: string;
  readonly #recorded: Recorded;

  private constructor(lab: Lab, folder: string, recorded: Recorded) {
    this.lab = lab;
    this.#folder = folder;
    this.#recorded = recorded;
  }

  static async create(recorded: Recorded, { pods = 1 } = {}): Promise<RecordedNode> {
    const lab = await Lab.create({ commands: shellCommands, pods, remotePods: 0, signal: NEVER });
    return new RecordedNode(lab, await mkdtemp(join(tmpdir(), 'slicewire-of-kube-proxy-')), recorded);
  }

  async remove(): Promise<void> {
    await this.lab.remove();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** The rules in the kernel and the objects become those of the recording. */
  async reset(): Promise<void> {
    const { version, mode } = this.#recorded;
    const at = (name: string) => recordedFile(version, name);
    await this.lab.exec('node', 'nft', 'flush', 'ruleset');
    await this.write(OBJECTS);
    if (mode === 'nftables') await this.lab.exec('node', 'nft', '-f', at('nftables.nft'));
    else if (mode === 'iptables') await this.#restoreRules(at(''));
    else await this.#restoreServers(at('ipvs'));
  }

  /** kube-proxy writes all its rules again; in IPVS mode its virtual servers. */
  async rewrite(): Promise<void> {
    const { version, mode } = this.#recorded;
    if (mode === 'iptables') await this.#restoreRules(recordedFile(version, ''), { isWhole: false });
    else if (mode === 'ipvs')
      await this.#pipe(await readFile(recordedFile(version, 'ipvs/servers.save'), 'utf8'), 'ipvsadm', '-R');
    else {
      const rules = await readFile(recordedFile(version, 'nftables.nft'), 'utf8');
      await this.#pipe(`delete table ip kube-proxy\ndelete table ip6 kube-proxy\n${rules}`, 'nft', '-f', '-');
    }
  }

  /** kube-proxy makes its counters of nfacct itself, and no rule that names one can be loaded without it. */
  async #restoreRules(folder: string, { isWhole } = { isWhole: true }): Promise<void> {
    const { variant = 'nft' } = this.#recorded;
    for (const family of ['ipv4', 'ipv6'] as const) {
      const saved = await readFile(join(folder, `iptables-${family}.rules`), 'utf8');
      const rules = saved.replaceAll(/-m nfacct --nfacct-name *\S* */g, '');
      const tool = `${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${variant}-restore`;
      // kube-proxy writes its own chains alone.
      if (isWhole) await this.#pipe(rules, tool);
      else await this.#pipe(rules.replaceAll(/^(-A |:)[A-Z]+ .*\n/gm, ''), tool, '--noflush');
    }
  }

  async #restoreServers(folder: string): Promise<void> {
    const read = (name: string) => readFile(join(folder, name), 'utf8');
    await this.#pipe('', 'sh', '-c', 'ipvsadm -C; ip link del kube-ipvs0; ipset destroy; true');
    // As kube-proxy does at its start (pkg/proxy/ipvs/proxier.go, NewProxier): without the first, what the node sends is not masqueraded.
    const settings = ['conntrack', 'expire_nodest_conn', 'expire_quiescent_template'];
    await this.#pipe('', 'sysctl', '-qw', ...settings.map((name) => `net.ipv4.vs.${name}=1`));
    await this.#pipe('link add kube-ipvs0 type dummy\n', 'ip', '-b', '-');
    await this.#pipe(await read('addresses.batch'), 'ip', '-b', '-');
    await this.#pipe(await read('sets.save'), 'ipset', '-exist', 'restore');
    await this.#restoreRules(folder);
    await this.#pipe(await read('servers.save'), 'ipvsadm', '-R');
  }

  async #pipe(text: string, program: string, ...words: readonly string[]): Promise<void> {
    const input = () => (text === '' ? [] : text.trimEnd().split('\n'));
    const { exitCode, stderr } = await shellCommands.run({ ...this.lab.inside('node', program, words), input }, NEVER);
    if (exitCode !== 0) throw new Error(`${program}: ${stderr}`);
  }

  async write(objects: readonly object[]): Promise<void> {
    const list = { apiVersion: 'v1', kind: 'List', items: objects };
    await writeFile(join(this.#folder, 'objects.json'), JSON.stringify(list));
  }

  /** `slicewire shadow` on the node. */
  watch(...words: readonly string[]): AgentProcess {
    return startAgent(this.lab, ['shadow', '--manifests', this.#folder, ...settings(this.#recorded.mode), ...words]);
  }

  /** `slicewire run` on the node, in place of kube-proxy. */
  run(...words: readonly string[]): AgentProcess {
    return startAgent(this.lab, ['run', '--manifests', this.#folder, ...settings(this.#recorded.mode), ...words]);
  }

  /** The findings of the shadow; undefined before it answers. */
  async found(): Promise<Shadow | undefined> {
    const { file, args } = this.lab.inside('node', 'env', [...SLICEWIRE, 'status', '--of', 'kube-proxy', '-o', 'json']);
    const { stdout } = await shellCommands.run({ file, args }, NEVER);
    return stdout === '' ? undefined : shadowSchema.parse(JSON.parse(stdout));
  }

  /** The findings of the shadow as soon as they `fits`. Throws with the last findings where that takes too long. */
  async foundWhen(what: string, fits: (found: Shadow) => boolean): Promise<Shadow> {
    let last: Shadow | undefined;
    const isThere = async () => {
      last = await this.found();
      return last !== undefined && fits(last);
    };
    await until(what, isThere, 180_000).catch((error: unknown) => {
      throw new Error(`${(error as Error).message}: ${JSON.stringify(last)}`);
    });
    if (last === undefined) throw new Error('unreachable');
    return last;
  }

  /** With a file of kube-proxy, which has its settings. */
  async askWith(file: object, ...words: readonly string[]): Promise<Answered> {
    const path = join(this.#folder, 'kube-proxy.conf');
    const fields = { hostnameOverride: NODE, clusterCIDR: '10.128.0.0/9', nodePortAddresses: ['primary'] };
    await writeFile(path, JSON.stringify({ ...file, ...fields }));
    return await this.ask(...words, '--config', path);
  }

  /** The flags that name the objects and kube-proxy's settings come last. */
  async ask(...words: readonly string[]): Promise<Answered> {
    return await this.#ask(['--manifests', this.#folder], words);
  }

  /** As `ask`, with the objects of an API server. */
  async askServer(kubeconfig: string, ...words: readonly string[]): Promise<Answered> {
    return await this.#ask(['--kubeconfig', kubeconfig], words);
  }

  async #ask(source: readonly string[], words: readonly string[]): Promise<Answered> {
    const own = [...source, ...settings(this.#recorded.mode)];
    const { file, args } = this.lab.inside('node', 'env', [...SLICEWIRE, ...words, '--of', 'kube-proxy', ...own]);
    const { stdout, stderr, exitCode } = await shellCommands.run({ file, args }, NEVER);
    return { status: exitCode, text: stdout === '' ? stderr : stdout };
  }
}
