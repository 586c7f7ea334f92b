/** A place to build images of both architectures in, without a registry: buildah as root of a user namespace, with images of its own. */
import assert from 'node:assert/strict';
import { chmod, chown, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { emulatorFor, OWN_PLATFORM, PLATFORMS, type TargetPlatform } from '../../scripts/executable/platform.ts';
import { realCommands } from '../../src/kernel/commands.ts';

const SCRIPT = fileURLToPath(new URL('sandbox.sh', import.meta.url));
/** Milliseconds for one command. */
const LONGEST = 600_000;
/** Debian's user without rights and files. */
const NOBODY = 65_534;
/** The first bytes of programs (elf(5)): 64 bits, little-endian, any of the two types of programs, and the number of the machine. */
const MACHINES: Readonly<Record<string, string>> = { amd64: '\\x3e', arm64: '\\xb7' };
const ELF = '\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00';
const MASK = `${'\\xff'.repeat(7)}\\x00${'\\xff'.repeat(8)}\\xfe${'\\xff'.repeat(3)}`;

export const BASE = 'localhost/base';

export class Sandbox {
  readonly folder: string;
  readonly #wrapper: readonly string[];
  readonly #variables: readonly string[];

  private constructor(folder: string, other: TargetPlatform) {
    this.folder = folder;
    const [emulator = ''] = emulatorFor(other);
    this.#wrapper = [emulator, `${ELF}${MACHINES[other.architecture]}\\x00`, MASK];
    this.#variables = [
      `CONTAINERS_STORAGE_CONF=${join(folder, 'storage.conf')}`,
      'BUILDAH_ISOLATION=chroot',
      `HOME=${join(folder, 'home')}`,
    ];
  }

  static async create(): Promise<Sandbox> {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-sandbox-'));
    // Others may look for their files in it.
    await chmod(folder, 0o755);
    await mkdir(join(folder, 'home'));
    const [graph, state] = [join(folder, 'storage'), join(folder, 'state')];
    const lines = ['[storage]', 'driver = "overlay"', `graphroot = "${graph}"`, `runroot = "${state}"`];
    await writeFile(join(folder, 'storage.conf'), `${lines.join('\n')}\n`);
    const other = PLATFORMS.find(({ name }) => name !== OWN_PLATFORM);
    assert.ok(other !== undefined);
    return new Sandbox(folder, other);
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Resolves with standard output; a command that fails fails the test. */
  async run(file: string, ...args: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.attempt(file, ...args);
    assert.equal(exitCode, 0, `${file} ${args.join(' ')}: ${stderr}${stdout}`);
    return stdout;
  }

  attempt(file: string, ...args: readonly string[]) {
    const command = ['env', ...this.#variables, SCRIPT, ...this.#wrapper, file, ...args];
    return realCommands.run({ file: 'env', args: command.slice(1) }, AbortSignal.timeout(LONGEST));
  }

  /** BASE for each architecture, of Debian's packages. Nothing of the other architecture runs for it (mmdebstrap(1), chrootless). */
  async makeBase(): Promise<void> {
    const contexts = await Promise.all(
      PLATFORMS.map(async ({ architecture }) => ({ architecture, context: await this.#baseContext(architecture) })),
    );
    await this.run('buildah', 'manifest', 'create', BASE);
    for (const { architecture, context } of contexts) {
      // With a name of its own it stays when an image that was made of it is removed.
      const name = `${BASE}-${architecture}`;
      const options = ['--quiet', `--arch=${architecture}`, `--tag=${name}`, '--file', join(context, 'Dockerfile')];
      await this.run('buildah', 'bud', ...options, context);
      await this.run('buildah', 'manifest', 'add', BASE, `containers-storage:${name}`);
    }
  }

  async #baseContext(architecture: string): Promise<string> {
    const [context, made] = [join(this.folder, `base-${architecture}`), join(this.folder, `made-${architecture}`)];
    await Promise.all([mkdir(context), mkdir(made)]);
    await chown(made, NOBODY, NOBODY);
    // The scripts of the packages run here, so a user without rights runs them.
    const nobody = ['--reuid=nobody', '--regid=nogroup', '--clear-groups', 'env', `HOME=${made}`, `TMPDIR=${made}`];
    const merged = ['--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr', '--include=usr-is-merged'];
    const kind = ['--mode=chrootless', '--variant=apt', `--architectures=${architecture}`, '--quiet', ...merged];
    await this.run('setpriv', ...nobody, 'fakeroot', 'mmdebstrap', ...kind, 'bookworm', join(made, 'base.tar'));
    await rename(join(made, 'base.tar'), join(context, 'base.tar'));
    await rm(made, { recursive: true });
    await writeFile(join(context, 'Dockerfile'), 'FROM scratch\nADD base.tar /\n');
    return context;
  }
}
