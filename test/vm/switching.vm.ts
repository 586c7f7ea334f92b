/** Between IPVS mode and nftables mode, the agent as a process: no request fails, and the former's objects are gone. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { POD_PORT, WEB_ROUTES, webObjects } from '../helpers/cli/lab/web.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 300_000;
/** Between two requests of one route: an emulated processor is to be left some time for the agent. */
const PAUSE = 250;

describe('between IPVS mode and nftables mode', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1, 2], { hasOther: false }));
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  /** An agent works until it is replaced. */
  async function works(mode: 'ipvs' | 'nftables' | 'auto'): Promise<AgentProcess> {
    const agent = node.start(`--mode=${mode}`, '--cluster-cidr', LAB.clusterCidr.v4);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    await agent.stop();
    return agent;
  }
  const weights = async () => [...(await lab.exec('node', 'ipvsadm', '-Sn')).matchAll(/ -w (\d+)/g)].map(([, w]) => w);
  const onlyDrain = async () => assert.deepEqual(new Set(await weights()).difference(new Set(['0'])), new Set());
  const tables = () => lab.exec('node', 'nft', 'list', 'tables');

  it('there and back under continuous traffic no request fails, and what connections hold alone is left', async () => {
    await works('ipvs');
    const traffic = startTraffic(lab, WEB_ROUTES, { pause: PAUSE });
    try {
      await works('nftables');
      assert.match(await tables(), /table ip slicewire\n/);
      await onlyDrain();
      assert.doesNotMatch(await lab.exec('node', 'iptables-save'), /KUBE-(SERVICES|SVC|LOAD-BALANCER)/);
      await works('ipvs');
      assert.doesNotMatch(await tables(), /slicewire/);
      assert.ok((await weights()).includes('1'));
    } finally {
      const { requests, failures } = await traffic.stop();
      assert.deepEqual(failures.slice(0, 5), []);
      assert.ok(requests > 30, `${requests} requests`);
    }
  });

  it('auto keeps IPVS mode where its device stands', async () => {
    await works('ipvs');
    const { log } = await works('auto');
    const told = log.filter(({ msg }) => msg.startsWith('auto chose')).map(({ msg }) => msg);
    assert.deepEqual(told, ['auto chose ipvs mode, because the device kube-ipvs0 of IPVS mode stands on this node']);
    assert.ok((await weights()).includes('1'));
  });

  it('nftables mode finds the servers of IPVS mode although another program removed the device', async () => {
    await lab.exec('node', 'ip', 'link', 'delete', 'kube-ipvs0');
    assert.ok((await weights()).includes('1'));
    await works('nftables');
    await onlyDrain();
  });
});
