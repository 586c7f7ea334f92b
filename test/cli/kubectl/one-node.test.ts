/** `kubectl slicewire` with the agent of one node: which one is asked, and every way in which that fails. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { NoAnswer, WrongQuestion } from '../../../src/inspect/wire/envelope.ts';
import { explanationSchema } from '../../../src/inspect/wire/explanation.ts';
import { statusSchema } from '../../../src/inspect/wire/status.ts';
import { AgentCluster, agentPod } from '../../helpers/cli/kubectl/agent-cluster.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { askedNode } from '../../helpers/inspect/explain/asking.ts';
import { exposureAnswer, historyAnswer, statusAnswer, verificationAnswer } from '../../helpers/inspect/wire/answers.ts';
import { COMMAND_LINES } from '../../messages/command-lines.ts';
import { messageIn } from '../../messages/row.ts';

/** A Pod that is no agent. */
function workload(name: string, node: string, podIPs: readonly string[], more: object = {}): object {
  const status = { phase: 'Running', podIP: podIPs[0], podIPs: podIPs.map((ip) => ({ ip })) };
  const metadata = { name, namespace: 'shop' };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec: { nodeName: node, ...more }, status };
}

describe('kubectl slicewire of one node', () => {
  let cluster: AgentCluster;
  /** The questions that agents were asked, with the node. */
  const asked: string[] = [];
  before(async () => {
    cluster = await AgentCluster.start({ tls: true, token: 'secret', prefix: '/k8s/clusters/c-1' });
    const node = askedNode('nftables');
    const spec = { clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ports: [{ port: 80 }] };
    node.rig.put(service({ name: 'web', namespace: 'shop', spec }));
    await node.sync();
    for (const name of ['node-1', 'node-2']) {
      await cluster.addAgent(name, {
        '/status': () => statusAnswer(name),
        '/verify': () => verificationAnswer(name, ['map service_ips']),
        '/explain': async (query) => {
          asked.push(`${name} ${query}`);
          return await node.ask(query.get('from') ?? '', query.get('to') ?? '');
        },
        '/history': (query) => {
          asked.push(`${name} ${query}`);
          return historyAnswer(name, []);
        },
        '/exposure': () => exposureAnswer(name),
      });
    }
    cluster.server.put(workload('cart', 'node-2', ['10.244.2.7', 'fd00:244:2::7']));
    cluster.server.put(workload('agentless', 'node-9', ['10.244.9.7']));
    cluster.server.put(workload('new', '', []));
    cluster.server.put(workload('of-host', 'node-1', ['192.168.77.2'], { hostNetwork: true }));
  });
  after(() => cluster.stop());

  const lastAsked = async (...words: string[]) => {
    await cluster.run(...words);
    return asked.at(-1);
  };

  it('prints the answer as the node itself does, over TLS, with the token, under a prefix', async () => {
    const { status, out } = await cluster.run('status', '--node', 'node-2');
    assert.match(out, /^slicewire 1\.2\.3 on node-2: nftables mode/);
    assert.equal(status, 0);
    const last = cluster.kubelets.asked.at(-1);
    assert.equal(last?.pod, 'kube-system/slicewire-node-2');
    assert.equal(last?.port, 10_249);
    assert.equal(last?.headers.authorization, 'Bearer secret');
    assert.match(last?.headers['user-agent'] ?? '', /^slicewire\/.* kubectl$/);
    const { out: json } = await cluster.run('status', '--node', 'node-2', '-o', 'json');
    assert.deepEqual(statusSchema.parse(JSON.parse(json)), statusAnswer('node-2'));
  });

  it('has the exit status of the answer', async () => {
    assert.equal((await cluster.run('verify', '--node', 'node-1')).status, 2);
    assert.equal((await cluster.run('exposure', '--node', 'node-1')).status, 0);
    const { status, out } = await cluster.run('explain', '10.244.2.7', 'svc/shop/web', '--node', 'node-1');
    assert.match(out, /^The connection is refused because Service shop\/web has no endpoints/);
    assert.equal(status, 2);
  });

  it('asks the node of the Pod that sends, by the address of the Pod', async () => {
    assert.equal(
      await lastAsked('explain', 'pod/shop/cart', 'svc/shop/web'),
      'node-2 from=10.244.2.7&to=svc%2Fshop%2Fweb&rules=false',
    );
    assert.match(
      (await lastAsked('explain', 'pod/shop/cart', '[fd00::1]:80', '--rules')) ?? '',
      /^node-2 from=fd00.*rules=true/,
    );
    assert.match((await lastAsked('explain', 'pod/shop/of-host', '10.96.0.10:80')) ?? '', /^node-1 from=node&/);
    assert.match(
      (await lastAsked('explain', 'pod/shop/cart', '10.96.0.10:80', '--node', 'node-1')) ?? '',
      /^node-1 from=10/,
    );
    const { out } = await cluster.run('explain', 'pod/shop/cart', 'svc/shop/web', '-o', 'json');
    assert.equal(explanationSchema.parse(JSON.parse(out)).from.address, '10.244.2.7');
  });

  it('sends moments, whatever the clock of the node says', async () => {
    const [, since = ''] =
      /since=([^&]*)/.exec((await lastAsked('history', 'svc/shop/web', '--since', '10m', '--node', 'node-1')) ?? '') ??
      [];
    const ago = Date.now() - Date.parse(decodeURIComponent(since));
    assert.ok(ago >= 600_000 && ago < 700_000, `${ago}`);
  });

  const refusals: readonly (readonly [string, string[], RegExp])[] = [
    [
      'a sender that is no Pod',
      ['explain', '10.0.0.1', 'svc/shop/web'],
      /^explain: name the node to ask with --node, or ask all with --all-nodes; agents run on node-1, node-2$/,
    ],
    ['verify without a node', ['verify'], /^verify: name the node to ask with --node, /],
    ['an unknown node', ['status', '--node', 'node-3'], /^no agent runs on node node-3; agents run on node-1, node-2$/],
    [
      'a Pod of a node without an agent',
      ['explain', 'pod/shop/agentless', 'svc/shop/web'],
      /^no agent runs on node node-9; /,
    ],
    [
      'a Pod that is nowhere yet',
      ['explain', 'pod/shop/new', 'svc/shop/web'],
      /^Pod shop\/new has no node or no address yet: ask again when it runs$/,
    ],
    ['a Pod that does not exist', ['explain', 'pod/shop/none', 'svc/shop/web'], /pods "none" not found$/],
    [
      'both flags',
      ['status', '--node', 'node-1', '--all-nodes'],
      /^--node node-1: cannot be combined with --all-nodes$/,
    ],
    ['a port that is none', ['status', '--port', '70000'], /^--port 70000: must be a number from 1 to 65535$/],
    [
      'a time that is none',
      ['status', '--timeout', 'soon'],
      /^--timeout soon: must be a duration up to 1h, such as 30s$/,
    ],
    ['a moment that is none', ['history', '--at', 'soon', '--node', 'node-1'], /^--at: soon is not a time in the past/],
    [
      'a Service that is none',
      ['history', 'web', '--node', 'node-1'],
      new RegExp(
        `^${RegExp.escape(messageIn(COMMAND_LINES, 'slicewire: web is no Service').slice('slicewire: '.length))}$`,
      ),
    ],
    [
      'other labels',
      ['status', '-l', 'k8s-app=other'],
      /^no Pod with the label k8s-app=other is in the namespace kube-system: /,
    ],
    [
      'another namespace',
      ['status', '-n', 'elsewhere'],
      /^no Pod with the label k8s-app=slicewire is in the namespace elsewhere: /,
    ],
    [
      'a wrong destination',
      ['explain', '10.0.0.1', 'svc/shop/nothing', '--node', 'node-1'],
      /no Service shop\/nothing/,
    ],
    [
      'a wrong destination of all nodes',
      ['explain', '10.0.0.1', 'svc/shop/nothing', '--all-nodes'],
      /^no Service shop\/nothing/,
    ],
  ];
  for (const [name, words, message] of refusals) {
    it(`refuses ${name}`, async () => {
      assert.match(await cluster.refusal(...words), message);
    });
  }
});

