/** The agent as a process, in IPVS mode, on a real kernel: what an administrator sees, a restart, what cannot work. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { POD_DEVICE } from '../../src/kernel/pod-network.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 60_000;
const MODE = '--mode=ipvs';

describe('the agent as a process in IPVS mode', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1, 2]));
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  /** Its first line about a sync. */
  async function start(): Promise<{ agent: AgentProcess; said: string }> {
    const agent = node.start(MODE);
    const { msg } = await agent.logged(({ msg: text }) => text.startsWith('synced'), { within: PATIENCE });
    return { agent, said: msg };
  }

  it('plans without writing, writes what ipvsadm, ip and ipset show, has nothing to do then, nor after a restart', async () => {
    const before = await node.run('plan', MODE);
    assert.equal(before.status, 2);
    assert.match(
      before.out,
      /\+ IPv4 server TCP 10\.96\.0\.10:80 {2}\(default\/web\)\n {4}\+ -A -t 10\.96\.0\.10:80 -s rr\n/,
    );
    assert.equal(await lab.exec('node', 'ipvsadm', '-Sn'), '', 'plan writes nothing');
    const { agent } = await start();
    const saved = await lab.exec('node', 'ipvsadm', '-Sn');
    for (const at of [`${WEB}:80`, `${LAB.node.v4}:${NODE_PORT}`, `${LAB.bridge.v4}:${NODE_PORT}`]) {
      assert.match(saved, new RegExp(`-A -t ${at} -s rr\\n(-a -t ${at} -r [0-9.]+:8080 -m -w 1\\n){3}`));
    }
    const device = await lab.exec('node', 'ip', 'address', 'show', 'kube-ipvs0');
    assert.match(device, /inet 10\.96\.0\.10\/32 scope global kube-ipvs0/);
    assert.match(await lab.exec('node', 'ipset', 'list', 'KUBE-CLUSTER-IP'), /^10\.96\.0\.10,tcp:80$/m);
    const plan = await node.run('plan', MODE);
    assert.deepEqual([plan.status, plan.out], [0, 'nothing to do\n']);
    await agent.stop();
    assert.equal((await start()).said, 'synced, nothing to do');
  });

  /** iptables asks for the sets that rules name over a raw socket. */
  it('needs NET_ADMIN and NET_RAW alone, once --init-only wrote the settings and loaded the modules', async () => {
    await node.stop();
    const cleaned = await node.run('cleanup', MODE);
    assert.equal(cleaned.status, 0, cleaned.error);
    const init = await node.run('run', '--init-only', MODE);
    assert.equal(init.status, 0, init.error);
    const set = '-all,+net_admin,+net_raw';
    const confine = ['--no-new-privs', `--bounding-set=${set}`, `--inh-caps=${set}`, `--ambient-caps=${set}`];
    const once = await node.runBy(['setpriv', ...confine], 'run', '--once', MODE);
    assert.equal(once.status, 0, once.error);
    assert.match(await lab.exec('node', 'ipvsadm', '-Sn'), /-a -t 10\.96\.0\.10:80 -r [0-9.]+:8080 -m -w 1/);
    assert.match(await lab.exec('node', 'ipset', 'list', 'KUBE-CLUSTER-IP'), /^10\.96\.0\.10,tcp:80$/m);
  });

  it('asks itself from the node and as a Pod, where it may make a namespace, and finds that packets are stopped', async () => {
    await node.stop();
    const agent = node.start(MODE, '--datapath-check=report');
    await agent.synced(0, PATIENCE);
    const asked = async (from: string, result: string) => {
      const text = await lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
      const sample = `slicewire_datapath_connections_total{from="${from}",ip_family="IPv4",result="${result}"}`;
      return Number(
        text
          .split('\n')
          .find((line) => line.startsWith(sample))
          ?.slice(sample.length) ?? 0,
      );
    };
    for (const from of ['node', 'pod'])
      await until(`from ${from}`, async () => (await asked(from, 'passed')) > 1, PATIENCE);
    // An emulated machine is so slow that connections may be late: so they are counted, and nothing is said of the alarm.
    const grows = async (result: string) => {
      const before = await asked('pod', result);
      await until(
        `more connections of the Pod ${result}`,
        async () => (await asked('pod', result)) > before + 1,
        PATIENCE,
      );
    };
    await lab.exec('node', 'iptables', '-t', 'mangle', '-I', 'POSTROUTING', '-o', POD_DEVICE, '-j', 'DROP');
    const passed = await asked('pod', 'passed');
    await grows('failed');
    assert.ok((await asked('pod', 'passed')) <= passed + 1, 'but for one that was on its way');
    await lab.exec('node', 'iptables', '-t', 'mangle', '-D', 'POSTROUTING', '-o', POD_DEVICE, '-j', 'DROP');
    await grows('passed');
    await node.stop();
  });

  it('ends with one clear line when the kernel has no such scheduler', async () => {
    const { status, error } = await node.run('run', MODE, '--ipvs-scheduler=nosuch');
    assert.equal(status, 1);
    assert.match(error, /--ipvs-scheduler=nosuch: the kernel refuses the scheduler: ENOENT.*ip_vs_nosuch/);
  });
});
