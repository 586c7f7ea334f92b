/** Who may import whom (docs/architecture.md). When this test is in the way, the structure is probably being bent. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { importsOf, sourceFiles } from '../scripts/imports.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const FILES = sourceFiles('src', 'native');
const IMPORTS = FILES.flatMap(importsOf);

/** Folders whose files may not lead out of the repository. */
const CLOSED = ['src', 'native', 'test', 'scripts', 'deploy', 'docs', 'systemd', '.ci'];

/** Paths in a file that begin with `..` and end outside the repository, and folders that one machine has. */
function pathsOut(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const relatives = [...text.matchAll(/(?<![\w.@-])\.\.?(?:\/[\w.@-]+)*\/\.\.(?:\/[\w.@-]+)*|\.\.\/[\w./@-]+/g)]
    .map(([path]) => path)
    .filter((path) => relative(ROOT, resolve(ROOT, dirname(file), path)).startsWith('..'));
  const absolutes = [...text.matchAll(/(?<![\w.:/-])\/(?:work|home)\/\w[\w./-]*/g)].map(([path]) => path);
  return [...relatives, ...absolutes].map((path) => `${file}: ${path}`);
}

const inside = (file: string, ...folders: string[]) => folders.some((folder) => file.startsWith(folder));

/** Files under `folder` import nothing but what is allowed. */
function only(folder: string, allowed: (to: string, from: string, isTypeOnly: boolean) => boolean): void {
  const bad = IMPORTS.filter(({ from, to, isTypeOnly }) => inside(from, folder) && !allowed(to, from, isTypeOnly));
  assert.deepEqual(bad, []);
}

const PURE_MODE_FILES = [
  ...['desire', 'plan', 'render', 'names', 'settings', 'static-chains', 'jumps'],
  ...['objects', 'shared', 'steps', 'dispatch-tree', 'rules', 'restore-text', 'key-space', 'local-traffic'],
];

describe('architecture', () => {
  it('finds imports at all', () => {
    assert.ok(FILES.length > 40 && IMPORTS.length > 150, `${FILES.length} files, ${IMPORTS.length} imports`);
  });

  it('nothing refers to what is beside the repository', () => {
    const files = CLOSED.flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => relative(ROOT, join(entry.parentPath, entry.name))),
    );
    assert.ok(files.includes('.ci/run') && files.length > 400, `${files.length} files`);
    assert.deepEqual(files.flatMap(pathsOut), []);
  });

  it('model/ imports nothing outside itself but the address library', () => {
    only('src/model/', (to) => inside(to, 'src/model/') || to === 'ipaddr.js');
  });

  it('producers/ imports only model/', () => {
    only('src/producers/', (to) => inside(to, 'src/producers/', 'src/model/'));
  });

  it('controller/ imports producers/, model/, what reads and writes the API server, and the clock', () => {
    only('src/controller/', (to) => {
      const own = inside(to, 'src/controller/', 'src/producers/', 'src/model/', 'src/api/', 'src/host/clock.ts');
      return own || to === 'node:crypto';
    });
  });

  it('reconcile/ imports nothing outside itself', () => {
    only('src/reconcile/', (to) => inside(to, 'src/reconcile/'));
  });

  it('cache/ imports only model/', () => {
    only('src/cache/', (to) => inside(to, 'src/cache/', 'src/model/'));
  });

  it('modes/netfilter/ imports only model/, reconcile/, hashing and types of host/; what reads and writes there also host/', () => {
    const isActing = (from: string) => /\/(observe|apply|cleanup|tables)\.ts$/.test(from);
    only('src/modes/netfilter/', (to, from, isTypeOnly) => {
      const pure = inside(to, 'src/modes/netfilter/', 'src/modes/mode.ts', 'src/model/', 'src/reconcile/');
      return pure || to === 'node:crypto' || ((isActing(from) || isTypeOnly) && inside(to, 'src/host/'));
    });
  });

  it('pure files of a mode import only model/, reconcile/, modes/netfilter/, their folder, and types of host/', () => {
    const pure = IMPORTS.filter(({ from }) =>
      PURE_MODE_FILES.some((name) => /^src\/modes\/\w+\//.test(from) && from.endsWith(`/${name}.ts`)),
    );
    const bad = pure.filter(
      ({ from, to, isTypeOnly }) =>
        !inside(to, 'src/model/', 'src/reconcile/', 'src/modes/netfilter/', 'src/modes/mode.ts', `${dirname(from)}/`) &&
        !(isTypeOnly && inside(to, 'src/host/')) &&
        to !== 'node:crypto',
    );
    assert.ok(pure.length > 0);
    assert.deepEqual(bad, []);
  });

  it('no mode imports another', () => {
    const modes = ['iptables', 'ipvs', 'nftables'];
    const bad = IMPORTS.filter(({ from, to }) =>
      modes.some(
        (mode) =>
          inside(from, `src/modes/${mode}/`) &&
          modes.some((other) => other !== mode && inside(to, `src/modes/${other}/`)),
      ),
    );
    assert.deepEqual(bad, []);
  });

  it('serve/ imports only model/ and the clock', () => {
    only('src/serve/', (to) => inside(to, 'src/serve/', 'src/model/', 'src/host/clock.ts') || to.startsWith('node:'));
  });

  it('only host/ starts processes', () => {
    const bad = IMPORTS.filter(
      ({ from, to }) => (to === 'execa' || to === 'node:child_process') && !inside(from, 'src/host/'),
    );
    assert.deepEqual(bad, []);
  });

  it('documents/ imports nothing outside itself but the YAML library, which nobody else does', () => {
    only('src/documents/', (to) => inside(to, 'src/documents/') || to === 'yaml' || to.startsWith('node:'));
    const knows = IMPORTS.filter(({ to }) => to === 'yaml' || to === 'js-yaml').map(({ from }) => from);
    assert.deepEqual(knows, ['src/documents/yaml.ts']);
  });

  it('only host/, source/, cli/ and documents/ read or write files', () => {
    const bad = IMPORTS.filter(
      ({ from, to }) =>
        /^node:fs/.test(to) &&
        !inside(
          from,
          'src/host/',
          'src/source/',
          'src/api/',
          'src/agent/',
          'src/lab/',
          'src/cli/',
          'src/documents/',
          'native/',
        ),
    );
    assert.deepEqual(bad, []);
  });

  it('only native/libc.ts knows of the foreign-function module', () => {
    const knows = FILES.filter((file) => /'(node:ffi|koffi)'/.test(readFileSync(join(ROOT, file), 'utf8')));
    assert.deepEqual(knows, ['native/libc.ts']);
  });

  it('nothing but cli/ and main.ts imports cli/', () => {
    const bad = IMPORTS.filter(({ from, to }) => inside(to, 'src/cli/') && !inside(from, 'src/cli/', 'src/main.ts'));
    assert.deepEqual(bad, []);
  });

  it('pino and its kin are in telemetry/ alone', () => {
    const bad = IMPORTS.filter(
      ({ from, to }) => /^(pino|pino-pretty|prom-client)$/.test(to) && !inside(from, 'src/telemetry/'),
    );
    assert.deepEqual(bad, []);
  });
});
