/** The platforms that an executable can be built for, and how this machine runs programs of another one. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { RuntimeRefused } from '../runtime.ts';

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

/** The platform of this process. */
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
