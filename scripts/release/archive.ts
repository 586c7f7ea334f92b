/** Archives that are the same for the same files: names in order, one owner, one time. */
import { createReadStream, createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { run } from './run.ts';

export interface Archived {
  /** The folder that the names begin in. */
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
