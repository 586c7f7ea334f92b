/** Files that never answer, below a running agent: it follows the others, answers probes, and stops on a signal. */

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Child, realCommands, startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { aliasBomb } from '../helpers/cluster/documents/bomb.ts';
import { deadMount, noDeadMount } from '../helpers/cluster/source/dead-mount.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const ASK = 'const r = await fetch("http://127.0.0.1:10256/livez"); process.stdout.write(String(r.status));';
/** Milliseconds in which a process ends after its signal: five seconds, and some for a busy machine. */
const ENDS = 9000;

function yaml(name: string, clusterIP: string): string {
  return `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {clusterIP: ${clusterIP}, ports: [{port: 80}]}\n`;
}

function kill({ pid }: Child, signal: NodeJS.Signals): void {
  if (pid !== undefined) process.kill(pid, signal);
}

describe('a file that never answers', () => {
  const namespace = `sw${process.pid}-stuck`;
  let folder: string;
  const inside = async (...args: string[]) =>
    (await realCommands.run({ file: 'ip', args: ['netns', 'exec', namespace, ...args] }, NEVER)).stdout;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-stuck-'));
    await realCommands.run({ file: 'ip', args: ['netns', 'add', namespace] }, NEVER);
    await inside('ip', 'link', 'set', 'lo', 'up');
  });
  after(async () => {
    await realCommands.run({ file: 'ip', args: ['netns', 'delete', namespace] }, NEVER);
    await rm(folder, { recursive: true });
  });

  async function named(name: string): Promise<string> {
    const path = join(folder, name);
    await mkdir(path);
    return path;
  }

  async function fifo(path: string): Promise<void> {
    const { exitCode } = await realCommands.run({ file: 'mkfifo', args: [path] }, NEVER);
    assert.equal(exitCode, 0);
  }

  function start(...args: string[]) {
    const log: string[] = [];
    const command = ['netns', 'exec', namespace, ...SLICEWIRE, 'run', ...args];
    const child = startChild({ file: 'ip', args: command, onErrorLine: (line) => log.push(line) });
    const says = (text: string) => until(text, () => log.some((line) => line.includes(text)), 40_000);
    return { child, log, says };
  }

  async function programmed(text: string): Promise<void> {
    for (const end = performance.now() + 40_000; !(await inside('iptables-save')).includes(text); await pause(100))
      assert.ok(performance.now() < end, `waited in vain for ${text}`);
  }

  /** The agent over a folder: what is written there is programmed, probes are answered, and it ends. */
  async function worksAndEnds(manifests: string, fault: string): Promise<void> {
    const { child, log, says } = start('--manifests', manifests);
    const ended = child.ended;
    try {
      await says(fault);
      await programmed('10.96.0.1/32');
      await writeFile(join(manifests, 'b.yaml'), yaml('b', '10.96.0.2'));
      await programmed('10.96.0.2/32');
      assert.equal(await inside(process.execPath, '--input-type=module', '-e', ASK), '200');
    } finally {
      const signalled = performance.now();
      kill(child, 'SIGTERM');
      const late = setTimeout(() => kill(child, 'SIGKILL'), ENDS);
      const status = await ended;
      clearTimeout(late);
      assert.equal(status, 0, log.slice(-5).join('\n'));
      assert.ok(performance.now() - signalled < ENDS);
    }
  }

  it('is a named pipe, beside an alias bomb', async () => {
    const manifests = await named('pipe');
    await fifo(join(manifests, 'x.yaml'));
    await writeFile(join(manifests, 'bomb.yaml'), aliasBomb(`${yaml('bomb', '10.96.0.3')}status: *a8\n`));
    await writeFile(join(manifests, 'a.yaml'), yaml('a', '10.96.0.1'));
    await worksAndEnds(manifests, 'x.yaml: cannot be read: it is a named pipe, not a regular file');
  });

  it('is on a mount that is dead', { skip: noDeadMount ?? false }, async () => {
    const manifests = await named('dead');
    const away = await deadMount(await named('dead/x.yaml'));
    try {
      await writeFile(join(manifests, 'a.yaml'), yaml('a', '10.96.0.1'));
      await worksAndEnds(manifests, 'x.yaml: cannot be read: no answer within 5 s');
    } finally {
      await away();
    }
  });

  it('is the folder itself, on a mount that is dead: this is said at the start', {
    skip: noDeadMount ?? false,
  }, async () => {
    const manifests = await named('dead-folder');
    const away = await deadMount(manifests);
    try {
      const { child, log } = start('--manifests', manifests);
      assert.equal(await child.ended, 1);
      assert.match(log.join('\n'), /dead-folder: no answer within 5 s; it may be on a mount/);
    } finally {
      await away();
    }
  });

  for (const flag of ['--config', '--kubeconfig']) {
    it(`is named by ${flag}`, async () => {
      const path = join(folder, `pipe${flag}`);
      await fifo(path);
      const { child, log } = start(flag, path);
      assert.equal(await child.ended, 1);
      assert.match(log.join('\n'), new RegExp(`${flag} ${path}: .*it is a named pipe, not a regular file`));
    });
  }
});
