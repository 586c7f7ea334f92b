/** Ways to an API server that are not the plain one: a proxy of the kubeconfig, a certificate that nobody trusts, HTTP/1.1. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { runPlugin } from '../../../src/cli/kubectl/plugin.ts';
import { NoAnswer } from '../../../src/inspect/wire/envelope.ts';
import type { LastingDifference } from '../../../src/inspect/wire/shadow.ts';
import { AgentCluster, agentPod } from '../../helpers/cli/kubectl/agent-cluster.ts';
import { connectProxy } from '../../helpers/cluster/api/connect-proxy.ts';
import { NOW, shadowAnswer, statusAnswer, verificationAnswer } from '../../helpers/inspect/wire/answers.ts';

interface Kubeconfig {
  readonly clusters: readonly [{ readonly name: string; readonly cluster: object }];
}

/** The exit status, after the cluster in the kubeconfig was changed. */
async function statusThrough(cluster: AgentCluster, more: object): Promise<number> {
  const kubeconfig = await cluster.server.kubeconfig();
  const config = JSON.parse(await readFile(kubeconfig, 'utf8')) as Kubeconfig;
  const [entry] = config.clusters;
  const changed = { ...config, clusters: [{ ...entry, cluster: { ...entry.cluster, ...more } }] };
  await writeFile(kubeconfig, JSON.stringify(changed));
  const signal = new AbortController().signal;
  return await runPlugin(['status', '--kubeconfig', kubeconfig], { signal, print: () => undefined });
}

