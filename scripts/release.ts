/**
 * `npm run release` makes everything that a version hands out, in one folder, from one commit: for amd64 and arm64 an archive with the
 * executable, manual pages and completions, an image archive, and their bills of materials; the Helm chart; the notes of the version;
 * SHA256SUMS of all of it. Two runs on the same commit make the same bytes (docs/releasing.md has the conditions).
 * `npm run release -- --help` lists its options.
 */
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import own from '../package.json' with { type: 'json' };
import { commandLine } from './arguments.ts';
import { DRAINED_PROGRAM, makeDrainedProgram } from './executable/drained-program.ts';
import { makeExecutable } from './executable/make.ts';
import { emulatorFor, nodePackage, OWN_PLATFORM, PLATFORMS, type TargetPlatform } from './executable/platform.ts';
import { manPages } from './man-pages.ts';
import { epochOf, writeBundle, writeTarGz } from './release/archive.ts';
import {
  checkBaseImage,
  checkChart,
  checkRepository,
  ReleaseRefused,
  sectionOf,
  UNRELEASED,
} from './release/checks.ts';
import { destinations } from './release/destinations.ts';
import { writeImage } from './release/image.ts';
import { contentsOf, sbomText } from './release/sbom.ts';
import { run } from './run.ts';
import { checkRuntime, RuntimeRefused, sha256 } from './runtime.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

interface Options {
  /** An absolute path. */
  readonly output: string;
  readonly baseImage: string | undefined;
  readonly hasImages: boolean;
  readonly isTrial: boolean;
  readonly environment: Readonly<Record<string, string | undefined>>;
  print(line: string): void;
}

/** The state that the steps share. */
interface Release {
  readonly version: string;
  readonly epoch: number;
  /** Where the files of the release are collected. */
  readonly files: string;
  /** A folder that is removed at the end. */
  readonly folder: string;
  print(line: string): void;
}

interface Executable {
  readonly platform: TargetPlatform;
  readonly file: string;
  /** Path of slicewire-drained. */
  readonly drained: string;
  /** Paths by the names that the files get. */
  readonly licences: Readonly<Record<string, string>>;
}

