/** What an executable or an image of this repository is made of: the input of its bill of materials. */
import lock from '../../package-lock.json' with { type: 'json' };
import { bundledPackages } from '../bundle.ts';
import type { TargetPlatform } from '../executable/platform.ts';
import runtime from '../runtime.json' with { type: 'json' };
import { RuntimeRefused, sha256 } from '../runtime.ts';
import { distribution, installedPackages } from './dpkg.ts';
import type { Contents, NpmPackage } from './sbom.ts';

export interface Shipped {
  readonly platform: TargetPlatform;
  /** Path of the executable. */
  readonly executable: string;
  /** Path of slicewire-drained. */
  readonly drained: string;
  /** Seconds since 1970. */
  readonly epoch: number;
  /** Texts of /var/lib/dpkg/status and /usr/lib/os-release; only of an image. */
  readonly system?: { readonly status: string; readonly osRelease: string };
}

/** Throws when the lock file does not know a package of the bundle, and RuntimeRefused when this is not the pinned Node.js. */
export async function contentsOf({ platform, executable, drained, epoch, system }: Shipped): Promise<Contents> {
  if (process.versions.node !== runtime.version) {
    throw new RuntimeRefused(
      `this is Node.js ${process.versions.node}, but the executable has ${runtime.version}: run this script by npm`,
    );
  }
  const sums: Readonly<Record<string, string>> = runtime.sha256;
  const parts = Object.entries(process.versions).filter(
    (part): part is [string, string] => typeof part[1] === 'string' && part[1] !== '',
  );
  const { name, version, license } = lock.packages[''];
  return {
    ...{ name, version, license, epoch, architecture: platform.architecture },
    executable: await sha256(executable),
    drained: await sha256(drained),
    node: { version: runtime.version, sha256: sums[platform.name] ?? '', parts: Object.fromEntries(parts) },
    npm: (await bundledPackages('src/main.ts')).map(npmPackage),
    ...(system === undefined
      ? {}
      : { image: { packages: installedPackages(system.status), distribution: distribution(system.osRelease) } }),
  };
}

/** `path` as the lock file has it: `node_modules/pino`. */
function npmPackage(path: string): NpmPackage {
  const packages: Readonly<Record<string, { version?: string; license?: string; integrity?: string }>> = lock.packages;
  const { version, license, integrity } = packages[path] ?? {};
  if (version === undefined || license === undefined || integrity === undefined)
    throw new Error(`package-lock.json has no version, no licence or no hash of ${path}`);
  return { name: path.replace(/^.*node_modules\//, ''), version, license, integrity };
}
