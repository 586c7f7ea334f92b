/** The story of test/netns/asking.test.ts, inside the namespace of a node: an API server on its loopback, the agent beside it. */
import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import type { Child } from '../../src/kernel/commands.ts';
import { madeToken } from '../helpers/cluster/api/api-reviews.ts';
import type { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { LONGEST, log, runStory, startAgent, web, webSlice } from './inside.ts';

/** The node's address, which other machines reach. */
function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return all.find(({ internal, family }) => !internal && family === 'IPv4')?.address ?? assert.fail('no address');
}

async function answerOf(url: string, token?: string): Promise<{ readonly status: number; readonly text: string }> {
  const headers = { connection: 'close', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
  const end = performance.now() + LONGEST;
  for (;;) {
    try {
      const answer = await fetch(url, { headers });
      return { status: answer.status, text: await answer.text() };
    } catch (error) {
      if (performance.now() > end) throw new Error(log.map(({ msg }) => msg).join('\n'), { cause: error });
      await pause(50);
    }
  }
}

const OF_FLEET = madeToken('of-the-fleet', 'slicewire-agent');
const OF_POD = madeToken('of-a-pod', 'slicewire-agent');
const OF_NOBODY = madeToken('of-nobody', 'slicewire-agent');
const FOR_API_SERVER = madeToken('for-the-api-server', 'slicewire-agent');

/** From this machine, from another address without a token, with a bad one, with the fleet's, and with a pod's. */
async function admits(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put({ kind: 'Node', metadata: { name: 'node' }, status: { addresses: [] } });
  server.put(web(1));
  server.put(webSlice(1, '10.244.1.1'));
  const { reviews } = server;
  reviews.account(OF_FLEET, ['kube-system', 'slicewire-fleet'], 'slicewire-agent');
  reviews.account(OF_POD, ['shop', 'web'], 'slicewire-agent');
  reviews.account(FOR_API_SERVER, ['kube-system', 'slicewire-fleet']);
  reviews.allowed.add('system:serviceaccount:kube-system:slicewire-fleet /programmed');
  const agent = startAgent('--mode=nftables', '--kubeconfig', kubeconfig, '--conntrack-max-per-core', '0');
  const [here, there] = ['127.0.0.1', ownAddress()].map((host) => `http://${host}:10256`);
  assert.equal((await answerOf(`${here}/programmed`)).status, 200);
  assert.equal(reviews.asked.length, 0);
  const without = await answerOf(`${there}/programmed`);
  assert.equal(without.status, 401);
  assert.match(without.text, /needs a token: /);
  assert.equal((await answerOf(`${there}/programmed`, OF_NOBODY)).status, 401);
  assert.equal((await answerOf(`${there}/programmed`, FOR_API_SERVER)).status, 401);
  const refused = await answerOf(`${there}/programmed`, OF_POD);
  assert.equal(refused.status, 403);
  assert.match(refused.text, /system:serviceaccount:shop:web may not ask \/programmed: /);
  const admitted = await answerOf(`${there}/programmed`, OF_FLEET);
  assert.equal(admitted.status, 200, admitted.text);
  assert.equal(JSON.parse(admitted.text).kind, 'Programmed');
  assert.equal((await answerOf(`${there}/programmed/live`, OF_FLEET)).status, 403);
  for (const path of ['/healthz', '/livez', '/readyz']) {
    const { status } = await answerOf(`${there}${path}`);
    assert.ok(status === 200 || status === 503, `${path}: ${status}`);
  }
  assert.ok(!log.some((line) => JSON.stringify(line).includes(OF_FLEET)), 'the log has a token');
  return agent;
}

await runStory({ admits });
