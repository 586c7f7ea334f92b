/** The runner of the tests (scripts/test-*.ts): every test file has its tier, and nothing that went wrong looks as if it passed. */
import assert from 'node:assert/strict';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { filesOf, type Part, TIERS, type Tier } from '../../scripts/test-tiers.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RUNNER = new URL('../../scripts/test-run.ts', import.meta.url).href;
const PART: Part = { name: 'part', files: [], concurrency: 2, needsRoot: false, tools: [] };

describe('the tiers', () => {
  it('have every test file exactly once', () => {
    const all = globSync('test/**/*.test.ts', { cwd: ROOT }).map((file) => join(ROOT, file));
    const inTiers = TIERS.flatMap(({ parts }) => parts).flatMap((part) => filesOf(part, ROOT));
    assert.ok(all.length > 100, `${all.length} test files`);
    assert.deepEqual(
      all.filter((file) => !inTiers.includes(file)),
      [],
      'in no tier of scripts/test-tiers.ts',
    );
    assert.deepEqual(
      inTiers.filter((file, i) => inTiers.indexOf(file) !== i),
      [],
      'in two tiers',
    );
  });

  it('have no glob that finds nothing', () => {
    const globs = TIERS.flatMap(({ parts }) => parts).flatMap(({ files = [], except = [] }) => [...files, ...except]);
    assert.deepEqual(
      globs.filter((glob) => globSync(glob, { cwd: ROOT }).length === 0),
      [],
    );
  });

  it('are run by a command of package.json each', async () => {
    const { default: manifest } = await import('../../package.json', { with: { type: 'json' } });
    const scripts: Readonly<Record<string, string>> = manifest.scripts;
    assert.equal(TIERS.length, 6);
    for (const { name, command } of TIERS) {
      assert.match(scripts[command.replace(/^npm (run )?/, '')] ?? '', new RegExp(`scripts/test\\.ts ${name}$`));
    }
  });
});

