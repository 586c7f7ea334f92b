/** Node.js of a platform, from its npm package. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import lock from '../../package-lock.json' with { type: 'json' };
import { realCommands } from '../../src/kernel/commands.ts';
import { type Runtime, RuntimeRefused } from '../runtime.ts';
import { OWN_PLATFORM, type TargetPlatform } from './platform.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NEVER = new AbortController().signal;

export interface NodePackage {
  readonly node: Runtime;
  /** Path of Node.js' licence. */
  readonly licence: string;
}

/**
 * This machine's Node.js is the one that runs this script. Another platform's comes from node_modules; where npm left it out, because
 * it is for another machine, npm fetches it into `folder`. Throws RuntimeRefused when the package is not what package-lock.json says.
 */
export async function nodePackage(platform: TargetPlatform, folder: string): Promise<NodePackage> {
  const name = `node-${platform.name}`;
  const installed = join(ROOT, 'node_modules', name);
  const root = existsSync(installed) ? installed : await fetched(name, folder);
  const isOwn = platform.name === OWN_PLATFORM;
  const node = {
    file: isOwn ? process.execPath : join(root, 'bin/node'),
    version: isOwn ? process.versions.node : lockedPackage(name).version,
    platform: platform.name,
  };
  return { node, licence: join(root, 'LICENSE') };
}

/** Throws RuntimeRefused. */
async function fetched(name: string, folder: string): Promise<string> {
  const { version, integrity } = lockedPackage(name);
  // npm's own variables would carry the settings of the npm that started this script, one of which is its folder.
  const args = ['pack', '--silent', '--pack-destination', folder, `${name}@${version}`];
  const { exitCode, stdout, stderr } = await realCommands.run({ file: 'npm', args }, NEVER);
  if (exitCode !== 0)
    throw new RuntimeRefused(`npm cannot fetch ${name} ${version}: npm pack ended with ${exitCode}: ${stderr.trim()}`);
  const archive = join(folder, stdout.trim());
  const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (found !== integrity)
    throw new RuntimeRefused(`${name} ${version}: its hash is ${found}, but package-lock.json has ${integrity}`);
  const unpacked = await realCommands.run({ file: 'tar', args: ['-x', '-z', '-f', archive, '-C', folder] }, NEVER);
  if (unpacked.exitCode !== 0) throw new RuntimeRefused(`${archive} cannot be unpacked: ${unpacked.stderr.trim()}`);
  return join(folder, 'package');
}

function lockedPackage(name: string): { readonly version: string; readonly integrity: string } {
  const packages: Readonly<Record<string, { version?: string; integrity?: string }>> = lock.packages;
  const { version, integrity } = packages[`node_modules/${name}`] ?? {};
  if (version !== undefined && integrity !== undefined) return { version, integrity };
  throw new RuntimeRefused(`package-lock.json has no version or no hash of ${name}`);
}
