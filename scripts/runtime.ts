/**
 * Checks the Node.js that goes into the executable, and so runs as root on every node: its SHA-256 must be the one in runtime.json.
 * With a release of Node.js (https://nodejs.org/dist/), also compares it with that: SHASUMS256.txt has the sums of archives, so the
 * archive is unpacked.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { realCommands } from '../src/kernel/commands.ts';
import pinned from './runtime.json' with { type: 'json' };

const NEVER = new AbortController().signal;

export interface Runtime {
  readonly file: string;
  readonly version: string;
  /** As in the names of Node.js' releases, such as linux-x64. */
  readonly platform: string;
}

/** The files of a release of Node.js. */
export interface Release {
  /** Path of a SHASUMS256.txt. */
  readonly sums: string;
  /** Path of node-vVERSION-PLATFORM.tar.xz, or .tar.gz. */
  readonly archive: string;
}

/** Not the pinned Node.js; the message says what to do. */
export class RuntimeRefused extends Error {}

/** Resolves with the SHA-256 of the file. Throws RuntimeRefused. */
export async function checkRuntime({ file, version, platform }: Runtime): Promise<string> {
  const sums: Readonly<Record<string, string>> = pinned.sha256;
  const expected = sums[platform];
  if (version !== pinned.version) {
    throw new RuntimeRefused(
      `${file} is Node.js ${version}, but scripts/runtime.json pins ${pinned.version}: run npm ci, or pin this version in package.json and scripts/runtime.json`,
    );
  }
  if (expected === undefined) {
    throw new RuntimeRefused(
      `scripts/runtime.json has no SHA-256 of Node.js for ${platform}, only for ${Object.keys(sums).join(', ')}: add it`,
    );
  }
  const found = await sha256(file);
  if (found !== expected) {
    throw new RuntimeRefused(
      `${file} is not the Node.js ${version} for ${platform} that scripts/runtime.json pins: its SHA-256 is ${found} instead of ${expected}. Nothing was built; remove node_modules and run npm ci`,
    );
  }
  return found;
}

/** Throws RuntimeRefused when the file differs from the release. */
export async function compareWithRelease({ file, version, platform }: Runtime, release: Release): Promise<void> {
  const name = basename(release.archive);
  const root = `node-v${version}-${platform}`;
  if (name !== `${root}.tar.xz` && name !== `${root}.tar.gz`) {
    throw new RuntimeRefused(`--archive ${release.archive}: must be ${root}.tar.xz or ${root}.tar.gz`);
  }
  const sum = sumOf(name, await readFile(release.sums, 'utf8'));
  if (sum === undefined) throw new RuntimeRefused(`--sums ${release.sums}: no line for ${name}`);
  const found = await sha256(release.archive);
  if (found !== sum) {
    throw new RuntimeRefused(`${release.archive}: its SHA-256 is ${found}, but ${release.sums} has ${sum}`);
  }
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-release-'));
  try {
    const args = ['-x', '-f', release.archive, '-C', folder, `${root}/bin/node`];
    const { exitCode, stderr } = await realCommands.run({ file: 'tar', args }, NEVER);
    if (exitCode !== 0) throw new RuntimeRefused(`${release.archive} cannot be unpacked: ${stderr.trim()}`);
    const [ours, published] = await Promise.all([sha256(file), sha256(join(folder, root, 'bin/node'))]);
    if (ours !== published) {
      throw new RuntimeRefused(
        `${file} is not the Node.js of the release: its SHA-256 is ${ours}, but ${root}/bin/node in ${release.archive} has ${published}`,
      );
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The sum of the named file, from lines such as `ab…  node-v26.10.0-linux-x64.tar.xz`. */
function sumOf(name: string, sums: string): string | undefined {
  const words = sums.split('\n').map((line) => line.trim().split(/\s+/));
  return words.find(([sum = '', of = '']) => /^[0-9a-f]{64}$/.test(sum) && of.replace(/^\*/, '') === name)?.[0];
}

export async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}