describe('kubectl slicewire finds its way', () => {
  it('through the proxy of the kubeconfig, for the list and for the connection to the Pod', async () => {
    const cluster = await AgentCluster.start({ tls: true, token: 'secret' });
    const proxy = await connectProxy();
    try {
      await cluster.addAgent('node-1', { '/status': () => statusAnswer('node-1') });
      assert.equal(await statusThrough(cluster, { 'proxy-url': proxy.url }), 0);
      assert.deepEqual(proxy.targets, [new URL(cluster.server.url).host, new URL(cluster.server.url).host]);
    } finally {
      proxy.stop();
      await cluster.stop();
    }
  });

  it('to a server that has HTTP/1.1 alone', async () => {
    const cluster = await AgentCluster.start({ tls: 'http/1.1', token: 'secret' });
    try {
      await cluster.addAgent('node-1', { '/status': () => statusAnswer('node-1') });
      assert.equal(await statusThrough(cluster, {}), 0);
    } finally {
      await cluster.stop();
    }
  });

  it('to no server whose certificate nobody trusts, unless the kubeconfig says so', async () => {
    const cluster = await AgentCluster.start({ tls: true });
    try {
      await cluster.addAgent('node-1', { '/status': () => statusAnswer('node-1') });
      const distrusting = { 'certificate-authority-data': undefined };
      await assert.rejects(
        statusThrough(cluster, distrusting),
        (error) => error instanceof NoAnswer && /its certificate is not signed by the authority/.test(error.message),
      );
      assert.equal(cluster.kubelets.asked.length, 0);
      assert.equal(await statusThrough(cluster, { ...distrusting, 'insecure-skip-tls-verify': true }), 0);
    } finally {
      await cluster.stop();
    }
  });

  it('to no server where the program for the credentials failed, and says so', async () => {
    const cluster = await AgentCluster.start();
    try {
      const kubeconfig = await cluster.server.kubeconfig();
      const config = JSON.parse(await readFile(kubeconfig, 'utf8')) as object;
      const exec = (command: string) => ({
        apiVersion: 'client.authentication.k8s.io/v1',
        interactiveMode: 'Never',
        command,
      });
      const failing = async (command: string) => {
        await writeFile(
          kubeconfig,
          JSON.stringify({ ...config, users: [{ name: 'test', user: { exec: exec(command) } }] }),
        );
        const options = { signal: new AbortController().signal, print: () => undefined };
        await runPlugin(['status', '--kubeconfig', kubeconfig, '--context', ''], options);
      };
      const head = /^the credentials for http:\S+ cannot be had: /.source;
      await assert.rejects(failing('false'), {
        message: new RegExp(`${head}the program that the kubeconfig names .* failed`),
      });
      await assert.rejects(failing('not-there'), { message: new RegExp(`${head}spawn not-there ENOENT`) });
    } finally {
      await cluster.stop();
    }
  });

  it('ends at once when it is interrupted', async () => {
    const cluster = await AgentCluster.start();
    try {
      cluster.addNode('node-1', { kind: 'hangs' });
      const kubeconfig = await cluster.server.kubeconfig();
      const stop = new AbortController();
      const running = runPlugin(['status', '--kubeconfig', kubeconfig], {
        signal: stop.signal,
        print: () => undefined,
      });
      const received = new Error('received SIGINT');
      setTimeout(() => stop.abort(received), 300);
      await assert.rejects(running, received);
    } finally {
      await cluster.stop();
    }
  });

  it('to the shadow of the node, where the question is about kube-proxy, and says that it needs one', async () => {
    const cluster = await AgentCluster.start();
    try {
      let isShadow = true;
      const port = await cluster.addAgent('node-1', {
        '/verify': () => {
          const answer = verificationAnswer('node-1');
          return isShadow ? { ...answer, by: { ...answer.by, rules: 'kube-proxy' } } : answer;
        },
      });
      assert.equal(
        await cluster.refusal('verify', '--of', 'kube-proxy'),
        'no Pod with the label k8s-app=slicewire-shadow is in the namespace kube-system: questions about kube-proxy need a shadow on the node: apply deploy/shadow, or name its Pods with --namespace and --selector',
      );
      const labels = { 'k8s-app': 'slicewire-shadow' };
      cluster.addNode('node-1', { kind: 'agent', port }, agentPod('node-1', undefined, { labels }));
      assert.equal((await cluster.run('verify', '--of', 'kube-proxy', '--node', 'node-1')).status, 0);
      assert.deepEqual(
        cluster.kubelets.asked.map((one) => one.port),
        [10_269],
      );
      isShadow = false;
      assert.match(await cluster.refusal('verify', '--of', 'kube-proxy'), /must name shadows$/);
      assert.match(await cluster.refusal('verify', '--of', 'cilium'), /^--of cilium: only the rules of kube-proxy/);
      assert.match(
        await cluster.refusal('explain', 'node', 'svc/shop/web', '--of', 'kube-proxy', '--at', '-5m'),
        /cannot be combined with --at/,
      );
    } finally {
      await cluster.stop();
    }
  });

  it('to the shadows of all nodes, for what they have found', async () => {
    const cluster = await AgentCluster.start();
    try {
      const labels = { 'k8s-app': 'slicewire-shadow' };
      const [example] = verificationAnswer('node-2', ['from the node to 10.96.0.20:80']).differences;
      assert.ok(example);
      const one: LastingDifference = { service: 'shop/web', kind: 'missing', since: NOW, connections: 3, example };
      for (const [node, differing] of [
        ['node-1', []],
        ['node-2', [one]],
      ] as const) {
        const port = await cluster.addAgent(node, { '/status': () => shadowAnswer(node, differing) });
        cluster.addNode(node, { kind: 'agent', port }, agentPod(node, undefined, { labels }));
      }
      const { status, out } = await cluster.run('status', '--of', 'kube-proxy');
      assert.equal(status, 2);
      assert.match(
        out,
        /^1 of 2 nodes has a kube-proxy whose rules are right; the others:\n {2}node-2: kube-proxy's rules do not do what/,
      );
      assert.match(out, /node-2 +nftables +1 +819 ms +1\.0 ms/);
      assert.equal((await cluster.run('status', '--of', 'kube-proxy', '--node', 'node-1')).status, 0);
    } finally {
      await cluster.stop();
    }
  });
});