describe('the runner', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'slicewire-runner-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  /** Run test files of these texts. node:test refuses to run files within a test, which it knows by a variable. */
  async function run(files: Readonly<Record<string, string>>, tier: Partial<Tier> = {}, options = 'isRoot: true') {
    const names = Object.keys(files).map((name) => `${name}.test.ts`);
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(folder, `${name}.test.ts`), `import { describe, it } from 'node:test';\n${text}\n`);
    }
    const tiers = [{ name: 'tier', command: 'npm run tier', budget: 100, parts: [{ ...PART, files: names }], ...tier }];
    const main = join(folder, 'main.ts');
    writeFileSync(
      main,
      `import { runTiers } from '${RUNNER}';
      process.exitCode = await runTiers({
        tiers: ${JSON.stringify(tiers)}, root: '${folder}', ${options},
        print: (line) => process.stdout.write(\`\${line}\\n\`),
      });`,
    );
    const args = ['-u', 'NODE_TEST_CONTEXT', process.execPath, main];
    const { exitCode, stdout, stderr } = await realCommands.run({ file: 'env', args }, NEVER);
    assert.equal(stderr, '');
    return { status: exitCode, out: stdout };
  }

  const counts = (out: string) =>
    Object.fromEntries(
      [...out.matchAll(/^ℹ (tests|pass|fail|skipped) (\d+)$/gm)].map(([, name, n]) => [name, Number(n)]),
    );

  it('passes with what passed, and prints a line for each file, a table, the slowest, and skipped tests with their reason', async () => {
    const { status, out } = await run({
      good: `describe('a', () => { it('b', () => {}); it('c', { skip: 'no such kernel' }, () => {}); });`,
      other: `it('d', () => {});`,
    });
    assert.equal(status, 0, out);
    assert.deepEqual(counts(out), { tests: 3, pass: 2, fail: 0, skipped: 1 });
    for (const file of ['good', 'other'])
      assert.match(out, new RegExp(`^ok +[0-9.]+ s +part +${file}\\.test\\.ts$`, 'm'));
    assert.match(out, /^tier +part +files +tests +passed +failed +skipped +seconds\ntier +part +2 +3 +2 +0 +1 +\d+$/m);
    assert.match(out, /^slowest files:\n +[0-9.]+ s +\w+\.test\.ts$/m);
    assert.match(out, /^skipped:\n +1 × good\.test\.ts: no such kernel$/m);
  });

  it('names a test that fails by its suites and its file, with the whole error, below the table', async () => {
    const text = `describe('outer', () => describe('inner', () => it('adds', () => { throw new Error('one\\ntwo'); })));`;
    const { status, out } = await run({ good: `it('a', () => {});`, bad: text });
    assert.equal(status, 1);
    assert.match(out, /^FAIL +[0-9.]+ s +part +bad\.test\.ts$/m);
    assert.match(
      out,
      /\ntier +part +2 +2 +1 +1 +0[\s\S]*\n✖ bad\.test\.ts: outer > inner > adds\n {4}Error: one\n {4}two\n {8}at /,
    );
    assert.deepEqual(counts(out), { tests: 2, pass: 1, fail: 1, skipped: 0 });
  });

  it('fails a file that cannot be loaded, that is killed, and that has no tests', async () => {
    const { status, out } = await run({
      unloadable: `throw new Error('no such module');`,
      killed: `it('a', () => {}); it('b', () => process.kill(process.pid, 'SIGKILL'));`,
      empty: `describe('nothing', () => {});`,
      plain: `export const a = 1;`,
    });
    assert.equal(status, 1);
    assert.match(out, /✖ unloadable\.test\.ts: \(the file\)\n {4}Error: no such module/);
    assert.match(out, /✖ killed\.test\.ts: \(the file\)\n {4}it ended with exit status none, signal SIGKILL/);
    for (const file of ['empty', 'plain'])
      assert.match(out, new RegExp(`✖ ${file}\\.test\\.ts: \\(the file\\)\n {4}it has no tests`));
  });

  it('tells apart the files that one process runs, also where one cannot be loaded', async () => {
    const files = {
      a: `it('b', () => { console.log('of a'); throw new Error('not b'); });`,
      c: `throw new Error('no such module');`,
      d: `describe('e', () => it('f', () => console.log(process.pid)));`,
      g: `it('h', () => assert.fail(String(process.pid))); import assert from 'node:assert';`,
    };
    const part = { ...PART, files: Object.keys(files).map((name) => `${name}.test.ts`), concurrency: 1 };
    const { status, out } = await run(files, { parts: [{ ...part, filesOfProcess: 4 }] });
    assert.equal(status, 1);
    assert.match(out, /^FAIL .* a\.test\.ts\nFAIL .* c\.test\.ts\nok .* d\.test\.ts\nFAIL .* g\.test\.ts$/m);
    assert.match(
      out,
      /✖ a\.test\.ts: b\n {4}Error: not b\n[\s\S]*? {4}output of its process:\n {4}of a\n[\s\S]*?✖ c\.test\.ts: \(the file\)/,
    );
    assert.match(out, /✖ g\.test\.ts: h\n/);
    assert.deepEqual(counts(out), { tests: 4, pass: 1, fail: 3, skipped: 0 });
  });

  it('fails every file of a process that is killed', async () => {
    const files = { a: `it('b', () => process.kill(process.pid, 'SIGKILL'));`, c: `it('d', () => {});` };
    const part = { ...PART, files: ['a.test.ts', 'c.test.ts'], concurrency: 1, filesOfProcess: 2 };
    const { status, out } = await run(files, { parts: [part] });
    assert.equal(status, 1);
    for (const file of ['a', 'c'])
      assert.match(out, new RegExp(`✖ ${file}\\.test\\.ts: \\(the file\\)\n.*signal SIGKILL`));
  });

  it('fails a hook that fails, and what a file leaves behind after its tests', async () => {
    const { status, out } = await run({
      hook: `import { before } from 'node:test'; describe('a', () => { before(() => { throw new Error('no lab'); }); it('b', () => {}); });`,
      later: `it('a', () => { setTimeout(() => { throw new Error('too late'); }, 50); });`,
    });
    assert.equal(status, 1);
    assert.match(out, /^FAIL .* hook\.test\.ts$/m);
    assert.match(out, /no lab/);
    assert.match(out, /^FAIL .* later\.test\.ts$/m);
    assert.match(out, /too late/);
  });

  it('says when the budget is passed by half, and ends what hangs', async () => {
    // By a clock that goes a thousand times as fast: however busy the machine is, nothing is ended.
    const clock = 'isRoot: true, now: () => performance.now() * 1000';
    const text = `it('a', () => new Promise((resolve) => setTimeout(resolve, 1000)));`;
    const slow = await run({ slow: text }, { budget: 600 }, clock);
    assert.equal(slow.status, 0);
    assert.match(slow.out, /^ok .* slow\.test\.ts$/m);
    assert.match(slow.out, /^⚠ tier took \d+ s\. Its budget is 600 s /m);
    const hanging = await run(
      { hangs: `it('a', () => new Promise((resolve) => setTimeout(resolve, 60_000)));` },
      { budget: 0.5 },
    );
    assert.equal(hanging.status, 1);
    assert.match(hanging.out, /^FAIL .* hangs\.test\.ts$/m);
    assert.match(hanging.out, /✖ hangs\.test\.ts: /);
  });

  it('without root says what it left out and how to run that, and passes', async () => {
    const parts = [
      { ...PART, files: ['good.test.ts'] },
      { ...PART, name: 'packets', files: ['bad.test.ts'], needsRoot: true },
    ];
    const files = { good: `it('a', () => {});`, bad: `it('a', () => { throw new Error('no'); });` };
    const { status, out } = await run(files, { parts }, 'isRoot: false');
    assert.equal(status, 0, out);
    assert.match(out, /^left out: packets\. It needs root: run `sudo npm run tier`\.$/m);
    assert.match(out, /^tier +packets +left out/m);
    assert.equal((await run(files, { parts })).status, 1);
  });

  it('in CI leaves out the parts that say so, with the command that runs them, and runs them otherwise', async () => {
    const parts = [
      { ...PART, files: ['good.test.ts'] },
      { ...PART, name: 'release', files: ['bad.test.ts'], leftOutOfCI: 'It takes an hour.' },
    ];
    const files = { good: `it('a', () => {});`, bad: `it('a', () => { throw new Error('no'); });` };
    const { status, out } = await run(files, { parts }, 'isRoot: false, isCI: true');
    assert.equal(status, 0, out);
    assert.match(out, /^left out: release\. It takes an hour\. Run it with: npm run tier -- release$/m);
    assert.equal((await run(files, { parts }, 'isRoot: false')).status, 1);
  });
});
