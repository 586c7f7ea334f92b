/** Mistakes on the command line: one clear line, exit status 1, nothing written. Runs in a namespace, so that nothing could be. */

import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { realCommands, startChild } from '../../src/kernel/commands.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { COMMAND_LINES } from '../messages/command-lines.ts';
import { FLAGS } from '../messages/flags.ts';
import { KUBECONFIGS } from '../messages/kubeconfigs.ts';
import { messageIn } from '../messages/row.ts';

describe('bad input on the command line', () => {
  const namespace = `sw${process.pid}-cli`;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-cli-'));
    await realCommands.run({ file: 'ip', args: ['netns', 'add', namespace] }, NEVER);
  });
  after(async () => {
    await realCommands.run({ file: 'ip', args: ['netns', 'delete', namespace] }, NEVER);
    await rm(folder, { recursive: true });
  });

  async function slicewire(
    args: readonly string[],
    wrapper: readonly string[] = [],
  ): Promise<{ status: number | undefined; error: string; output: string }> {
    const command = ['netns', 'exec', namespace, ...wrapper, ...SLICEWIRE, ...args];
    const { exitCode, stderr, stdout } = await realCommands.run({ file: 'ip', args: command }, NEVER);
    const rules = await realCommands.run({ file: 'ip', args: ['netns', 'exec', namespace, 'iptables-save'] }, NEVER);
    assert.ok(!rules.stdout.includes('KUBE-'), 'nothing may be written');
    return { status: exitCode, error: stderr, output: stdout };
  }

  const cases: readonly { readonly args: readonly string[]; readonly says: RegExp | string }[] = [
    { args: ['run', '--no-such-flag'], says: /unknown option '--no-such-flag'/ },
    {
      args: ['launch'],
      says: messageIn(COMMAND_LINES, 'slicewire: unknown command launch'),
    },
    {
      args: ['--manifests', '/tmp', '--kubeconfig', '/etc/kubeconfig'],
      says: messageIn(FLAGS, '--manifests=/m: cannot be combined with --kubeconfig').replace('=/m', '=/tmp'),
    },
    {
      args: ['--manifests', '/no/such/folder'],
      says: /^slicewire: --manifests \/no\/such\/folder: there is no such file or folder$/m,
    },
    {
      args: ['--kubeconfig', '/no/such/file'],
      says: /^slicewire: --kubeconfig \/no\/such\/file: there is no such file or folder$/m,
    },
    { args: ['--kubeconfig', '/tmp'], says: /--kubeconfig \/tmp: it is a folder, not a regular file/ },
    { args: ['--master', 'not-a-url'], says: /--master not-a-url: must be a URL such as https/ },
    { args: ['--mode', 'userspace', '--manifests', '/tmp'], says: /--mode=userspace: must be iptables/ },
    {
      args: ['--manifests', '/tmp', '--cluster-cidr', '10.0.0.0/40'],
      says: /--cluster-cidr=10\.0\.0\.0\/40: must be a CIDR such as/,
    },
    {
      args: ['--manifests', '/tmp', '--iptables-sync-period', '1 minute'],
      says: /--iptables-sync-period=1 minute: must be a duration/,
    },
    {
      args: ['--manifests', '/tmp', '--iptables-min-sync-period', '40s'],
      says: messageIn(
        FLAGS,
        '--iptables-min-sync-period=40s: must not be longer than --iptables-sync-period, which is 30s',
      ),
    },
    {
      args: ['--manifests', '/tmp', '--iptables-masquerade-bit', '32'],
      says: messageIn(FLAGS, '--iptables-masquerade-bit=32'),
    },
    {
      args: ['--manifests', '/tmp', '--hostname-override', ' '],
      says: /--hostname-override= {2}?: ?must not be blank|must not be blank/,
    },
  ];
  for (const { args, says } of cases) {
    it(args.join(' '), async () => {
      const { status, error } = await slicewire(args);
      assert.equal(status, 1);
      if (typeof says === 'string') assert.ok(error.includes(says), error);
      else assert.match(error, says);
      assert.ok(!error.includes('    at '), 'no stack is shown');
    });
  }

  it('several faults are reported together', async () => {
    const { error } = await slicewire([
      '--mode',
      'x',
      '--cluster-cidr',
      'y',
      '--iptables-masquerade-bit',
      'z',
      '--manifests',
      '/tmp',
    ]);
    for (const flag of ['--mode=x', '--cluster-cidr=y', '--iptables-masquerade-bit=z'])
      assert.ok(error.includes(flag), flag);
  });

  it('a kubeconfig that is not one', async () => {
    const file = join(folder, 'kubeconfig');
    await writeFile(file, 'clusters: {');
    const { status, error } = await slicewire(['--kubeconfig', file]);
    assert.equal(status, 1);
    assert.match(error, /^slicewire: --kubeconfig \S+: \S/m);
  });

  it('neither a source nor a cluster', async () => {
    const { status, error } = await slicewire(['run']);
    assert.equal(status, 1);
    const says = messageIn(KUBECONFIGS, 'no source of objects');
    assert.ok(error.includes(says), error);
  });

  it('a flag of kube-proxy that has no effect is accepted and named', async () => {
    const { error } = await slicewire([
      '--manifests',
      '/no/such',
      '--kube-api-qps',
      '1',
      '--feature-gates',
      'WinDSR=true',
    ]);
    const says = messageIn(FLAGS, '--kube-api-qps has no effect');
    assert.ok(error.includes(says), error);
    assert.match(
      error,
      /--feature-gates: WinDSR has no effect: slicewire has only the gates AllowServiceExternalIPs, /,
    );
    assert.match(error, /there is no such file or folder/);
  });

  it('a configuration file that is not one, and one that is written and read again', async () => {
    const file = join(folder, 'config.yaml');
    await writeFile(file, 'kind: Pod\n');
    assert.match(
      (await slicewire(['--config', file])).error,
      /--config: must be a KubeProxyConfiguration of kubeproxy\.config/,
    );
    const written = await slicewire(['--manifests', '/m', '--cluster-cidr', '10.1.0.0/16', '--write-config-to', file]);
    assert.equal(written.status, 0);
    const read = await slicewire(['--config', file, '--manifests', '/no/such']);
    assert.match(read.error, /--manifests \/no\/such: there is no such file or folder/);
  });

  it('a thousand broken documents are some lines with their number; the JSON of plan has every object', async () => {
    const manifests = join(folder, 'broken');
    await mkdir(manifests);
    const broken = (n: number) =>
      n % 2 === 0
        ? 'kind: Service\nmetadata: {name: [\n'
        : `apiVersion: v1\nkind: Service\nmetadata: {name: s${n}}\nspec: {clusterIP: 10.96.0.300, ports: [{port: 80}]}\n`;
    for (let file = 0; file < 10; file++) {
      const documents = Array.from({ length: 100 }, (_, n) => broken(file * 100 + n));
      await writeFile(join(manifests, `${file}.yaml`), documents.join('---\n'));
    }
    const args = ['plan', '--manifests', manifests, '--conntrack-max-per-core', '0', '--output', 'json'];
    const { error, output } = await slicewire(args);
    const reported = error.split('\n').filter((line) => line.includes('set aside'));
    // For each file there are twenty lines, and one with the number of the others; ten lines are of another kind.
    assert.ok(reported.length <= 52, `${reported.length} lines`);
    for (const [kind, count] of [
      ['file line', 180],
      ['Service spec.clusterIP', 480],
    ])
      assert.ok(
        error.includes(`${kind} (object set aside): ${count} more faults of this kind are not logged one by one`),
      );
    const { faults } = JSON.parse(output) as { faults: { kind: string; effect: string }[] };
    assert.equal(faults.filter(({ effect }) => effect === 'object set aside').length, 500 + 10 * 21);
  });

  it('stopped early: that is not «nothing to do»', async () => {
    for (const args of [
      ['plan', '--master', 'http://127.0.0.1:9'],
      ['run', '--once', '--manifests', '-'],
    ]) {
      const command = ['netns', 'exec', namespace, ...SLICEWIRE, ...args];
      const { promise: begun, resolve } = Promise.withResolvers<void>();
      const child = startChild({ file: 'ip', args: command, onErrorLine: (line) => line.startsWith('{') && resolve() });
      await begun;
      const start = performance.now();
      await child.stop();
      assert.equal(await child.ended, 1, args.join(' '));
      // What hangs is ended after 5 s: it does not come to that.
      assert.ok(performance.now() - start < 4500, 'it ends when it is asked to');
    }
  });

  it('a process that is not root is told to run as root', async () => {
    await chmod(folder, 0o755);
    const { status, error } = await slicewire(
      ['run', '--manifests', folder],
      ['setpriv', '--bounding-set', '-net_admin', '--inh-caps', '-net_admin', '--'],
    );
    assert.equal(status, 1);
    assert.match(error, /^slicewire: slicewire needs the capability NET_ADMIN .*run it as root$/m);
  });

  it('a node without iptables is told to install it', async () => {
    const { status, error } = await slicewire(['run', '--manifests', folder], ['env', 'PATH=/nowhere']);
    assert.equal(status, 1);
    assert.match(
      error,
      /^slicewire: iptables does not work on this node: cannot start iptables: no such program; install the package iptables/m,
    );
  });
});
