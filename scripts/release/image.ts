/** The image of one platform, as an archive of the OCI image layout, built by buildah from stages of deploy/Dockerfile. */
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DRAINED_PROGRAM } from '../executable/drained-program.ts';
import type { TargetPlatform } from '../executable/platform.ts';
import { run } from '../run.ts';
import { writeTar } from './archive.ts';
import { contentsOf, sbomText } from './sbom.ts';

const DOCKERFILE = fileURLToPath(new URL('../../deploy/Dockerfile', import.meta.url));

interface ImageSource {
  readonly platform: TargetPlatform;
  readonly version: string;
  readonly baseImage: string;
  readonly epoch: number;
  /** Path of the executable. */
  readonly executable: string;
  /** Path of slicewire-drained. */
  readonly drained: string;
  /** Paths of LICENSE, NOTICE and LICENSE-nodejs, by these names. */
  readonly licences: Readonly<Record<string, string>>;
}

/** Writes the archive and the bill of materials of the image. Throws with the messages of buildah. */
export async function writeImage(source: ImageSource, archive: string, sbom: string): Promise<void> {
  const { platform, version, baseImage, epoch, executable, drained } = source;
  const stages = stagesOf(await readFile(DOCKERFILE, 'utf8'));
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-image-'));
  const tag = (part: string) => `localhost/slicewire-${part}-${platform.architecture}:${version}`;
  const [system, read, image] = [tag('system'), tag('read'), tag('release')];
  try {
    const build = (name: string, file: string, ...options: readonly string[]) =>
      buildah(folder, name, file, [`--timestamp=${epoch}`, `--arch=${platform.architecture}`, ...options]);
    await build(system, stages.system, '--build-arg', `BASE_IMAGE=${baseImage}`);
    const text = sbomText(
      await contentsOf({ platform, executable, drained, epoch, system: await filesOf(folder, system, read) }),
    );
    await writeFile(sbom, text);
    await fill(folder, source, text);
    await build(image, stages.image(system));
    const layout = join(folder, 'layout');
    await run('buildah', ['push', '--quiet', image, `oci:${layout}:${version}`]);
    await writeTar({ from: layout, name: '.', file: archive, epoch });
  } finally {
    // There is nothing to remove where the build failed.
    await run('buildah', ['rmi', '--force', image, read, system]).catch(() => undefined);
    await rm(folder, { recursive: true, force: true });
  }
}

async function buildah(folder: string, tag: string, file: string, options: readonly string[]): Promise<void> {
  const context = join(folder, 'context');
  await mkdir(context, { recursive: true });
  const path = join(folder, 'Dockerfile');
  await writeFile(path, file);
  const same = ['--quiet', '--no-cache', '--format=oci'];
  await run('buildah', ['bud', ...same, ...options, '--tag', tag, '--file', path, context]);
}

/** The files of the system that the bill of materials needs. No program of the image runs for it. */
async function filesOf(folder: string, image: string, tag: string): Promise<{ status: string; osRelease: string }> {
  const files = join(folder, 'system');
  const paths = '/var/lib/dpkg/status /usr/lib/os-release';
  await buildah(folder, tag, `FROM scratch\nCOPY --from=${image} ${paths} /\n`, [`--output=type=local,dest=${files}`]);
  const text = (name: string) => readFile(join(files, name), 'utf8');
  return { status: await text('status'), osRelease: await text('os-release') };
}

async function fill(folder: string, { executable, drained, licences }: ImageSource, sbom: string): Promise<void> {
  const documents = join(folder, 'context/doc');
  await mkdir(documents);
  await cp(executable, join(folder, 'context/slicewire'));
  await cp(drained, join(folder, 'context', DRAINED_PROGRAM));
  for (const [name, path] of Object.entries(licences)) await cp(path, join(documents, name));
  await writeFile(join(documents, 'sbom.spdx.json'), sbom);
  // The rights of the files here must not be in the image: they depend on who builds.
  for (const name of [...Object.keys(licences), 'sbom.spdx.json']) await chmod(join(documents, name), 0o644);
  await chmod(documents, 0o755);
}

/** Copies from the stage that a release replaces with files built before: the executable and its documents. */
const FILES = /^COPY --from=documents \/out\//gm;

interface Stages {
  /** A Dockerfile of the system: the base image with Debian's packages. */
  readonly system: string;
  /** A Dockerfile of the image, on the image `base`; the context has the files, `slicewire` and `doc`. */
  image(base: string): string;
}

/** The stages of deploy/Dockerfile that a release builds. Throws when the file does not have them. */
export function stagesOf(dockerfile: string): Stages {
  const stages = dockerfile.split(/^(?=FROM )/m);
  const system = stages.find((stage) => /^FROM \S+ AS system$/m.test(stage));
  const last = stages.at(-1);
  if (system === undefined || last === undefined || !/^FROM system$/m.test(last) || last.search(FILES) < 0)
    throw new Error('deploy/Dockerfile has no stage «system», or its last stage is not made of it and of «documents»');
  return {
    system: `ARG BASE_IMAGE\n${system}`,
    image: (base) => last.replace(/^FROM system$/m, `FROM ${base}`).replace(FILES, 'COPY '),
  };
}
