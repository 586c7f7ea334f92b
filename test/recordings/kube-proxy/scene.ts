/** A node in namespaces with the recorded rules of kube-proxy in its kernel, a folder with the objects, and commands that ask about both. */
import { readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Lab } from '../../../src/cli/lab/lab.ts';
import { SLICEWIRE } from '../../helpers/cli/slicewire.ts';
import { shellCommands } from '../../helpers/kernel/shell-commands.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { OBJECTS, SETTINGS } from './objects.ts';

/** Versions of kube-proxy that were recorded, the oldest first. */
export const VERSIONS: readonly string[] = readdirSync(import.meta.dirname)
  .filter((name) => /^\d/.test(name))
  .sort((a, b) => Number(a.split('.')[1]) - Number(b.split('.')[1]));
export const MODES = ['iptables', 'nftables'] as const;

export interface Recorded {
  readonly version: string;
  readonly mode: (typeof MODES)[number];
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

  static async create(recorded: Recorded): Promise<RecordedNode> {
    const lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
    return new RecordedNode(lab, await mkdtemp(join(tmpdir(), 'slicewire-of-kube-proxy-')), recorded);
  }

  async remove(): Promise<void> {
    await this.lab.remove();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** The rules in the kernel and the objects become those of the recording. */
  async reset(): Promise<void> {
    const { version, mode } = this.#recorded;
    const at = (name: string) => join(import.meta.dirname, version, name);
    await this.lab.exec('node', 'nft', 'flush', 'ruleset');
    await this.write(OBJECTS);
    if (mode === 'nftables') {
      await this.lab.exec('node', 'nft', '-f', at('nftables.nft'));
      return;
    }
    // kube-proxy makes its counters of nfacct itself, and no rule that names one can be loaded without it.
    for (const [file, name] of [
      ['iptables-nft-restore', 'iptables-ipv4.rules'],
      ['ip6tables-nft-restore', 'iptables-ipv6.rules'],
    ] as const)
      await this.lab.exec(
        'node',
        'sh',
        '-c',
        `sed 's/-m nfacct --nfacct-name *[^ ]* *//' "$1" | ${file}`,
        'sh',
        at(name),
      );
  }

  async write(objects: readonly object[]): Promise<void> {
    const list = { apiVersion: 'v1', kind: 'List', items: objects };
    await writeFile(join(this.#folder, 'objects.json'), JSON.stringify(list));
  }

  /** The flags that name the objects and kube-proxy's settings come last. */
  async ask(...words: readonly string[]): Promise<{ readonly status: number | undefined; readonly text: string }> {
    const own = ['--manifests', this.#folder, ...SETTINGS];
    const { file, args } = this.lab.inside('node', 'env', [...SLICEWIRE, ...words, '--of', 'kube-proxy', ...own]);
    const { stdout, stderr, exitCode } = await shellCommands.run({ file, args }, NEVER);
    return { status: exitCode, text: stdout === '' ? stderr : stdout };
  }
}
