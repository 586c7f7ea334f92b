/** The answers of every version that can be had, and the page that publishes them (docs/reference/nft-versions.md). */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { upstream, type Version, type Versions, versionsOfDebian } from './debian.ts';
import { type Answer, answersOf } from './fact.ts';
import { IPTABLES_FACTS } from './iptables-facts.ts';
import { NFT_FACTS, writeRich } from './nft-facts.ts';
import { rulesOfTable, Scene } from './scene.ts';

/** The answers of a version, by title. */
export interface Column {
  readonly version: Version;
  readonly answers: ReadonlyMap<string, Answer>;
}

/** The versions, and the namespaces in which they are asked. */
export class Matrix {
  readonly versions: Versions;
  readonly #scene: Scene;
  readonly #folder: string;
  readonly #rules: number;

  private constructor(versions: Versions, scene: Scene, folder: string, rules: number) {
    this.versions = versions;
    this.#scene = scene;
    this.#folder = folder;
    this.#rules = rules;
  }

  static async open(): Promise<Matrix> {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-debian-'));
    const scene = await Scene.create();
    try {
      const versions = await versionsOfDebian(folder);
      for (const variant of ['nft', 'legacy'] as const) await scene.writeIptables(variant);
      return new Matrix(versions, scene, folder, await rulesOfTable());
    } catch (error) {
      await scene.remove();
      await rm(folder, { recursive: true });
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#scene.remove();
    await rm(this.#folder, { recursive: true });
  }

  async nft(version: Version): Promise<Column> {
    const [scene, installed] = [this.#scene, ['nft'] as const];
    await writeRich({ scene, installed });
    const older = new Map<string, string>();
    for (const one of this.versions.nftables.slice(0, this.versions.nftables.indexOf(version)))
      older.set(upstream(one.version), await scene.done('ours', one.program('nft'), 'list', 'ruleset'));
    const asked = { scene, installed, older, nft: version.program('nft'), rules: this.#rules };
    return { version, answers: await answersOf(NFT_FACTS, asked) };
  }

  async iptables(version: Version): Promise<Column> {
    const scene = this.#scene;
    await writeRich({ scene, installed: ['nft'] });
    return { version, answers: await answersOf(IPTABLES_FACTS, { scene, version }) };
  }
}

interface PageFacts {
  /** Of the run, as YYYY-MM-DD. */
  readonly date: string;
  /** The version of iptables that wrote the rules of iptables mode, as Debian counts. */
  readonly writer: string;
}

/** The text of docs/reference/nft-versions.md. */
export function page(nft: readonly Column[], iptables: readonly Column[], { date, writer }: PageFacts): string {
  return [
    '# Versions of nft and iptables',
    '',
    '`npm run nft-versions` writes this page; do not edit it.',
    'slicewire writes its rules over netlink, and people list them with the `nft` of their system, which may be older or newer than the',
    'one of the developer.',
    'A rule that an `nft` does not know may end it (k8s#135705), or keep it from its own work (k8s#136786).',
    'So each version that Debian carries gets a table with every kind of Service, in both families, and has to do this with it.',
    `Asked on ${date}.`,
    '',
    '## nft and the table of nftables mode',
    '',
    ...tableOf('nft', nft),
    '',
    ...NOTES,
    '',
    '## iptables and the rules of iptables mode',
    '',
    writerLine(writer),
    '',
    ...tableOf('iptables', iptables),
    '',
    ...IPTABLES_NOTES,
    '',
  ].join('\n');
}

/** Tells whose rules the table of iptables is about. */
export function writerLine(version: string): string {
  return `The rules are those that iptables ${upstream(version)} writes.`;
}

const NOTES = [
  '- nft 0.9.8 knows no random number in a concatenation, and can list the table but not load it: [nftables.md](../nftables.md#saving-and-loading-a-ruleset).',
  '- A file that is loaded over the existing table needs `flush ruleset` or `delete table` at its beginning.',
  '  Without it the kernel would append every rule once more; nft refuses such a file, because it misreads the declaration of a map that it has read back from the kernel.',
  '  A map that nft declares itself with the same words has the same fate.',
  '- JSON is not a form to save the table in: nft 1.0.6 does not load its own JSON of a map with concatenated data, and nft 1.1 loses there that the number is one, and crashes at the copy.',
  '- nft before 1.1 reads memory that it has freed when it reports an element with a range in a concatenation: `nft monitor` prints nonsense there, or crashes.',
  '  Its own sets of that kind do the same. Load balancers with source ranges have such elements, and so have ServiceCIDRs.',
  '- nft 1.0.6 crashes when it lists a table that nft 1.1.2 or later has loaded from a file, whoever wrote the file (k8s#136786):',
  '  the newer one adds declarations that the older one does not know. slicewire declares only what nft 1.0.6 knows, and reads over netlink itself.',
];

const IPTABLES_NOTES = [
  '- iptables 1.8.7 does not show some matches that 1.8.8 and later write as native expressions of nftables (k8s#112477).',
  '  Its list must not be loaded again on such a node.',
  '- "the copy" is made in another network namespace. iptables lists its own tables alone, and nothing of the table `slicewire`.',
];

function tableOf(name: string, columns: readonly Column[]): string[] {
  const titles = [...(columns[0]?.answers.keys() ?? [])];
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [
    row(['', ...columns.map(({ version }) => `${name} ${version.version}`)]),
    row(['---', ...columns.map(() => '---')]),
    row(['carried by', ...columns.map(({ version }) => version.suites.join(', '))]),
    ...titles.map((title) => row([title, ...columns.map(({ answers }) => answers.get(title) ?? '')])),
  ];
}

/** The answers for a version that the page has, by title; undefined where the page does not have the version. */
export function publishedAnswers(text: string, name: string, version: string): Map<string, Answer> | undefined {
  const lines = text.split('\n');
  const start = lines.findIndex(
    (line) => line.startsWith('| ') && cellsOf(line).some((cell) => cell === `${name} ${version}`),
  );
  if (start < 0) return undefined;
  const at = cellsOf(lines[start] ?? '').indexOf(`${name} ${version}`);
  const end = lines.indexOf('', start);
  return new Map(lines.slice(start + 3, end).map((line) => [cellsOf(line)[0] ?? '', cellsOf(line)[at] ?? '']));
}

/** The versions of a program that the page has, as Debian counts, from the oldest. */
export function publishedVersions(text: string, name: string): string[] {
  const lines = text.split('\n');
  const head = lines.map(cellsOf).find((cells) => cells[1]?.startsWith(`${name} `) === true) ?? [];
  return head.slice(1).map((cell) => cell.slice(name.length + 1));
}

/** A bar within a cell is written `\|`. */
const cellsOf = (line: string): string[] =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());
