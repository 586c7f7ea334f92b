/** The archive of one platform for machines without a cluster: the executable under both names, slicewire-drained, their documents, and the systemd unit. */
import { chmod, cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DRAINED_PROGRAM } from '../executable/drained-program.ts';
import { writeTarGz } from './archive.ts';

export interface BundleSource {
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

/** Writes the archive; `folder` is an empty one for its files. */
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
