/** A process that takes its input piece by piece. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { CommandNotStarted, startCommand } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const MODULE = new URL('../../src/kernel/commands.ts', import.meta.url).href;

describe('a lasting command', () => {
  it('answers piece by piece, also pieces larger than a pipe', async () => {
    const cat = startCommand('cat', []);
    for (const size of [1, 200_000, 2]) {
      const lines = Array.from({ length: size }, (_, i) => `line ${i}`);
      assert.equal(await cat.ask([...lines, `done ${size}`], `done ${size}`, NEVER), undefined);
    }
    cat.end();
  });

  it('gives its status and what it complained of when it ends before the answer', async () => {
    const shell = startCommand('sh', ['-c', 'read a; echo "$a"; read b; echo "bad: $b" >&2; exit 3']);
    assert.equal(await shell.ask(['first'], 'first', NEVER), undefined);
    const result = await shell.ask(['second'], 'second', NEVER);
    assert.deepEqual(result, { exitCode: 3, stdout: '', stderr: 'bad: second\n' });
    assert.ok(shell.hasEnded);
  });

  it('gives them also when it ends long before it was told all', async () => {
    const lines = Array.from({ length: 200_000 }, (_, i) => `line ${i}`);
    const shell = startCommand('sh', ['-c', 'read a; exec 0<&-; sleep 0.05; echo "line 1 failed" >&2; exit 1']);
    const result = await shell.ask(lines, 'done', NEVER);
    assert.deepEqual(result, { exitCode: 1, stdout: '', stderr: 'line 1 failed\n' });
  });

  it('gives no status when a signal ended it', async () => {
    const shell = startCommand('sh', ['-c', 'read a; kill -9 $$']);
    assert.equal((await shell.ask(['a'], 'a', NEVER))?.exitCode, undefined);
  });

  it('rejects for a program that cannot be started', async () => {
    const missing = startCommand('/nowhere/iptables-restore', []);
    await assert.rejects(
      missing.ask(['a'], 'a', NEVER),
      (error) => error instanceof CommandNotStarted && error.isMissing,
    );
  });

  it('is not started where no more files can be opened', async () => {
    const text = `import { openSync } from 'node:fs';
      import { startCommand } from '${MODULE}';
      try { for (;;) openSync('/dev/null'); } catch {}
      try { startCommand('cat', []); } catch (error) { process.exitCode = 7; process.stdout.write(error.message); }`;
    const args = ['-c', 'ulimit -n 64; exec "$0" --input-type=module -e "$1"', process.execPath, text];
    const failed = promisify(execFile)('sh', args);
    await assert.rejects(failed, { code: 7, stdout: 'cannot start cat: too many open files' });
  });

  it('ends when the signal aborts, and rejects with its reason', async () => {
    const silent = startCommand('sleep', ['1000']);
    const aborting = new AbortController();
    const asked = silent.ask(['a'], 'a', aborting.signal);
    aborting.abort(new Error('the agent stops'));
    await assert.rejects(asked, /the agent stops/);
    assert.ok(silent.hasEnded);
  });

  it('ends when a piece breaks off, so that no other is taken for its rest', async () => {
    const cat = startCommand('cat', []);
    const pieces = function* () {
      yield '*nat';
      throw new Error('no more lines');
    };
    await assert.rejects(cat.ask(pieces(), 'a', NEVER), /no more lines/);
    assert.ok(cat.hasEnded);
  });

  it('ends when nobody asks for a while', async () => {
    const cat = startCommand('cat', [], 20);
    assert.equal(await cat.ask(['a'], 'a', NEVER), undefined);
    while (!cat.hasEnded) await pause(5);
  });

  it('keeps no process from ending', async () => {
    const text = `import { startCommand } from '${MODULE}';
      await startCommand('cat', [], 2 ** 30).ask(['a'], 'a', new AbortController().signal);
      console.log('answered');`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', text]);
    assert.equal(stdout, 'answered\n');
  });
});
