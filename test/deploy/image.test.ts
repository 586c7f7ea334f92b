/**
 * The image of deploy/Dockerfile, built by a user without rights (buildah, Debian's packages). The two images that it begins
 * with come from a registry elsewhere; here they are made of Debian's packages, so that no registry is needed.
 */
import assert from 'node:assert/strict';
import { chmod, cp, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { realCommands } from '../../src/kernel/commands.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const USER = 'slicewire-image';
/** Milliseconds for one command, most of which fetch something. */
const LONGEST = 300_000;
/** Certificates of this machine: what stands between it and the package registry may have one of its own. */
const CERTIFICATES = '/etc/ssl/certs';

async function run(file: string, ...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await realCommands.run({ file, args }, AbortSignal.timeout(LONGEST));
  assert.equal(exitCode, 0, `${file} ${args.join(' ')}: ${stderr}${stdout}`);
  return stdout;
}

describe('the image', () => {
  let folder: string;
  let isBuilt = false;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-image-'));
    await chmod(folder, 0o755);
    await run('useradd', '--create-home', '--home-dir', join(folder, 'home'), USER);
  });
  after(async () => {
    await buildah('unshare', 'rm', '-rf', join(folder, 'home/.local')).catch(() => undefined);
    await run('userdel', USER);
    await rm(folder, { recursive: true, force: true });
  });

  /** As the user, who has a range of ids of its own and nothing else. */
  async function buildah(...args: string[]): Promise<string> {
    const home = join(folder, 'home');
    const variables = [`HOME=${home}`, `XDG_RUNTIME_DIR=${home}`, 'STORAGE_DRIVER=vfs', 'BUILDAH_ISOLATION=chroot'];
    const who = [`--reuid=${USER}`, `--regid=${USER}`, '--init-groups'];
    return await run('setpriv', ...who, 'env', '-C', home, ...variables, 'buildah', ...args);
  }

  /** An image of these lines, in a context of its own. */
  async function build(tag: string, context: string, lines: readonly string[]): Promise<void> {
    const file = join(folder, 'Dockerfile');
    await writeFile(file, lines.join('\n'));
    await run('chown', '-R', USER, context);
    await buildah('bud', '--quiet', '--tag', tag, '--file', file, context);
  }

  it('begins with what stands for the two images of a registry', async () => {
    const base = join(folder, 'base');
    await mkdir(base);
    await run(
      'mmdebstrap',
      '--quiet',
      '--variant=minbase',
      '--include=ca-certificates',
      'bookworm',
      join(base, 'base.tar'),
    );
    await build('localhost/base', base, ['FROM scratch', 'ADD base.tar /']);
    await rm(base, { recursive: true });
    const tools = join(folder, 'tools');
    await mkdir(tools);
    const npm = await realpath((await run('sh', '-c', 'command -v npm')).trim());
    await cp(process.execPath, join(tools, 'node'), { dereference: true });
    await cp(dirname(dirname(npm)), join(tools, 'npm'), { recursive: true, dereference: true });
    await build('localhost/node', tools, [
      'FROM localhost/base',
      `ENV NODE_EXTRA_CA_CERTS=${CERTIFICATES}/ca-certificates.crt`,
      'RUN apt-get update && apt-get install -y --no-install-recommends libatomic1 libstdc++6',
      'COPY node /usr/local/bin/node',
      'COPY npm /usr/local/lib/node_modules/npm',
      'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm',
    ]);
  });

  it('is built by deploy/Dockerfile as it stands', async () => {
    const source = join(folder, 'source');
    // What .dockerignore leaves out stays here: the user may not read all of it.
    const left = /^(?:\.git|dist|node_modules)$/;
    await cp(ROOT, source, { recursive: true, filter: (path) => !left.test(relative(ROOT, path)) });
    await run('chown', '-R', USER, source);
    const images = ['--build-arg', 'NODE_IMAGE=localhost/node', '--build-arg', 'BASE_IMAGE=localhost/base'];
    const options = ['--volume', `${CERTIFICATES}:${CERTIFICATES}:ro`, ...images, '--tag', 'localhost/slicewire'];
    await buildah('bud', '--quiet', ...options, '--file', join(source, 'deploy/Dockerfile'), source);
    isBuilt = true;
  });

  it('starts without anything of the build, and has the tools that the agent starts', async () => {
    assert.ok(isBuilt);
    const container = (await buildah('from', 'localhost/slicewire')).trim();
    const inside = (...args: string[]) => buildah('run', container, '--', ...args);
    assert.match(await inside('/usr/local/bin/slicewire', 'version'), /^slicewire \d/);
    assert.match(await inside('/usr/local/bin/slicewire', 'run', '--help'), /--proxy-mode/);
    // As an init container does it, for a container with nothing of this image.
    assert.match(
      await inside('sh', '-c', 'cp /usr/local/bin/slicewire-drained /mnt/ && /mnt/slicewire-drained --help'),
      /--pod <name>/,
    );
    for (const tool of ['iptables-nft', 'iptables-legacy', 'ip6tables-nft'])
      assert.match(await inside(tool, '--version'), /^ip6?tables v/);
    assert.match(await inside('sh', '-c', 'command -v node || echo none'), /^none$/m);
    const licences = await inside('ls', '/usr/share/doc/slicewire');
    assert.deepEqual(licences.trim().split(/\s+/), ['LICENSE', 'LICENSE-nodejs', 'NOTICE', 'sbom.spdx.json']);
    const { packages } = JSON.parse(await inside('cat', '/usr/share/doc/slicewire/sbom.spdx.json')) as {
      packages: readonly { readonly name: string }[];
    };
    for (const name of ['slicewire', 'slicewire-drained', 'node', 'pino', 'iptables', 'libc6'])
      assert.ok(
        packages.some((one) => one.name === name),
        name,
      );
    const config = JSON.parse(await buildah('inspect', '--type', 'image', 'localhost/slicewire')) as {
      OCIv1: { config: { Entrypoint: string[]; Cmd: string[] } };
    };
    const { Entrypoint, Cmd } = config.OCIv1.config;
    assert.deepEqual([Entrypoint, Cmd], [['/usr/local/bin/slicewire'], ['run']]);
  });
});