describe('kubectl slicewire of an agent that cannot be asked', () => {
  let cluster: AgentCluster;
  before(async () => {
    cluster = await AgentCluster.start();
  });
  after(() => cluster.stop());

  const refused = async (node: string, ...more: string[]) =>
    (await cluster.refusal('status', '--node', node, ...more)).replace(/^node \S+ \(Pod \S+\) gives no answer: /, '');

  it('has the words of the kubelet, and what to do', async () => {
    const error = 'error forwarding port 10249 to pod x: dial tcp4 127.0.0.1:10249: connect: connection refused';
    cluster.addNode('refuses', { kind: 'fails', error });
    assert.equal(
      await refused('refuses'),
      `the kubelet could not reach the agent: ${error}; the agent does not listen there: it starts, or its --metrics-bind-address is another one; --port names the port, and the address must be of loopback`,
    );
  });

  it('names the verb that RBAC lacks, and passes on other refusals', async () => {
    const message = (verb: string) =>
      `pods "x" is forbidden: User "bob" cannot ${verb} resource "pods/portforward" in API group "" in the namespace "kube-system"`;
    for (const verb of ['get', 'create']) {
      cluster.addNode('forbidden', { kind: 'refused', status: 403, message: message(verb) });
      assert.equal(
        await refused('forbidden'),
        `the verb ${verb} of pods/portforward is missing in your rights: ${message(verb)}; docs/kubectl.md has a Role`,
      );
    }
    // The words of kube-apiserver 1.36.2 where `get` is granted and `create` is not.
    cluster.addNode('forbidden', { kind: 'refused', status: 403, message: 'pods "slicewire-a" is forbidden: ' });
    assert.match(await refused('forbidden'), /^the verb create of pods\/portforward is missing in your rights: /);
    cluster.addNode('forbidden', { kind: 'refused', status: 403, message: 'a webhook says no' });
    assert.equal(
      await refused('forbidden'),
      'the API server forbids port-forward: a webhook says no; docs/kubectl.md has a Role',
    );
    cluster.addNode('forbidden', { kind: 'refused', status: 502, message: 'error dialing backend' });
    assert.equal(await refused('forbidden'), 'the API server refused port-forward: 502 error dialing backend');
  });

  it('names the reason of a Pod that does not run', async () => {
    const waiting = { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 5m0s restarting' } };
    cluster.addNode(
      'crashes',
      { kind: 'hangs' },
      agentPod('crashes', { phase: 'Running', containerStatuses: [{ state: waiting }] }),
    );
    assert.equal(
      await refused('crashes'),
      'the container of Pod kube-system/slicewire-crashes does not run (CrashLoopBackOff: back-off 5m0s restarting)',
    );
    cluster.addNode('evicted', { kind: 'hangs' }, agentPod('evicted', { phase: 'Failed', reason: 'Evicted' }));
    assert.equal(await refused('evicted'), 'Pod kube-system/slicewire-evicted is Failed (Evicted)');
  });

  it('asks the Pod that runs where a node has several', async () => {
    await cluster.addAgent('two', { '/status': () => statusAnswer('two') });
    for (const [name, creationTimestamp] of [
      ['a', '2026-01-01T00:00:00Z'],
      ['b', '2027-01-01T00:00:00Z'],
    ] as const)
      cluster.server.put({
        ...agentPod('two', { phase: 'Failed' }),
        metadata: { name, namespace: 'kube-system', creationTimestamp, labels: { 'k8s-app': 'slicewire' } },
      });
    assert.equal((await cluster.run('status', '--node', 'two')).status, 0);
  });

  it('says that a connection died midway', async () => {
    const port = await cluster.addAgent('dies', { '/status': () => statusAnswer('dies') });
    for (const after of [0, 20, 300]) {
      cluster.addNode('dies', { kind: 'cut', port, after });
      assert.match(
        await refused('dies'),
        /^the connection to the agent ended before its answer: the API server or the kubelet cut it off \(1006/,
      );
    }
  });

  it('says that the other end is no agent, or an older one', async () => {
    await cluster.addAgent('older', {});
    assert.equal(
      await refused('older'),
      'it does not know the question /status (HTTP status 404): it is an older slicewire, or another program',
    );
    cluster.addNode('other', { kind: 'bytes', messages: [Buffer.from('SSH-2.0-OpenSSH_9.2\r\n')] });
    assert.match(await refused('other'), /^the connection to the agent ended before its answer: Parse Error/);
    cluster.addNode('quiet', { kind: 'bytes', messages: [] });
    assert.match(await refused('quiet'), /^the connection to the agent ended before its answer: /);
    const later = { ...statusAnswer('later'), apiVersion: 'slicewire/v2' };
    await cluster.addAgent('later', { '/status': () => later });
    assert.match(await refused('later'), /^the agent answers in slicewire\/v2, and this command reads slicewire\/v1/);
  });

  it('passes on why the agent has no answer', async () => {
    await cluster.addAgent('early', {
      '/status': () => Promise.reject(new NoAnswer('the first sync is not complete')),
    });
    assert.equal(await refused('early'), 'the first sync is not complete');
    await cluster.addAgent('wrong', { '/status': () => Promise.reject(new WrongQuestion('no such thing')) });
    assert.equal(await refused('wrong'), 'no such thing');
  });

  it('reads an answer in pieces of any size, and one of megabytes', async () => {
    const body = JSON.stringify(statusAnswer('pieces'));
    const all = Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    cluster.addNode('pieces', { kind: 'bytes', messages: Array.from(all, (byte) => Buffer.of(byte)) });
    assert.match((await cluster.run('status', '--node', 'pieces')).out, /on pieces: /);
    const faults = Array.from({ length: 40_000 }, (_, i) => ({
      ...{ kind: 'Service', object: `shop/s${i}`, field: '', value: '' },
      ...{ problem: `fault ${i} ${'x'.repeat(200)}`, effect: 'object set aside' as const },
    }));
    await cluster.addAgent('large', { '/status': () => statusAnswer('large', { faults }) });
    const { out } = await cluster.run('status', '--node', 'large', '-o', 'json');
    assert.equal(statusSchema.parse(JSON.parse(out)).faults.length, 40_000);
  });

  it('shows control characters of an answer, and sends none to the terminal', async () => {
    const reasons = ['\u001b[2J\u001b]0;title\u0007 gone \u009b1m \u202e evil'];
    const health = { live: true, ready: true, healthy: false, reasons };
    await cluster.addAgent('hostile', { '/status': () => statusAnswer('hostile', { health }) });
    const { out } = await cluster.run('status', '--node', 'hostile');
    assert.match(out, /\\u001b\[2J\\u001b\]0;title\\u0007 gone \\u009b1m \\u202e evil/);
    assert.doesNotMatch(out, /[^\n\P{Cc}]|\p{Cf}/u);
    const { out: json } = await cluster.run('status', '--node', 'hostile', '-o', 'json');
    assert.doesNotMatch(json, /[^\n\P{Cc}]|\p{Cf}/u);
    assert.deepEqual(statusSchema.parse(JSON.parse(json)).health.reasons, reasons);
  });

  it('asks for the path of the Pod whatever its name is', async () => {
    const name = 'a/../b?ports=1#c';
    cluster.server.put({
      ...agentPod('odd'),
      metadata: { name, namespace: 'kube-system', labels: { 'k8s-app': 'slicewire' } },
    });
    await cluster.refusal('status', '--node', 'odd');
    assert.equal(cluster.kubelets.asked.at(-1)?.pod, `kube-system/${name}`);
  });

  it('passes on that the list of Pods is forbidden', async () => {
    cluster.server.failNext(1, 403, {}, { resource: 'pods' });
    assert.match(
      await cluster.refusal('status'),
      /^\/api\/v1\/namespaces\/kube-system\/pods: 403 .*; docs\/kubectl\.md has a Role$/,
    );
    cluster.server.failNext(1, 401, {}, { resource: 'pods' });
    assert.match(
      await cluster.refusal('status'),
      /: 401 Unauthorized: the API server does not know the user of the kubeconfig; /,
    );
  });
});
