/** --failover=confirm in IPVS mode: unanswered connections of its own NAT lead to the endpoint, and a Node that vanishes is found. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { LogLine } from '../../src/cli/lab/agent-process.ts';
import { isLost } from '../agent/failover/attempts.ts';
import { Vanishing } from '../agent/failover/vanishing.ts';
import { until } from '../helpers/base/until.ts';

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 120_000;

const isSuspect = ({ msg }: LogLine) => /^Node node-2 does not answer/.test(msg);
const isBack = ({ msg }: LogLine) => /^Node node-2 answers again/.test(msg);

it('a Node that vanishes gets no new connections in IPVS mode, and gets them again when it is back', async (t) => {
  const vanishing = await Vanishing.start({ mode: 'ipvs', failover: 'confirm', nodes: 3, pods: 2 });
  t.after(() => vanishing.end());
  const { lab, agent, client } = vanishing;
  const servers = async () => {
    const listed = await lab.exec('node', 'ipvsadm', '-Ln');
    // One with connections that are open stays for them, with the weight 0.
    const isUsed = (address: string) => new RegExp(`-> ${address}:8080 +Masq +1 `).test(listed);
    return [2, 3, 4].map((node) => [1, 2].filter((n) => isUsed(lab.pod(node, n))).length);
  };
  await until('connections', () => client.all.some(({ isAnswered }) => isAnswered));
  assert.deepEqual(await servers(), [2, 2, 2]);
  const vanished = Date.now();
  await lab.cable('node-2', 'down');
  await agent.logged(isSuspect, { within: PATIENCE });
  await until('a sync without the Node', async () => JSON.stringify(await servers()) === '[0,2,2]');
  const found = Date.now();
  await until('later connections', () => client.since(found).length > 20);
  const lost = client.since(vanished).filter(isLost);
  t.diagnostic(`${lost.length} connections with a lost first packet until it was found`);
  await lab.cable('node-2', 'up');
  await agent.logged(isBack, { within: PATIENCE });
  await until('a sync with the Node', async () => JSON.stringify(await servers()) === '[2,2,2]');
});
