/**
 * A cluster of network namespaces in which Pods end under load, and the fleet says when nobody sends to them any more: real agents, fleet,
 * controller and packets. Nodes that cannot be asked, or are late, are named; where the fleet said yes, no request fails.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { until } from '../helpers/base/until.ts';
import { inNamespace } from '../helpers/kernel/namespace-sockets.ts';
import { command, httpGet, nothing, type RollOut, rollOut } from './roll-out/roll-out.ts';
import { Scene } from './roll-out/scene.ts';

const PODS = 12;
const NODE = 'node-3';
/** Requests a second. */
const RATE = 90;
/** Milliseconds: three agents, a controller and two replicas share the machine with other tests. */
const PATIENCE = 120_000;

/** Why a node is behind whose agent can be asked. */
const LATE = /^its agent has not written the change yet/;

/** What went wrong, in a form that a failed test shows. */
const lost = ({ failed, late, without }: RollOut) => ({ failed, late, without });
const NOTHING_LOST = { failed: [], late: [], without: 0 };

describe('Pods that end under load', () => {
  let scene: Scene;
  before(async () => {
    scene = await Scene.start({ mode: 'nftables', nodes: 3 });
    for (let n = 1; n <= PODS; n++) await scene.startPod(`web-0-${n}`);
    await scene.settled();
  });
  after(() => scene?.stop());

  const namespace = () => scene.cluster.network.namespace(NODE);
  const agentPid = () => scene.cluster.agent(NODE).pid ?? assert.fail('no agent');

  it('lose requests where nothing waits', async () => {
    const { failed, requests } = await rollOut(scene, { pods: PODS, surge: 3, rate: RATE, hook: nothing });
    assert.ok(failed.length > 0, `none of ${requests} requests failed`);
  });

  it('lose none with a request of the kubelet to the fleet', async () => {
    await scene.settled();
    assert.deepEqual(lost(await rollOut(scene, { pods: PODS, surge: 3, rate: RATE, hook: httpGet })), NOTHING_LOST);
  });

  it('lose none with slicewire drained, also while a replica of the fleet is killed', async () => {
    await scene.settled();
    const halfway = async () => {
      await scene.replicas.shift()?.kill();
    };
    const options = { pods: PODS, surge: 2, rate: RATE, hook: command(), halfway };
    assert.deepEqual(lost(await rollOut(scene, options)), NOTHING_LOST);
    await scene.startReplica(3);
  });

  /** One Pod ends while a node is in trouble: the fleet names the node, and says yes when the trouble is over. */
  async function ends(why: RegExp, recovers: () => Promise<void>): Promise<void> {
    const name = [...scene.pods.keys()][0] ?? assert.fail('no Pod');
    const load = scene.load(RATE);
    const served = scene.pods.get(name) ?? assert.fail(name);
    await scene.cluster.kubelet.terminate(served.pod);
    // The others need their time.
    await until(
      `only ${NODE} is behind`,
      async () => {
        const { status, answer } = await scene.drained(name, '2s');
        assert.equal(status, 504, JSON.stringify(answer));
        const [behind, ...others] = answer.nodes.behind;
        return others.length === 0 && behind?.node === NODE && why.test(behind.why);
      },
      PATIENCE,
    );
    await recovers();
    const { status, at, answer } = await scene.drained(name, '90s');
    assert.equal(status, 200, JSON.stringify(answer));
    await scene.removePod(name);
    await scene.startPod(`web-${name}`);
    await load.stop();
    assert.deepEqual([load.failed, load.after(at, name)], [[], []]);
  }

  it('wait for an agent that is stopped', async () => {
    process.kill(agentPid(), 'SIGSTOP');
    await ends(LATE, async () => void process.kill(agentPid(), 'SIGCONT'));
  });

  it('wait for an agent that cannot reach the API server', async () => {
    await scene.cluster.cutApi(namespace());
    await ends(LATE, () => scene.cluster.openApi(namespace()));
  });

  it('wait for an agent that is being restarted', async () => {
    await scene.cluster.agent(NODE).stop();
    await ends(/^no connection to its agent/, () => scene.cluster.restartAgent(NODE));
  });

  it('wait for an agent that is slow', async () => {
    await scene.cluster.restartAgent(NODE, '--nftables-min-sync-period', '20s');
    await scene.settled();
    // The first change after a long time is written at once, and the next ones wait.
    await scene.startPod('web-more');
    await ends(LATE, async () => undefined);
    await scene.cluster.restartAgent(NODE);
  });

  it('wait for an agent of an older version, and say that it is too old', async () => {
    await scene.cluster.restartAgent(NODE, '--healthz-bind-address=127.0.0.1:10257');
    const old = createServer((_, response) => void response.writeHead(404).end('404 page not found\n'));
    inNamespace(namespace(), () => old.listen(10_256));
    try {
      await ends(/^its agent is too old/, async () => {
        old.close();
        old.closeAllConnections();
        await scene.cluster.restartAgent(NODE);
      });
    } finally {
      old.close();
    }
  });
});
