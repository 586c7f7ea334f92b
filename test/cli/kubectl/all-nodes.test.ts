/** `kubectl slicewire` with the agents of many nodes: real HTTP servers behind the WebSocket of port-forward. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { WrongQuestion } from '../../../src/inspect/wire/envelope.ts';
import { nodesSchema } from '../../../src/inspect/wire/nodes.ts';
import { until } from '../../helpers/base/until.ts';
import { AgentCluster, agentPod } from '../../helpers/cli/kubectl/agent-cluster.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { askedNode } from '../../helpers/inspect/explain/asking.ts';
import {
  change,
  exposureAnswer,
  historyAnswer,
  staleStatus,
  statusAnswer,
  verificationAnswer,
} from '../../helpers/inspect/wire/answers.ts';

const NAMES = Array.from({ length: 14 }, (_, i) => `node-${String(i + 1).padStart(2, '0')}`);
const FORBIDDEN =
  'pods "slicewire-node-09" is forbidden: User "bob" cannot create resource "pods/portforward" in API group "" in the namespace "kube-system"';

/** Without the breaks of lines. */
const flat = (text: string) => text.replace(/\s+/g, ' ');

/** Answers of a node that knows these endpoints of `shop/web`. */
async function explaining(endpoints: readonly string[]) {
  const node = askedNode('nftables');
  const spec = { clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ports: [{ port: 80, targetPort: 8080 }] };
  node.rig.put(service({ name: 'web', namespace: 'shop', spec }));
  node.rig.put(slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: [...endpoints] }));
  await node.sync();
  return async (query: URLSearchParams) =>
    await node.ask(query.get('from') ?? '', query.get('to') ?? '', { rules: query.get('rules') === 'true' });
}

describe('kubectl slicewire of 14 nodes', () => {
  let cluster: AgentCluster;
  before(async () => {
    cluster = await AgentCluster.start();
    const fresh = await explaining(['10.244.1.11', '10.244.2.12']);
    const old = await explaining(['10.244.1.11']);
    for (const name of NAMES.slice(0, 12)) {
      const isStale = name === 'node-07';
      await cluster.addAgent(name, {
        '/status': () => (isStale ? staleStatus(name) : statusAnswer(name)),
        '/explain': isStale ? old : fresh,
        '/verify': () => verificationAnswer(name, name === 'node-02' ? ['map service_ips', 'chain x'] : []),
        '/history': () => historyAnswer(name, [change(isStale ? { resourceVersion: '899' } : {})]),
        '/exposure': () => exposureAnswer(name, ['it is open to all']),
      });
    }
    cluster.addNode('node-13', { kind: 'fails', error: 'error forwarding port 10249: container not running' });
    const pending = {
      phase: 'Pending',
      conditions: [{ type: 'PodScheduled', status: 'False', message: '0/14 nodes are available' }],
    };
    cluster.addNode('node-14', { kind: 'silent' }, agentPod('node-14', pending));
  });
  after(() => cluster.stop());

  const run = (...words: string[]) => cluster.run(...words);

  it('tells how many are healthy, and the others with their reasons', async () => {
    const { status, out } = await run('status');
    assert.equal(
      flat(out).slice(0, flat(out).indexOf(' node mode')),
      [
        '11 of 14 nodes are healthy; the others:',
        'node-07: stale for 40 s because connection refused',
        'node-13: no answer: the kubelet could not reach the agent: error forwarding port 10249: container not running; look at the Pod and at its node',
        'node-14: no answer: Pod kube-system/slicewire-node-14 is Pending (0/14 nodes are available)',
      ].join(' '),
    );
    assert.match(out, /\nnode-12 {2}nftables +1\.2\.3 +healthy +4 h 3 min +10,214 +10,300 +6\.0 ms +0\n/);
    // Nothing is known of two of them.
    assert.equal(status, 1);
  });

  it('says who has a connection, and why the other one does not', async () => {
    const { status, out } = await run('explain', '10.244.9.9', 'svc/shop/web', '--all-nodes');
    assert.match(
      out,
      /^11 of 14 nodes have it; the others:\n {2}node-07: stale for 40 s because connection refused; The connection/,
    );
    assert.match(out, /The answer of most nodes:\n.*one of 2 endpoints of Service shop\/web \(50 % each\)/);
    assert.equal(status, 1);
  });

  it('says who has the newest change', async () => {
    const { out } = await run('history', 'shop/web', '--all-nodes');
    assert.match(
      out,
      /^11 of 14 nodes have it; the others:\n {2}node-07: not received; stale for 40 s because connection refused\n/,
    );
    assert.match(out, /The newest change: EndpointSlice shop\/web-1 \(resourceVersion 900\)/);
  });

  it('says whose kernel differs', async () => {
    const { out } = await run('verify', '--all-nodes');
    assert.match(
      out,
      /^11 of 14 nodes have kernels that are as desired; the others:\n {2}node-02: 2 kernel objects differ, such as map/,
    );
  });

  it('tells the same problem of many nodes once', async () => {
    const { out } = await run('exposure', '--all-nodes');
    assert.match(out, /^0 of 14 nodes expose nothing that looks wrong:\n/);
    const [, problem] = /\n- (.*(?:\n {2}.*)*)/.exec(out) ?? [];
    assert.equal(
      problem?.replace(/\s+/g, ' '),
      'node-01, node-02, node-03, node-04, node-05 and 7 more: node port 30080/TCP of Service shop/web: it is open to all',
    );
  });

  it('answers by node in JSON, in the published form', async () => {
    const { status, out } = await run('status', '-o', 'json');
    const answer = nodesSchema.parse(JSON.parse(out));
    assert.equal(status, 1);
    assert.equal(answer.question, 'status');
    assert.deepEqual(Object.keys(answer.nodes), NAMES);
    assert.deepEqual(answer.nodes['node-03']?.answer, statusAnswer('node-03'));
    assert.equal(answer.nodes['node-13']?.answer, null);
    assert.match(
      answer.summary,
      /^11 of 14 nodes are healthy; node-07: stale for 40 s because .*; node-13: no answer: /,
    );
  });

  it('leaves no connection open', async () => {
    await run('status');
    await until('the connections are closed', () => cluster.kubelets.open() === 0);
  });
});

