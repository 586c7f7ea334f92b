/** Archives that are the same for the same files: names in order, one owner, one time. Also the archive of one platform. */
import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, cp, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { DRAINED_PROGRAM } from '../executable/drained-program.ts';
import { run } from '../run.ts';

interface Archived {
  /** The folder in which the names begin. */
  readonly from: string;
  /** A name in this folder: `slicewire-0.1.0`, or `.` for all of them. */
  readonly name: string;
  readonly file: string;
  /** Seconds since 1970: the time of each file. */
  readonly epoch: number;
}

/** Writes an archive of tar. Names come in the order of their bytes, whatever the language; rights are 755 or 644. */
export async function writeTar({ from, name, file, epoch }: Archived): Promise<void> {
  const same = ['--format=ustar', '--sort=name', `--mtime=@${epoch}`, '--mode=u=rwX,go=rX'];
  const owner = ['--owner=0', '--group=0', '--numeric-owner'];
  await run('tar', ['--create', '--file', file, ...same, ...owner, '--directory', from, name]);
}

/** The same, packed by gzip without a time and a name (RFC 1952). */
export async function writeTarGz(archived: Archived): Promise<void> {
  const plain = `${archived.file}.part`;
  await writeTar({ ...archived, file: plain });
  await pipeline(createReadStream(plain), createGzip(), createWriteStream(archived.file));
  await rm(plain);
}

/**
 * The time in all files of a build, in seconds since 1970 (https://reproducible-builds.org/specs/source-date-epoch/); undefined when the
 * variable is not set. Throws when it is no such number.
 */
export function epochOf({
  SOURCE_DATE_EPOCH: value,
}: Readonly<Record<string, string | undefined>>): number | undefined {
  if (value === undefined || value === '') return undefined;
  if (/^\d{1,11}$/.test(value)) return Number(value);
  throw new Error(`SOURCE_DATE_EPOCH=${value}: must be a number of seconds since 1970`);
}

interface BundleSource {
  /** Name of the folder in the archive, and of the archive before `.tar.gz`. */
  readonly name: string;
  readonly epoch: number;
  /** Path of the executable. */
  readonly executable: string;
  /** Path of slicewire-drained. */
  readonly drained: string;
  /** Text of the bill of materials. */
  readonly sbom: string;
  /** Paths, by the names that the files get. */
  readonly licences: Readonly<Record<string, string>>;
  /** Texts, by their paths in the archive: manual pages and completions. */
  readonly documents: ReadonlyMap<string, string>;
  /** The folder of the systemd unit. */
  readonly units: string;
}

/**
 * Writes the archive of one platform for machines without a cluster: the executable under both names, slicewire-drained, their documents,
 * and the systemd unit. `folder`: an empty one for its files.
 */
export async function writeBundle(source: BundleSource, folder: string, archive: string): Promise<void> {
  const { name, epoch, executable, drained, sbom, licences, documents, units } = source;
  const root = join(folder, name);
  await mkdir(join(root, 'systemd'), { recursive: true });
  await cp(executable, join(root, 'slicewire'));
  await chmod(join(root, 'slicewire'), 0o755);
  await cp(drained, join(root, DRAINED_PROGRAM));
  await chmod(join(root, DRAINED_PROGRAM), 0o755);
  // Under this name the executable is a plugin of kubectl.
  await symlink('slicewire', join(root, 'kubectl-slicewire'));
  for (const [file, path] of Object.entries(licences)) await cp(path, join(root, file));
  for (const file of await readdir(units)) await cp(join(units, file), join(root, 'systemd', file));
  await writeFile(join(root, 'sbom.spdx.json'), sbom);
  for (const [path, text] of documents) {
    await mkdir(join(root, path, '..'), { recursive: true });
    await writeFile(join(root, path), text);
  }
  await writeTarGz({ from: folder, name, file: archive, epoch });
}
