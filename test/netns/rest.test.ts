/** An agent at rest starts no process, and still notices that another program flushed its rules; with the capabilities that its unit has. */

import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** Milliseconds: several looks, one a second. */
const REST = 4500;
const LONGEST = 60_000;

/** Each variant, and what it needs. */
const CASES = [
  { backend: 'nft', capabilities: ['net_admin'] },
  { backend: 'legacy', capabilities: ['net_admin', 'net_raw'] },
] as const;

describe('an agent at rest', () => {
  let lab: Lab;
  let folder: string;
  let child: Child | undefined;
  let log: string[];

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    log = [];
    await writeTools();
    const items = [
      service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
      slice({
        name: 'web-1',
        service: 'web',
        addressType: 'IPv4',
        ports: [{ name: '', port: 8080 }],
        endpoints: [{ addresses: [podAddress(1).v4], nodeName: 'node' }],
      }),
    ];
    await writeFile(join(folder, 'web.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  });
  afterEach(async () => {
    await child?.stop();
    child = undefined;
    for (const { backend } of CASES) await inNode(...SLICEWIRE, 'cleanup', '--iptables-backend', backend);
    await rm(folder, { recursive: true });
  });

  const inNode = (command: string, ...args: string[]) => shellCommands.run(lab.inside('node', command, args), NEVER);
  const started = async () => (await readFile(join(folder, 'started'), 'utf8')).split('\n').filter(Boolean);

  /** Tools that report each of their starts, and then are the real ones. */
  async function writeTools(): Promise<void> {
    await writeFile(join(folder, 'started'), '');
    for (const family of ['iptables', 'ip6tables'])
      for (const variant of ['', '-nft', '-legacy'])
        for (const does of ['', '-save', '-restore']) {
          const name = `${family}${variant}${does}`;
          const lines = [
            '#!/bin/sh',
            `echo "${name} $*" >> ${join(folder, 'started')}`,
            `PATH=\${PATH#*:} exec ${name} "$@"`,
          ];
          await writeFile(join(folder, name), `${lines.join('\n')}\n`);
          await chmod(join(folder, name), 0o755);
        }
  }

  function start(backend: string, capabilities: readonly string[]): void {
    const set = ['-all', ...capabilities.map((name) => `+${name}`)].join(',');
    const confine = ['--no-new-privs', `--bounding-set=${set}`, `--inh-caps=${set}`, `--ambient-caps=${set}`];
    const flags = ['--manifests', folder, '--hostname-override', 'node', '--conntrack-max-per-core', '0'];
    const periods = ['--iptables-sync-period', '1s', '--iptables-min-sync-period', '0s', '--iptables-backend', backend];
    const args = [...confine, ...SLICEWIRE, 'run', '-v', '2', ...flags, ...periods];
    const env = { PATH: `${folder}:${process.env.PATH ?? ''}` };
    const inside = lab.inside('node', 'setpriv', args);
    child = startChild({ ...inside, env, onErrorLine: (line) => log.push(line) });
  }

  async function said(words: string, since = 0): Promise<void> {
    for (const end = performance.now() + LONGEST; performance.now() < end; await pause(50))
      if (log.slice(since).some((line) => line.includes(words))) return;
    assert.fail(`the agent did not say ${words}:\n${log.join('\n')}`);
  }

  /** Wait for the first look after a sync, which may take processes; then none may be started. */
  async function rests(): Promise<void> {
    await pause(2500);
    const before = await started();
    assert.ok(before.length > 0, 'the tools report their starts');
    await pause(REST);
    assert.deepEqual((await started()).slice(before.length), []);
  }

  for (const { backend, capabilities } of CASES) {
    it(`starts no process with ${capabilities.join(' and ')}, and notices a flush, --iptables-backend ${backend}`, async () => {
      start(backend, capabilities);
      await said('"synced"');
      await rests();
      for (const family of ['iptables', 'ip6tables']) {
        const since = log.length;
        const tool = `${family}-${backend}`;
        await lab.exec('node', 'sh', '-c', `${tool} -t nat -F && ${tool} -t nat -X`);
        await said('rules of ours', since);
        await said('"synced"', since);
        assert.match(await lab.exec('node', `${tool}-save`, '-t', 'nat'), /KUBE-PROXY-CANARY/);
      }
      // What others write is theirs, and no flush.
      const since = log.length;
      await lab.exec('node', `iptables-${backend}`, '-t', 'nat', '-N', 'THEIRS');
      await rests();
      await lab.exec('node', `iptables-${backend}`, '-t', 'nat', '-X', 'THEIRS');
      assert.deepEqual(log.slice(since), []);
      assert.ok(!log.some((line) => line.includes('the kernel does not answer')), log.join('\n'));
    });
  }
});
