/** Agents, recordings and fleets one version apart: each understands the other. `SLICEWIRE_FORMER` names the executable of the earlier version. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { POD_PORT, WEB, WEB_ROUTES, webObjects } from '../helpers/cli/lab/web.ts';
import { executable, type Program, SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const { SLICEWIRE_FORMER } = process.env;
const FORMER = executable(SLICEWIRE_FORMER ?? assert.fail('SLICEWIRE_FORMER names no executable'));
const FLEET_INSIDE = fileURLToPath(new URL('./fleet-inside.ts', import.meta.url));

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 300_000;
/** Of traffic in each life of an agent, and between two requests: an emulated processor is to be left some time for the agent. */
const LIFE = 5000;
const PAUSE = 250;
const CLIENT = podAddress(3).v4;

const VERSIONS: readonly (readonly [name: string, Program])[] = [
  ['earlier', FORMER],
  ['this', SLICEWIRE],
];

describe('agents one version apart', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    node = await ManifestNode.create(lab);
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  /** An agent of this version works for a while; its Service has these pods in the end. */
  async function lives(program: Program, pods: readonly number[], ...flags: readonly string[]): Promise<void> {
    const agent = node.with(program).start('--cluster-cidr', LAB.clusterCidr.v4, ...flags);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    const since = agent.log.length;
    await node.write('web', ...webObjects(pods, { hasOther: false }));
    await agent.logged(({ msg }) => msg.startsWith('synced'), { since, within: PATIENCE });
    await pause(LIFE);
    await agent.stop();
  }

  it('follow each other in IPVS mode: no request fails, a connection stays, and nothing is left after cleanup', async () => {
    await node.write('web', ...webObjects([1, 2], { hasOther: false }));
    await lives(FORMER, [1], '--mode=ipvs');
    const traffic = startTraffic(lab, WEB_ROUTES, { pause: PAUSE });
    const long = async () => {
      const answer = await lab.ask('pod-3', { address: WEB, port: 80, keep: 'long', timeout: 15_000 });
      return answer.outcome === 'reply' ? answer.by : answer.outcome;
    };
    try {
      assert.equal(await long(), 'pod-1');
      for (const [i, program] of [SLICEWIRE, FORMER, SLICEWIRE].entries()) {
        await lives(program, i % 2 === 0 ? [1, 2] : [2], '--mode=ipvs');
        assert.equal(await long(), 'pod-1', 'the connection stays at its endpoint');
      }
    } finally {
      const { requests, failures } = await traffic.stop();
      assert.deepEqual(failures.slice(0, 5), []);
      assert.ok(requests > 30, `${requests} requests`);
    }
    const { status, error } = await node.run('cleanup');
    assert.equal(status, 0, error);
    assert.equal(await lab.exec('node', 'ipvsadm', '-Sn'), '');
    assert.equal(await lab.exec('node', 'ipset', 'list', '-n'), '');
    assert.doesNotMatch(await lab.exec('node', 'iptables-save'), /KUBE-(?!FIREWALL)/);
    assert.doesNotMatch(await lab.exec('node', 'ip', 'link', 'show'), /kube-ipvs0/);
  });

  it('read the recordings of each other', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'slicewire-apart-'));
    const flags = ['--mode=nftables', '--nftables-min-sync-period=0s', '--record-dir', join(folder, 'history')];
    const endpoints = async (program: Program, ...more: readonly string[]) => {
      const { status, out, error } = await node
        .with(program)
        .asks('explain', CLIENT, 'svc/default/web', '-o', 'json', ...more);
      assert.equal(status, 0, out + error);
      const { verdict } = JSON.parse(out) as { verdict: { endpoints: { endpoint: string }[] } };
      return verdict.endpoints.map(({ endpoint }) => endpoint);
    };
    const pod = (n: number) => `${podAddress(n).v4}:${POD_PORT}`;
    try {
      for (const [i, [name, program]] of [...VERSIONS, ...VERSIONS].entries()) {
        const [now, before] = i % 2 === 0 ? [1, 2] : [2, 1];
        const moment = new Date().toISOString();
        const agent = node.with(program).start('--cluster-cidr', LAB.clusterCidr.v4, ...flags);
        await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
        const since = agent.log.length;
        await node.write('web', ...webObjects([now], { hasOther: false }));
        await agent.logged(({ msg }) => msg.startsWith('synced'), { since, within: PATIENCE });
        assert.deepEqual(await endpoints(program), [pod(now)], `${name} version`);
        // The moment before this agent is in the recording of the other version.
        if (i > 0) assert.deepEqual(await endpoints(program, '--at', moment), [pod(before)], `${name} version`);
        const file = join(folder, `${i}.recording`);
        assert.equal((await node.with(program).asks('record', file)).status, 0);
        for (const [, reader] of VERSIONS) {
          const replayed = await node.with(reader).asks('replay', file);
          assert.equal(replayed.status, 0, `${name} version, replayed: ${replayed.out}${replayed.error}`);
        }
        await agent.stop();
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  for (const [of, agent, fleet] of [
    ['an agent of the earlier version, and a fleet of this one', FORMER, SLICEWIRE],
    ['an agent of this version, and a fleet of the earlier one', SLICEWIRE, FORMER],
  ] as const) {
    it(`know what is in the kernel: ${of}`, async () => {
      const args = [FLEET_INSIDE, JSON.stringify({ agent, fleet })];
      const inside = lab.inside('node', process.execPath, args);
      const { exitCode, stdout, stderr } = await shellCommands.run(inside, NEVER);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
    });
  }
});
