/** A node whose ruleset has tables of other programs, written by a given nft, and an agent of nftables mode on it. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { podAddress } from '../../src/cli/lab/lab.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { Scene } from '../questions/scene.ts';
import type { Program } from './debian.ts';
import { FOREIGN } from './foreign.ts';

export class Beside {
  readonly scene: Scene;
  readonly #nft: Program;
  /** `inet typeofs`, … */
  readonly #tables: string[] = [];

  private constructor(scene: Scene, nft: Program) {
    this.scene = scene;
    this.#nft = nft;
  }

  static async create(nft: Program): Promise<Beside> {
    const scene = await Scene.create();
    await scene.write('web', ...webObjects([1, 2], { hasOther: false }));
    return new Beside(scene, nft);
  }

  /** Returns the subjects that this kernel does not know. */
  async writeForeign(): Promise<string[]> {
    const refused: string[] = [];
    for (const [subject, text] of Object.entries(FOREIGN)) {
      const file = join(this.scene.folder, 'foreign.nft');
      await writeFile(file, `${text}\n`);
      const { status } = await this.#run(this.#nft, '-f', file);
      if (status === 0) this.#tables.push(/^table (\S+ \S+)/.exec(text)?.[1] ?? '');
      else refused.push(subject);
    }
    return refused;
  }

  /** What the nft that wrote them lists, without counters. */
  async foreign(): Promise<string> {
    const lists = this.#tables.map(async (table) => {
      const { status, text } = await this.#run(this.#nft, '-s', 'list', 'table', ...table.split(' '));
      assert.equal(status, 0, table);
      return text;
    });
    return (await Promise.all(lists)).join('\n');
  }

  /** Whether an older nft lists the ruleset at all. */
  async isListedBy(nft: Program): Promise<boolean> {
    return (await this.#run(nft, 'list', 'ruleset')).status === 0;
  }

  async ownTables(): Promise<string[]> {
    const { text } = await this.#run(this.#nft, 'list', 'tables');
    return text.split('\n').filter((line) => /^table ip6? slicewire$/.test(line));
  }

  /** The agent's own view, and what a client gets. */
  async isServed(): Promise<void> {
    const verified = await this.scene.slicewire('verify');
    assert.equal(verified.status, 0, verified.text);
    const explained = await this.scene.slicewire('explain', podAddress(3).v4, `${WEB}:80`);
    assert.equal(explained.status, 0, explained.text);
    assert.match(await this.scene.send('pod-3', WEB, 80), /^pod-\d answers/);
  }

  async remove(): Promise<void> {
    await this.scene.remove();
  }

  async #run(
    [file, ...first]: Program,
    ...args: readonly string[]
  ): Promise<{ status: number | undefined; text: string }> {
    const command = this.scene.lab.inside('node', file, [...first, ...args]);
    const { exitCode, stdout } = await realCommands.run(command, NEVER);
    return { status: exitCode, text: stdout };
  }
}
