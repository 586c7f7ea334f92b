/** The agent as a process, in IPVS mode, on a real kernel: what an administrator sees, a restart, what cannot work. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { AgentProcess } from '../../src/cli/demo/agent-process.ts';
import { LAB, Lab } from '../../src/cli/demo/lab.ts';
import { realCommands } from '../../src/host/commands.ts';
import { NEVER } from '../helpers/rig.ts';
import { NODE_PORT, WEB, webObjects } from '../helpers/web.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/** Milliseconds: the machine may be emulated. */
const PATIENCE = 60_000;

describe('the agent as a process in IPVS mode', () => {
  let lab: Lab;
  let folder: string;
  /** Stopped in the end, whatever became of them. */
  const running: AgentProcess[] = [];

  before(async () => {
    lab = await Lab.create({ commands: realCommands, pods: 1, remotePods: 0, signal: NEVER });
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    const items = webObjects([1, 2]);
    await writeFile(join(folder, 'web.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  });
  after(async () => {
    for (const agent of running) await agent.stop();
    await rm(folder, { recursive: true });
    await lab.remove();
  });

  const own = () => ['--manifests', folder, '--hostname-override', 'node', '--conntrack-max-per-core', '0'];

  /** Its first line about a sync. */
  async function start(): Promise<{ agent: AgentProcess; said: string }> {
    const agent = new AgentProcess(lab, ['run', '--mode=ipvs', ...own()]);
    running.push(agent);
    const { msg } = await agent.logged(({ msg: text }) => text.startsWith('synced'), { within: PATIENCE });
    return { agent, said: msg };
  }

  async function slicewire(...args: string[]) {
    return await realCommands.run(lab.inside('node', process.execPath, [MAIN, ...args]), NEVER);
  }

  it('plans without writing, writes what ipvsadm, ip and ipset show, has nothing to do then, nor after a restart', async () => {
    const before = await slicewire('plan', '--mode=ipvs', ...own());
    assert.equal(before.exitCode, 2);
    assert.match(
      before.stdout,
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
    const plan = await slicewire('plan', '--mode=ipvs', ...own());
    assert.deepEqual([plan.exitCode, plan.stdout], [0, 'nothing to do\n']);
    await agent.stop();
    assert.equal((await start()).said, 'synced, nothing to do');
  });

  /** iptables asks for the sets that rules name over a raw socket. */
  it('needs NET_ADMIN and NET_RAW alone, once --init-only wrote the settings and loaded the modules', async () => {
    for (const agent of running.splice(0)) await agent.stop();
    assert.equal((await slicewire('cleanup', '--mode=ipvs')).exitCode, 0);
    const init = await slicewire('run', '--init-only', '--mode=ipvs', ...own());
    assert.equal(init.exitCode, 0, init.stderr);
    const set = '-all,+net_admin,+net_raw';
    const confine = ['--no-new-privs', `--bounding-set=${set}`, `--inh-caps=${set}`, `--ambient-caps=${set}`];
    const args = [...confine, process.execPath, MAIN, 'run', '--once', '--mode=ipvs', ...own()];
    const once = await realCommands.run(lab.inside('node', 'setpriv', args), NEVER);
    assert.equal(once.exitCode, 0, once.stderr);
    assert.match(await lab.exec('node', 'ipvsadm', '-Sn'), /-a -t 10\.96\.0\.10:80 -r [0-9.]+:8080 -m -w 1/);
    assert.match(await lab.exec('node', 'ipset', 'list', 'KUBE-CLUSTER-IP'), /^10\.96\.0\.10,tcp:80$/m);
  });

  it('ends with one clear line when the kernel has no such scheduler', async () => {
    const { exitCode, stderr } = await slicewire('run', '--mode=ipvs', '--ipvs-scheduler=nosuch', ...own());
    assert.equal(exitCode, 1);
    assert.match(stderr, /--ipvs-scheduler=nosuch: the kernel does not take it: ENOENT.*ip_vs_nosuch/);
  });
});