describe('kubectl slicewire of nodes that all answer', () => {
  it('ends with 0 when all are well, and with 2 when one is not', async () => {
    const cluster = await AgentCluster.start();
    try {
      let isHealthy = true;
      const health = () => ({
        live: true,
        ready: true,
        healthy: isHealthy,
        reasons: isHealthy ? [] : ['the disk is on fire'],
      });
      for (const name of NAMES.slice(0, 3)) {
        const isOdd = name === 'node-02';
        await cluster.addAgent(name, { '/status': () => statusAnswer(name, isOdd ? { health: health() } : {}) });
      }
      assert.match((await cluster.run('status')).out, /^3 of 3 nodes are healthy\.\n\n/);
      assert.equal((await cluster.run('status')).status, 0);
      isHealthy = false;
      const { status, out } = await cluster.run('status');
      assert.match(out, /^2 of 3 nodes are healthy; the others:\n {2}node-02: the disk is on fire\n/);
      assert.equal(status, 2);
      assert.equal((await cluster.run('status', '--node', 'node-02')).status, 2);
    } finally {
      await cluster.stop();
    }
  });

  it('says why a node does not know the Service', async () => {
    const cluster = await AgentCluster.start();
    try {
      const explain = await explaining(['10.244.1.11']);
      await cluster.addAgent('node-01', { '/explain': explain, '/status': () => statusAnswer('node-01') });
      const refuse = () => Promise.reject(new WrongQuestion('no Service shop/web'));
      await cluster.addAgent('node-02', { '/explain': refuse, '/status': () => staleStatus('node-02') });
      const { status, out } = await cluster.run('explain', '10.244.9.9', 'svc/shop/web', '--all-nodes');
      assert.match(
        flat(out),
        /^1 of 2 nodes has it; the others: node-02: no answer: no Service shop\/web; stale for 40 s because connection refused The answer/,
      );
      assert.equal(status, 1);
    } finally {
      await cluster.stop();
    }
  });

  it('does not wait for ever for one that hangs, and tells the others', async () => {
    const cluster = await AgentCluster.start();
    try {
      for (const name of NAMES.slice(0, 13)) await cluster.addAgent(name, { '/status': () => statusAnswer(name) });
      cluster.addNode('node-14', { kind: 'hangs' });
      cluster.addNode('node-15', { kind: 'silent' });
      const { status, out } = await cluster.run('status', '--timeout', '4s');
      assert.ok(
        flat(out).startsWith(
          '13 of 15 nodes are healthy; the others: node-14: no answer: the agent did not answer within 4s; --timeout gives it longer node-15: no answer: the API server did not open a connection to the Pod within 4s; --timeout gives it longer node mode',
        ),
        out,
      );
      assert.equal(status, 1);
    } finally {
      await cluster.stop();
    }
  });

  it('asks at most 20 at the same time', async () => {
    const cluster = await AgentCluster.start();
    try {
      for (let i = 0; i < 45; i++) cluster.addNode(`node-${i}`, { kind: 'hangs' });
      const { out } = await cluster.run('status', '--timeout', '200ms');
      assert.match(
        out,
        /^0 of 45 nodes are healthy:\n {2}node-0, node-1, node-10, node-11, node-12 and \d+ more: no answer: /,
      );
      const most = cluster.kubelets.most();
      assert.ok(most > 1 && most <= 20, `${most} at the same time`);
      assert.equal(cluster.kubelets.asked.length, 45);
    } finally {
      await cluster.stop();
    }
  });

  it('names the right that is missing', async () => {
    const cluster = await AgentCluster.start();
    try {
      cluster.addNode('node-09', { kind: 'refused', status: 403, message: FORBIDDEN });
      await cluster.addAgent('node-10', { '/status': () => statusAnswer('node-10') });
      const { out } = await cluster.run('status');
      assert.match(out.replace(/\s+/g, ' '), /node-09: no answer: the verb create .*: pods "slicewire-node-09"/);
    } finally {
      await cluster.stop();
    }
  });
});
