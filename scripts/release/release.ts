/** Makes all files of a release. */
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import own from '../../package.json' with { type: 'json' };
import { DRAINED_PROGRAM, makeDrainedProgram } from '../executable/drained-program.ts';
import { makeExecutable } from '../executable/make.ts';
import { nodePackage } from '../executable/node-package.ts';
import { emulatorFor, OWN_PLATFORM, PLATFORMS, type TargetPlatform } from '../executable/platform.ts';
import { checkRuntime, sha256 } from '../runtime.ts';
import { writeTarGz } from './archive.ts';
import { writeBundle } from './bundle.ts';
import { sectionOf, UNRELEASED } from './changelog.ts';
import { checkBaseImage, checkChart, checkRepository } from './checks.ts';
import { contentsOf } from './contents.ts';
import { destinations } from './destinations.ts';
import { documentsOf } from './documents.ts';
import { epochOf } from './epoch.ts';
import { writeImage } from './image.ts';
import { ReleaseRefused } from './refused.ts';
import { run } from './run.ts';
import { sbomText } from './sbom.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Options {
  /** An absolute path. */
  readonly output: string;
  readonly baseImage: string | undefined;
  readonly hasImages: boolean;
  readonly isTrial: boolean;
  readonly environment: Readonly<Record<string, string | undefined>>;
  print(line: string): void;
}

/** What the steps share. */
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

/** Throws ReleaseRefused or RuntimeRefused when there can be no release of what is here; nothing is in `output` then. */
export async function makeRelease(options: Options): Promise<void> {
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
