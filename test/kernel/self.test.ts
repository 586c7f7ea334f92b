/** The program from its source runs no WebAssembly that V8 compiles anew, wherever it is started. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import packageJson from '../../package.json' with { type: 'json' };
import { sourceFiles } from '../../scripts/imports.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { SOURCE_OPTIONS, selfCommand } from '../../src/kernel/process.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const text = (file: string) => readFileSync(join(ROOT, file), 'utf8');

/** How V8 compiled the functions of WebAssembly: once by Liftoff, and anew by TurboFan. */
async function compilersOf(file: string, args: readonly string[]): Promise<Record<string, number>> {
  // A cache of compiled code has the types stripped already.
  const command = { file: 'env', args: ['-u', 'NODE_COMPILE_CACHE', file, ...args] };
  const { exitCode, stdout, stderr } = await realCommands.run(command, NEVER);
  assert.equal(exitCode, 0, stderr);
  const names = [...stdout.matchAll(/^Compiled function \S+ using (\w+),/gm)].map(([, name = '']) => name);
  return Object.fromEntries([...new Set(names)].map((name) => [name, names.filter((one) => one === name).length]));
}

describe('the program from its source', () => {
  it('has types stripped by WebAssembly that is compiled once', async () => {
    const { file, args } = selfCommand('version');
    const traced = ['--trace-wasm-compilation-times', ...args];
    assert.deepEqual(Object.keys(await compilersOf(file, traced)), ['Liftoff']);
    // Without the option V8 does compile it anew.
    const usual = traced.filter((arg) => arg !== '--liftoff-only');
    assert.ok(Number((await compilersOf(file, usual)).TurboFan) > 0);
  });

  it('is started so by npm, by its own name, by the demo, and by every test', () => {
    const options = SOURCE_OPTIONS.join(' ');
    assert.equal(packageJson.scripts.slicewire, `node ${options} src/main.ts`);
    assert.match(text('src/main.ts'), new RegExp(`^#!/usr/bin/env -S node ${options}\n`));
    const demo = text('scripts/demo.sh').match(/node \S.* src\/main\.ts/g) ?? [];
    assert.deepEqual([...new Set(demo)], [`node ${options} src/main.ts`]);
    assert.match(text('scripts/start.sh'), new RegExp(`exec \\S+/node ${options} "\\$@"\n$`));
    assert.match(text('scripts/test-files.ts'), /execArgv: \['--liftoff-only'\]/);
    const bare = /process\.execPath,\s*\[?\s*MAIN\b|'--disable-sigusr1'/;
    assert.deepEqual(
      sourceFiles('test', 'scripts', 'src').filter((file) => bare.test(text(file))),
      // The constant itself; the executable's own options; and this test.
      ['scripts/executable/make.ts', 'src/kernel/process.ts', 'test/kernel/self.test.ts'],
    );
  });
});
