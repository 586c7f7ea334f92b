/** A shadow beside the virtual servers of kube-proxy in IPVS mode, which were recorded from the real one. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { IPVS_VERSIONS, RecordedNode } from '../recordings/kube-proxy/scene.ts';
import { CHANGED } from '../recordings/kube-proxy/transcript.ts';

const WEB = ['-t', '10.96.0.20:80', '-r'] as const;

/** The kernel's settings of networks and of IPVS. */
const SETTINGS =
  'grep -r . /proc/sys/net/ipv4/vs /proc/sys/net/ipv4/conf /proc/sys/net/ipv4/ip_forward /proc/sys/net/netfilter 2>/dev/null | grep -v nf_conntrack_count';

/** The endpoint that came is replaced once more. */
const CHANGED_AGAIN = JSON.parse(JSON.stringify(CHANGED).replaceAll('10.244.2.19', '10.244.2.20')) as object[];

let node: RecordedNode;
before(async () => {
  node = await RecordedNode.create({ version: IPVS_VERSIONS.at(-1) ?? '', mode: 'ipvs' });
  await node.reset();
});
after(() => node.remove());

it('finds what is wrong, times when the servers have a change, and writes nothing', async () => {
  const state = async () =>
    await Promise.all([
      node.lab.exec('node', 'ipvsadm', '-Sn'),
      node.lab.exec('node', 'ipset', 'save', '-sorted'),
      node.lab.exec('node', 'ip', '-o', 'addr', 'show', 'kube-ipvs0'),
      ...['iptables', 'ip6tables'].flatMap((tool) =>
        ['filter', 'nat', 'mangle', 'raw'].map((table) => node.lab.exec('node', tool, '-t', table, '-S')),
      ),
      node.lab.exec('node', 'sh', '-c', SETTINGS),
    ]);
  await node.write(CHANGED);
  const before = await state();
  const shadow = node.watch();
  try {
    const first = await node.foundWhen('the first comparison', ({ compared }) => compared !== null);
    assert.deepEqual([first.problem, first.by.mode], ['', 'ipvs']);
    assert.deepEqual(first.differences.map(({ service, kind }) => `${service} ${kind}`).sort(), [
      ' foreign',
      'shop/web changed',
    ]);
    assert.ok(first.onPurposeCount > 0, 'IPVS mode of kube-proxy leads some connections elsewhere on purpose');
    assert.deepEqual(await state(), before);

    await node.write(CHANGED_AGAIN);
    const waiting = await node.foundWhen('the change', ({ waiting: { services } }) => services === 1);
    assert.equal(waiting.latency.theirs, null);
    await node.lab.exec('node', 'ipvsadm', '-d', ...WEB, '10.244.1.12:8080');
    await node.lab.exec('node', 'ipvsadm', '-a', ...WEB, '10.244.2.20:8080', '-m');
    const written = await state();
    const measured = await node.foundWhen('the servers', ({ latency: { theirs } }) => theirs !== null);
    assert.deepEqual([measured.latency.theirs?.changes, measured.latency.sight], [1, 'servers polled']);
    assert.ok((measured.latency.plan?.most ?? 0) < (measured.latency.theirs?.p50 ?? 0));
    await shadow.stop();
    assert.deepEqual(await state(), written);
  } finally {
    await shadow.stop();
  }
});
