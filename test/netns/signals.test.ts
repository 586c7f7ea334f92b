/** What the agent and the controller do when a signal comes that would end another program, or open it (signal(7)). */
import assert from 'node:assert/strict';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { AF_UNIX, bind, close, receive, SOCK_DGRAM, socket } from '../../native/libc.ts';
import { unixAddress } from '../../native/notify.ts';
import { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { SLICEWIRE, startAgent } from '../helpers/cli/slicewire.ts';
import { listeningPorts } from '../helpers/kernel/listening.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const PACKAGE = fileURLToPath(new URL('../../package.json', import.meta.url));
/** Milliseconds: the machine may have more to do. */
const PATIENCE = { within: 60_000 };
/** Where Node.js' debugger listens. */
const DEBUGGER = 9229;

const config = (iptables: string) => `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0}
iptables: ${iptables}
`;

describe('signals', () => {
  let lab: Lab;
  let node: ManifestNode;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  });
  after(() => lab.remove());
  beforeEach(async () => {
    node = await ManifestNode.create(lab);
  });
  afterEach(async () => {
    await node.stop();
    await node.run('cleanup');
    await node.clear();
  });

  function send(agent: AgentProcess, signal: NodeJS.Signals): number {
    const since = agent.log.length;
    process.kill(agent.pid ?? assert.fail(), signal);
    return since;
  }

  /** It answers requests still. */
  async function lives(agent: AgentProcess): Promise<void> {
    const since = send(agent, 'SIGHUP');
    await agent.logged(({ msg }) => /^SIGHUP: /.test(msg), { since, ...PATIENCE });
  }

  /** The file of --config is a link, as kubelet has it for a ConfigMap: what it leads to may change unnoticed for a while. */
  async function withConfig(): Promise<{ readonly file: string; readonly target: string }> {
    const aside = join(node.folder, '..', `${node.folder.split('/').at(-1)}-config`);
    await mkdir(join(aside, 'data'), { recursive: true });
    const [file, target] = [join(aside, 'config.yaml'), join(aside, 'data/config.yaml')];
    await writeFile(target, config('{syncPeriod: 1s, minSyncPeriod: 0s}'));
    await symlink(target, file);
    node.keep({ stop: () => shellCommands.run({ file: 'rm', args: ['-r', aside] }, NEVER).then(() => undefined) });
    return { file, target };
  }

  describe('SIGHUP', () => {
    it('without a configuration file changes nothing, and the agent goes on', async () => {
      const agent = node.start();
      await agent.synced(0, PATIENCE.within);
      for (let n = 0; n < 2; n++) {
        const since = send(agent, 'SIGHUP');
        const { level, msg } = await agent.logged(({ msg }) => /SIGHUP/.test(msg), { since, ...PATIENCE });
        assert.equal(level, 'info');
        assert.equal(msg, 'SIGHUP: nothing to reload without --config; changed flags need a restart');
      }
    });

    it('makes the agent read the file of --config at once; a wrong file is refused, and the former stays in force', async () => {
      const { file, target } = await withConfig();
      const agent = node.start('--config', file);
      await agent.synced(0, PATIENCE.within);
      const says = (since: number, text: RegExp) => agent.logged(({ msg }) => text.test(msg), { since, ...PATIENCE });

      let since = send(agent, 'SIGHUP');
      await says(since, /^SIGHUP: reading the configuration again$/);
      await says(since, /^the configuration is unchanged: nothing to do$/);

      await writeFile(target, config('{masqueradeBit: 99}'));
      since = send(agent, 'SIGHUP');
      const { level } = await says(
        since,
        /^the changed configuration is refused: .*masqueradeBit.*99.*; the former one stays/,
      );
      assert.equal(level, 'error');

      await writeFile(target, config('{syncPeriod: 2s, masqueradeBit: 15}'));
      since = send(agent, 'SIGHUP');
      await says(since, /^the configuration changed: preparing the agent for it/);
      await agent.synced(since, PATIENCE.within);
      assert.match(await lab.exec('node', 'iptables-save', '-t', 'nat'), /KUBE-MARK-MASQ -j MARK --set-xmark 0x8000/);
    });

    it('is reported to the supervisor from begin to end', async () => {
      const { file, target } = await withConfig();
      const path = join(node.folder, '..', `${node.folder.split('/').at(-1)}-config/notify`);
      const descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
      try {
        bind(descriptor, unixAddress(path));
        const received: string[] = [];
        const hears = (what: string, fits: (states: string) => boolean) =>
          until(what, () => drain(descriptor, received).some(fits), PATIENCE.within);
        const isReady = (states: string) => /^READY=1$/m.test(states);
        const agent = node.startBy(['env', `NOTIFY_SOCKET=${path}`], '--config', file);
        await hears('READY=1 after the first sync', isReady);
        for (const iptables of ['{syncPeriod: 1s, minSyncPeriod: 0s}', '{masqueradeBit: 99}', '{masqueradeBit: 15}']) {
          received.length = 0;
          await writeFile(target, config(iptables));
          const before = process.hrtime.bigint() / 1000n;
          send(agent, 'SIGHUP');
          await hears('RELOADING=1', (states) => states.startsWith('RELOADING=1\n'));
          const [reloading = ''] = received;
          const at = BigInt(/^MONOTONIC_USEC=(\d+)$/m.exec(reloading)?.[1] ?? assert.fail(reloading));
          assert.ok(at >= before && at <= process.hrtime.bigint() / 1000n, `${at} is no time of CLOCK_MONOTONIC`);
          await hears(`READY=1 after ${iptables}`, isReady);
        }
      } finally {
        close(descriptor);
      }
    });

    it('does not end the controller', async () => {
      const args = ['controller', '--master', 'http://127.0.0.1:9', '--leader-elect=false'];
      const controller = node.keep(startAgent(lab, args));
      await controller.logged(({ msg }) => msg === 'starting', PATIENCE);
      for (let n = 0; n < 2; n++) {
        const since = send(controller, 'SIGHUP');
        const { msg } = await controller.logged((line) => /SIGHUP/.test(line.msg), { since, ...PATIENCE });
        assert.equal(msg, 'SIGHUP: nothing to reload: the controller has no configuration file');
      }
    });

    it('ends what was started for once, as any program whose terminal is gone', async () => {
      const args = ['run', '--once', '--manifests', '-'];
      const once = node.keep(startAgent(lab, args));
      await once.logged(({ msg }) => msg === 'starting', PATIENCE);
      send(once, 'SIGHUP');
      assert.equal(await once.ended, 1);
      assert.match(once.text(), /slicewire: received SIGHUP; the command did not finish/);
    });
  });

  it('SIGUSR1 does not open a debugger, and the agent goes on', async () => {
    const { slicewire } = (JSON.parse(await readFile(PACKAGE, 'utf8')) as { scripts: Record<string, string> }).scripts;
    const [name, ...options] = slicewire?.split(' ') ?? [];
    assert.equal(name, 'node');
    assert.equal(options.pop(), 'src/main.ts');
    // As `npm run slicewire` starts it, and without that option, so that what is looked for can be seen at all.
    for (const { given, opens } of [
      { given: options, opens: false },
      { given: [], opens: true },
    ]) {
      const own = node.command('run').slice(SLICEWIRE.length);
      const agent = node.keep(
        new AgentProcess(lab, ['NODE_OPTIONS=', process.execPath, ...given, MAIN, ...own], 'env'),
      );
      // The second finds the rules of the first.
      await agent.logged(({ msg }) => msg.startsWith('synced'), PATIENCE);
      send(agent, 'SIGUSR1');
      if (opens) {
        await until('the debugger', () => listeningPorts(agent.pid).includes(DEBUGGER), PATIENCE.within);
      } else {
        await pause(1000);
        await lives(agent);
        assert.ok(listeningPorts(agent.pid).length > 0);
        assert.ok(!listeningPorts(agent.pid).includes(DEBUGGER), 'the debugger listens');
      }
      await agent.stop();
    }
  });
});

/** What came since, added to what had come. */
function drain(descriptor: number, received: string[]): readonly string[] {
  const buffer = Buffer.alloc(1000);
  for (;;) {
    try {
      received.push(buffer.toString('utf8', 0, receive(descriptor, buffer)));
    } catch (error) {
      if (/EAGAIN/.test(String(error))) return received;
      throw error;
    }
  }
}
