/**
 * The same packets through a real kube-proxy in IPVS mode and through slicewire, each in a lab of its own: what becomes of a pod that comes to
 * itself from another node, of connections that are over, and of associations of SCTP. `KUBE_PROXY=PATH` names kube-proxy's binary.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { LAB, remotePodAddress } from '../../src/cli/lab/lab.ts';
import { kubeProxyVersion } from '../bench/kube-proxy.ts';
import { until } from '../helpers/base/until.ts';
import { NODE_PORT, POD_PORT, webObjects } from '../helpers/cli/lab/web.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { PATIENCE, RivalNode, type RivalProxy } from './rival-node.ts';
import { diameter, SctpPeers } from './sctp-peers.ts';

const { KUBE_PROXY: file = '' } = process.env;

const ITSELF_PORT = NODE_PORT + 1;
const TRIES = 12;
const ASSOCIATIONS = 4;
/** Milliseconds that kube-proxy may need to write a change, and to look at what drains: it does so each minute. */
const SETTLE_MS = 75_000;

type StartProxy = (node: RivalNode, mode: 'ipvs' | 'iptables') => Promise<RivalProxy>;

/** A Service of policy Local before one pod, which is on the other node. */
const ITSELF = [
  service({
    name: 'itself',
    spec: {
      ...{ type: 'NodePort', externalTrafficPolicy: 'Local', clusterIP: '10.96.0.12' },
      ports: [{ port: 80, nodePort: ITSELF_PORT }],
    },
  }),
  slice({
    ...{ name: 'itself-1', service: 'itself', addressType: 'IPv4', ports: [{ name: '', port: POD_PORT }] },
    endpoints: [{ addresses: [remotePodAddress(1).v4], nodeName: 'other' }],
  }),
];

interface Seen {
  /** Connections of a pod of another node that came to itself, of TRIES. */
  readonly toItself: number;
  /** Entries that IPVS calls established when all connections were over, and destinations of weight 0 after an endpoint was removed. */
  readonly leftOpen: number;
  readonly draining: number;
  /** Seconds from the removal until there was none, looked at after SETTLE_MS. */
  readonly drained: number;
  /** Of ASSOCIATIONS of SCTP: those that go on when the endpoint of half of them is removed, and when iptables mode takes over. */
  readonly afterRemoval: number;
  readonly afterSwitch: number;
}

async function seen(start: StartProxy): Promise<Seen> {
  const node = await RivalNode.create({ pods: 3, remotePods: 1 });
  const { lab } = node;
  let peers: SctpPeers | undefined;
  let proxy: RivalProxy | undefined;
  try {
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    await lab.serve('other', 'TCP', POD_PORT, remotePodAddress(1).v4);
    peers = await SctpPeers.serve(lab);
    const web = (here: readonly number[]) => webObjects(here, { externalTrafficPolicy: 'Local' });
    node.put(...ITSELF, ...web([1, 2]), ...diameter(1, 2));
    proxy = await start(node, 'ipvs');

    const asPod = { from: remotePodAddress(1).v4, address: LAB.node.v4, port: ITSELF_PORT, timeout: 10_000 };
    const own = await Promise.all(Array.from({ length: TRIES }, () => lab.ask('other', asPod)));

    for (let i = 0; i < TRIES; i += 1) {
      for (const from of ['pod-3', 'node']) {
        const answer = await lab.ask(from, { address: LAB.node.v4, port: NODE_PORT, timeout: 10_000 });
        assert.equal(answer.outcome, 'reply', `${from}: ${JSON.stringify(answer)}`);
      }
    }
    const established = async (command: string, ...args: string[]) =>
      (await lab.exec('node', command, ...args))
        .split('\n')
        .filter((line) => /ESTABLISHED.*[:=](?:80|30080)\b/.test(line));
    const areOver = async () => (await established('conntrack', '-L', '-p', 'tcp')).length === 0;
    await until('conntrack to see the ends', areOver, PATIENCE);
    const leftOpen = (await established('ipvsadm', '-Lnc')).length;
    node.put(...web([1]).slice(1));

    const { first, ask, end } = await peers.associations(ASSOCIATIONS);
    const goOn = async () => {
      const now = await ask();
      return now.filter((by, i) => by === first[i]).length;
    };
    node.put(...diameter(2).slice(1));
    await pause(SETTLE_MS);
    const draining = async () => [...(await lab.exec('node', 'ipvsadm', '-Sn')).matchAll(/^-a -t .* -w 0$/gm)].length;
    const [soon, began] = [await draining(), performance.now()];
    await until('nothing drains', async () => (await draining()) === 0, PATIENCE);
    const drained = Math.round((SETTLE_MS + performance.now() - began) / 1000);
    const afterRemoval = await goOn();
    await proxy.stop();
    proxy = await start(node, 'iptables');
    const afterSwitch = await goOn();
    await end();
    const toItself = own.filter(({ outcome }) => outcome === 'reply').length;
    return { toItself, leftOpen, draining: soon, drained, afterRemoval, afterSwitch };
  } finally {
    await proxy?.stop();
    await peers?.stop();
    await node.remove();
  }
}

const reason = file === '' ? 'KUBE_PROXY names no kube-proxy' : false;

describe('the same packets by kube-proxy and by slicewire in IPVS mode', { skip: reason }, () => {
  it('slicewire loses none of them, and keeps nothing that is over', async (t) => {
    t.diagnostic(await kubeProxyVersion(file));
    t.diagnostic(`kube-proxy: ${JSON.stringify(await seen((node, mode) => node.kubeProxy(file, mode)))}`);
    const ours = await seen((node, mode) => node.slicewire(mode));
    t.diagnostic(`slicewire: ${JSON.stringify(ours)}`);
    const { drained: _, ...counts } = ours;
    assert.deepEqual(counts, {
      ...{ toItself: TRIES, leftOpen: 0, draining: 0 },
      ...{ afterRemoval: ASSOCIATIONS, afterSwitch: ASSOCIATIONS },
    });
  });
});
