/** `npm run release`, whole: what it makes for both architectures, that it works, and that a second run makes the same bytes. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cp, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import own from '../../package.json' with { type: 'json' };
import { MAX_DRAINED_BYTES } from '../../scripts/executable/drained-program.ts';
import { emulatorFor, OWN_PLATFORM, PLATFORMS, type TargetPlatform } from '../../scripts/executable/platform.ts';
import { run } from '../../scripts/run.ts';
import { BASE, Sandbox } from './sandbox.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EPOCH = 1_795_000_000;
const { version } = own;

interface Spdx {
  readonly packages: readonly { readonly SPDXID: string; readonly name: string; readonly versionInfo: string }[];
}

describe('a release', () => {
  let sandbox: Sandbox;
  before(async () => {
    sandbox = await Sandbox.create();
  });
  after(() => sandbox.remove());
  const path = (...names: string[]) => join(sandbox.folder, ...names);

  /** The sources as a commit of its own, with the tag that a release needs. */
  async function repository(folder: string): Promise<void> {
    const left = /^(?:\.git|dist|node_modules)$/;
    await cp(ROOT, folder, { recursive: true, filter: (from) => !left.test(relative(ROOT, from)) });
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const who = ['-c', 'user.name=tests', '-c', 'user.email=tests@example.org', '-c', 'init.defaultBranch=main'];
    const git = (...args: string[]) =>
      run('env', [`GIT_COMMITTER_DATE=${EPOCH} +0000`, 'git', '-C', folder, ...who, ...args]);
    await git('init', '--quiet');
    await git('add', '--all');
    await git('commit', '--quiet', '--message', 'All');
    await git('tag', `v${version}`);
  }

  const release = (folder: string, variables: readonly string[], ...options: string[]) =>
    sandbox.attempt('env', ...variables, process.execPath, join(folder, 'scripts/release.ts'), ...options);

  /** The file of a release, without its name. */
  const made = (run: string, name: string) => path(run, 'dist/release', name);

  it('begins with what stands for an image of a registry', () => sandbox.makeBase());

  it('is refused with changed files, and leaves nothing', async () => {
    const folder = path('first');
    await repository(folder);
    await writeFile(join(folder, 'new.txt'), '');
    const { exitCode, stderr } = await release(folder, [], '--base-image', BASE);
    assert.deepEqual(
      [exitCode, stderr],
      [
        1,
        'release: the working tree differs from the commit: new.txt. Commit these files, or make a trial with --trial\n',
      ],
    );
    await run('rm', [join(folder, 'new.txt')]);
    assert.ok(!(await readdir(folder)).includes('dist'));
  });

  it('has archives, images and bills of materials for both architectures, the chart, the notes, and the sums of them', async () => {
    const { exitCode, stdout, stderr } = await release(path('first'), [], '--base-image', BASE);
    assert.equal(exitCode, 0, `${stderr}${stdout}`);
    const each = PLATFORMS.flatMap(({ architecture }) => [
      `slicewire-${version}-image-linux-${architecture}.oci.tar`,
      `slicewire-${version}-image-linux-${architecture}.spdx.json`,
      `slicewire-${version}-linux-${architecture}.spdx.json`,
      `slicewire-${version}-linux-${architecture}.tar.gz`,
    ]);
    const names = ['RELEASE_NOTES.md', 'SHA256SUMS', ...each, `slicewire-${version}.tgz`];
    assert.deepEqual((await readdir(made('first', ''))).sort(), names.sort());
    for (const name of names) assert.ok(stdout.includes(`\n  ${name} `), `${name} has no place: ${stdout}`);
    const checked = await run('env', ['-C', made('first', ''), 'sha256sum', '--check', '--strict', 'SHA256SUMS']);
    assert.equal(checked.trim().split('\n').length, names.length - 1);
    const notes = await readFile(made('first', 'RELEASE_NOTES.md'), 'utf8');
    assert.match(notes, new RegExp(`^# slicewire ${version.replaceAll('.', '\\.')}\n\n[^]*### Added\n`));
  });

  it('is the same from another folder, in other surroundings', async () => {
    const folder = path('other');
    await run('git', ['clone', '--quiet', path('first'), folder]);
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const variables = ['LANG=de_DE.UTF-8', 'TZ=Asia/Tokyo', `TMPDIR=${path('home')}`, 'NODE_OPTIONS=--no-warnings'];
    const { exitCode, stdout, stderr } = await release(folder, variables, '--base-image', BASE);
    assert.equal(exitCode, 0, `${stderr}${stdout}`);
    const sums = (run: string) => readFile(made(run, 'SHA256SUMS'), 'utf8');
    assert.equal(await sums('other'), await sums('first'));
  });

  for (const platform of PLATFORMS) {
    const { architecture } = platform;
    it(`has an executable for ${architecture} that runs, with its documents`, async () => {
      const name = `slicewire-${version}-linux-${architecture}`;
      await run('tar', ['-x', '-f', made('first', `${name}.tar.gz`), '-C', path('home')]);
      const command = [...emulatorFor(platform), path('home', name, 'slicewire')];
      const said = await run('env', ['-i', ...command, 'version']);
      assert.match(said, new RegExp(`^slicewire ${version.replaceAll('.', '\\.')} `));
      const drained = path('home', name, 'slicewire-drained');
      assert.ok((await stat(drained)).size < MAX_DRAINED_BYTES);
      // The emulator alone: it needs no library.
      const help = await run('env', ['-i', ...emulatorFor(platform).slice(0, 1), drained, '--help']);
      assert.match(help, /--pod <name>/);
      const files = await readdir(path('home', name));
      for (const file of ['LICENSE', 'LICENSE-nodejs', 'NOTICE', 'kubectl-slicewire', 'sbom.spdx.json', 'systemd'])
        assert.ok(files.includes(file), file);
      assert.equal(
        await readFile(path('home', name, 'sbom.spdx.json'), 'utf8'),
        await readFile(made('first', `${name}.spdx.json`), 'utf8'),
      );
    });

    it(`has an image for ${architecture} that runs, and that has its bill of materials inside`, () =>
      checkImage(platform));
  }

  async function checkImage({ name, architecture }: TargetPlatform): Promise<void> {
    const file = made('first', `slicewire-${version}-image-linux-${architecture}.oci.tar`);
    const layout = path(`layout-${architecture}`);
    await mkdir(layout);
    await run('tar', ['-x', '-f', file, '-C', layout]);
    const index = JSON.parse(await readFile(join(layout, 'index.json'), 'utf8')) as { manifests: { digest: string }[] };
    const blob = async (digest = '') => {
      const bytes = await readFile(join(layout, 'blobs', digest.replace(':', '/')));
      assert.equal(`sha256:${createHash('sha256').update(bytes).digest('hex')}`, digest);
      return JSON.parse(bytes.toString()) as never;
    };
    const manifest: { config: { digest: string } } = await blob(index.manifests[0]?.digest);
    const config: { architecture: string; created: string; config: { Entrypoint: string[]; Cmd: string[] } } =
      await blob(manifest.config.digest);
    assert.deepEqual([config.architecture, new Date(config.created).getTime()], [architecture, EPOCH * 1000]);
    assert.deepEqual([config.config.Entrypoint, config.config.Cmd], [['/usr/local/bin/slicewire'], ['run']]);
    const container = (await sandbox.run('buildah', 'from', `--arch=${architecture}`, `oci-archive:${file}`)).trim();
    const inside = (...args: string[]) => sandbox.run('buildah', 'run', container, '--', ...args);
    assert.match(await inside('/usr/local/bin/slicewire', 'version'), /^slicewire \d/);
    assert.match(await inside('/usr/local/bin/slicewire-drained', '--help'), /--pod <name>/);
    // The emulator has no netlink of netfilter, without which iptables-nft does not even say its version.
    const tools = ['iptables-legacy', 'iptables-nft'].slice(0, name === OWN_PLATFORM ? 2 : 1);
    for (const tool of tools) assert.match(await inside(tool, '--version'), /^iptables v/);
    // Copied, because buildah may lose what a program prints as its last words.
    const copied = path(`copied-${architecture}`);
    const script =
      'root=$(buildah mount "$0") && mkdir "$1" && cp -r "$root/usr/share/doc/slicewire" "$root/var/lib/dpkg" "$1"';
    await sandbox.run('sh', '-c', script, container, copied);
    const documents = (await readdir(join(copied, 'slicewire'))).sort();
    assert.deepEqual(documents, ['LICENSE', 'LICENSE-nodejs', 'NOTICE', 'sbom.spdx.json']);
    const sbom = await readFile(join(copied, 'slicewire/sbom.spdx.json'), 'utf8');
    assert.equal(sbom, await readFile(file.replace('.oci.tar', '.spdx.json'), 'utf8'));
    const { packages } = JSON.parse(sbom) as Spdx;
    const debian = packages.filter(({ SPDXID }) => SPDXID.startsWith('SPDXRef-Debian-'));
    const listed = (await run('dpkg-query', [`--admindir=${join(copied, 'dpkg')}`, '--show'])).replace(
      /(?::\w+)?\t/g,
      ' ',
    );
    assert.deepEqual(debian.map((one) => `${one.name} ${one.versionInfo}`).sort(), listed.trim().split('\n').sort());
  }
});