/** Throws ReleaseRefused or RuntimeRefused when these files cannot be released, and leaves `output` empty then. */
async function makeRelease(options: Options): Promise<void> {
  const { output, hasImages, environment, print } = options;
  const { version } = own;
  if (existsSync(output) && (await readdir(output)).length > 0)
    throw new ReleaseRefused(`--output ${output}: this folder is not empty. Remove it, or name another one`);
  const baseImage = hasImages ? checkBaseImage(options.baseImage) : undefined;
  const notes = await checkedNotes(options);
  const epoch = epochOf(environment) ?? Number(await git('log', '-1', '--format=%ct'));
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-release-'));
  try {
    const files = join(folder, 'files');
    await mkdir(files);
    const release = { version, epoch, files, folder, print };
    const executables = await Promise.all(PLATFORMS.map((platform) => executableOf(platform, release)));
    const documents = await documentsOf(
      executables.find(({ platform }) => platform.name === OWN_PLATFORM)?.file,
      epoch,
    );
    await Promise.all([
      ...executables.map((executable) => bundle(executable, documents, release)),
      ...(baseImage === undefined ? [] : executables.map((executable) => image(executable, baseImage, release))),
      chart(release),
    ]);
    await writeFile(join(files, 'RELEASE_NOTES.md'), `# slicewire ${version}\n\n${notes}\n`);
    await writeFile(join(files, 'SHA256SUMS'), await sums(files));
    await handOver(files, output);
    const made = await readdir(output);
    print('where each file goes:');
    for (const line of destinations(made, version)) print(`  ${line}`);
    print(
      `made: ${output}, with ${made.length} files; its SHA256SUMS has the SHA-256 ${await sha256(join(output, 'SHA256SUMS'))}`,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
}

const git = (...args: string[]) => run('git', ['-C', ROOT, ...args]);

/** The section of CHANGELOG.md, when everything else is as a release needs it. */
async function checkedNotes({ isTrial }: Options): Promise<string> {
  const { version } = own;
  checkChart(parse(await readFile(join(ROOT, 'deploy/chart/Chart.yaml'), 'utf8')), version);
  const changelog = await readFile(join(ROOT, 'CHANGELOG.md'), 'utf8');
  if (isTrial) return sectionOf(changelog, changelog.includes(`\n## [${version}]`) ? version : UNRELEASED);
  const tags = (await git('tag', '--points-at', 'HEAD')).split('\n').filter((tag) => tag !== '');
  checkRepository({ version, changes: await git('status', '--porcelain'), tags });
  return sectionOf(changelog, version);
}

async function executableOf(platform: TargetPlatform, { folder, print }: Release): Promise<Executable> {
  const own = join(folder, platform.name);
  await mkdir(own);
  const emulator = emulatorFor(platform);
  const { node, licence } = await nodePackage(platform, own);
  await checkRuntime(node);
  const file = join(own, 'slicewire');
  await makeExecutable({ node: node.file, emulator, output: file });
  print(`executable for ${platform.name}: SHA-256 ${await sha256(file)}`);
  const drained = join(own, DRAINED_PROGRAM);
  await makeDrainedProgram(platform, drained);
  print(`${DRAINED_PROGRAM} for ${platform.name}: SHA-256 ${await sha256(drained)}`);
  const licences = { LICENSE: join(ROOT, 'LICENSE'), NOTICE: join(ROOT, 'NOTICE'), 'LICENSE-nodejs': licence };
  return { platform, file, drained, licences };
}

async function bundle(
  { platform, file, drained, licences }: Executable,
  documents: ReadonlyMap<string, string>,
  { version, epoch, files, folder, print }: Release,
): Promise<void> {
  const name = `slicewire-${version}-linux-${platform.architecture}`;
  const sbom = sbomText(await contentsOf({ platform, executable: file, drained, epoch }));
  await writeFile(join(files, `${name}.spdx.json`), sbom);
  const own = await mkdtemp(join(folder, 'bundle-'));
  const source = { name, epoch, executable: file, drained, sbom, licences, documents, units: join(ROOT, 'systemd') };
  await writeBundle(source, own, join(files, `${name}.tar.gz`));
  print(`archive: ${name}.tar.gz`);
}

async function image(
  { platform, file, drained, licences }: Executable,
  baseImage: string,
  release: Release,
): Promise<void> {
  const { version, epoch, files, print } = release;
  const name = `slicewire-${version}-image-linux-${platform.architecture}`;
  const source = { platform, version, baseImage, epoch, executable: file, drained, licences };
  await writeImage(source, join(files, `${name}.oci.tar`), join(files, `${name}.spdx.json`));
  print(`image: ${name}.oci.tar`);
}

/** As `helm package` names it: one folder with the name of the chart, as .helmignore leaves it. */
async function chart({ version, epoch, files, folder, print }: Release): Promise<void> {
  const own = join(folder, 'chart');
  const name = `slicewire-${version}.tgz`;
  await cp(join(ROOT, 'deploy/chart'), join(own, 'slicewire'), { recursive: true });
  await writeTarGz({ from: own, name: 'slicewire', file: join(files, name), epoch });
  print(`chart: ${name}`);
}

/** Lines of sha256sum(1), sorted by name. */
async function sums(folder: string): Promise<string> {
  const names = (await readdir(folder)).sort();
  return (await Promise.all(names.map(async (name) => `${await sha256(join(folder, name))}  ${name}\n`))).join('');
}

/** A folder that does not exist, or an empty one, becomes the release. */
async function handOver(files: string, output: string): Promise<void> {
  await mkdir(output, { recursive: true });
  for (const name of await readdir(files)) {
    await chmod(join(files, name), 0o644);
    // The folders may be on different file systems.
    await rename(join(files, name), join(output, name)).catch(() => cp(join(files, name), join(output, name)));
  }
}

/** The names under which shells look for completions. */
const COMPLETIONS = { bash: 'slicewire', zsh: '_slicewire', fish: 'slicewire.fish' } as const;

/**
 * Manual pages, and completions as the executable prints them: texts by their paths in the archive. `executable`: one that runs on this
 * machine; `epoch`: seconds since 1970.
 */
async function documentsOf(executable: string | undefined, epoch: number): Promise<ReadonlyMap<string, string>> {
  if (executable === undefined) throw new Error('no executable of this machine was built');
  const completions = Object.entries(COMPLETIONS).map(
    async ([shell, name]): Promise<[string, string]> => [
      `completions/${shell}/${name}`,
      await run(executable, ['completion', shell]),
    ],
  );
  const date = new Date(epoch * 1000).toISOString().slice(0, 10);
  const pages = [...manPages(date)].map(([file, text]): [string, string] => [`man/man8/${file}`, text]);
  return new Map([...pages, ...(await Promise.all(completions))]);
}

const { values } = commandLine({
  command: 'npm run release',
  about:
    'Makes everything that a version hands out, for amd64 and arm64, in one folder (docs/releasing.md). SOURCE_DATE_EPOCH is the time in all files, in seconds since 1970; without it, the time of the commit.',
  options: {
    output: {
      type: 'string',
      value: 'FOLDER',
      help: 'an empty folder, or one that does not exist; without it dist/release of this repository',
    },
    'base-image': { type: 'string', value: 'IMAGE', help: 'begins the images; named by digest' },
    'without-images': { type: 'boolean', help: 'makes no images' },
    trial: {
      type: 'boolean',
      help: 'accepts changed files, a commit without a tag, and the section [Unreleased] of CHANGELOG.md',
    },
  },
});
try {
  await makeRelease({
    output: resolve(values.output ?? join(ROOT, 'dist/release')),
    baseImage: values['base-image'],
    hasImages: !values['without-images'],
    isTrial: values.trial,
    environment: process.env,
    print: (line) => process.stdout.write(`${line}\n`),
  });
} catch (error) {
  const isTheirs = error instanceof ReleaseRefused || error instanceof RuntimeRefused;
  if (!isTheirs) throw error;
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}
