import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { pluginArguments } from '../../../src/cli/command-line.ts';
import { printable } from '../../../src/cli/kubectl/plugin-commands.ts';

const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));

describe('the plugin of kubectl', () => {
  it('is what the program is under its name, and as the command kubectl under any name', () => {
    assert.deepEqual(pluginArguments('/usr/local/bin/kubectl-slicewire', ['status', '-o', 'json']), [
      'status',
      '-o',
      'json',
    ]);
    assert.deepEqual(pluginArguments('kubectl-slicewire', []), []);
    assert.deepEqual(pluginArguments('/usr/local/bin/slicewire', ['kubectl', 'verify']), ['verify']);
    assert.deepEqual(pluginArguments('slicewire', ['help', 'kubectl', 'verify']), ['help', 'verify']);
    assert.equal(pluginArguments('slicewire', ['help', 'verify']), undefined);
    assert.equal(pluginArguments('/usr/local/bin/slicewire', ['verify', 'kubectl']), undefined);
    assert.equal(pluginArguments('/opt/kubectl-slicewire/slicewire', ['status']), undefined);
    assert.equal(pluginArguments('slicewire', []), undefined);
  });

  it('shows its own help, as a process under its name', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'kubectl-plugin-'));
    try {
      const link = join(folder, 'kubectl-slicewire');
      await symlink(process.execPath, link);
      const { stdout } = await promisify(execFile)(link, [MAIN, '--help']);
      assert.match(stdout, /^Usage: kubectl slicewire \[options\] \[command\]\n/);
      const failed = await promisify(execFile)(link, [MAIN, 'launch']).catch(
        (error: { code: number; stderr: string }) => error,
      );
      assert.ok('code' in failed && failed.code === 1);
      assert.match(
        failed.stderr,
        /^slicewire: unknown command 'launch'\n\(kubectl slicewire --help lists the commands\)/,
      );
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe('printable text', () => {
  it('keeps letters of any language, ends of lines and tabs', () => {
    assert.equal(printable('Größe\t日本\n'), 'Größe\t日本\n');
  });

  it('escapes what a terminal obeys, and what turns or hides text', () => {
    assert.equal(
      printable('\u001b[0m\r\u007f\u0085\u202e\u200b\u2028\u{e0041}'),
      '\\u001b[0m\\u000d\\u007f\\u0085\\u202e\\u200b\\u2028\\udb40\\udc41',
    );
  });
});
