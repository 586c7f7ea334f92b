/** The platforms that an executable can be built for, the way to run programs of another one here, and Node.js from its npm package. */

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import lock from '../../package-lock.json' with { type: 'json' };
import { realCommands } from '../../src/kernel/commands.ts';
import { type Runtime, RuntimeRefused } from '../runtime.ts';

export interface TargetPlatform {
  /** As in the names of Node.js' releases and npm packages: linux-x64. */
  readonly name: string;
  /** As Debian, Go and images call the architecture. */
  readonly architecture: string;
  /** QEMU's program for one process of this architecture (qemu-user). */
  readonly emulator: string;
  /** Where Debian has the C libraries of this architecture on machines of another one. */
  readonly libraries: string;
  /** Debian's packages of both. */
  readonly packages: readonly string[];
  /** Debian's C compiler for this architecture on machines of another one. */
  readonly compiler: { readonly command: string; readonly packages: readonly string[] };
}

export const PLATFORMS: readonly TargetPlatform[] = [
  {
    name: 'linux-x64',
    architecture: 'amd64',
    emulator: 'qemu-x86_64-static',
    libraries: '/usr/x86_64-linux-gnu',
    packages: ['qemu-user-static', 'libatomic1-amd64-cross', 'libstdc++6-amd64-cross'],
    compiler: {
      command: 'x86_64-linux-gnu-gcc',
      packages: ['gcc-x86-64-linux-gnu', 'linux-libc-dev-amd64-cross'],
    },
  },
  {
    name: 'linux-arm64',
    architecture: 'arm64',
    emulator: 'qemu-aarch64-static',
    libraries: '/usr/aarch64-linux-gnu',
    packages: ['qemu-user-static', 'libatomic1-arm64-cross', 'libstdc++6-arm64-cross'],
    compiler: {
      command: 'aarch64-linux-gnu-gcc',
      packages: ['gcc-aarch64-linux-gnu', 'linux-libc-dev-arm64-cross'],
    },
  },
];

export const OWN_PLATFORM = `${process.platform}-${process.arch}`;

/** Throws RuntimeRefused for a name that is none. */
export function platformNamed(name: string): TargetPlatform {
  const platform = PLATFORMS.find((one) => one.name === name);
  if (platform !== undefined) return platform;
  const names = PLATFORMS.map((one) => one.name).join(' or ');
  throw new RuntimeRefused(`--platform ${name}: must be ${names}`);
}

/**
 * The words before a command of the platform: none for this machine's own. Throws RuntimeRefused where the emulator or the libraries are
 * missing. `path`: as in PATH.
 */
export function emulatorFor(platform: TargetPlatform, path = process.env.PATH ?? ''): readonly string[] {
  if (platform.name === OWN_PLATFORM) return [];
  const { emulator, libraries, packages } = platform;
  const file = path
    .split(delimiter)
    .map((folder) => join(folder, emulator))
    .find((one) => existsSync(one));
  const isComplete = ['libstdc++.so.6', 'libatomic.so.1'].every((name) => existsSync(join(libraries, 'lib', name)));
  if (file !== undefined && isComplete) return [file, '-L', libraries];
  const missing = file === undefined ? `there is no ${emulator}` : `${libraries} has no libstdc++ or no libatomic`;
  throw new RuntimeRefused(
    `${platform.name}: programs of this platform cannot run here, because ${missing}, and the build has to run them. Install ${packages.join(', ')} (on Debian)`,
  );
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NEVER = new AbortController().signal;

interface NodePackage {
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
