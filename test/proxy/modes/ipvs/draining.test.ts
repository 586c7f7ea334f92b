/** Draining of removed destinations: their connections end in their own time (docs/ipvs.md). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../../src/base/address.ts';
import { KernelError, type KernelWrite, type ServerId } from '../../../../src/kernel/ipvs-kernel.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { type IpvsRig, ipvsRig } from '../../../helpers/proxy/ipvs-rig.ts';

const SERVER: ServerId = { protocol: 'TCP', address: '10.96.0.10' as Address, port: 80 };
const at = (last: number) => ({ address: `10.244.1.${last}` as Address, port: 8080 });

function web(protocol = 'TCP', spec: object = {}): object {
  return service({ name: 'web', spec: { clusterIP: SERVER.address, ports: [{ port: 80, protocol }], ...spec } });
}

function pods(...lasts: number[]): object {
  return slice({
    name: 'web-1',
    service: 'web',
    addressType: 'IPv4',
    ports: [
      { name: '', port: 8080, protocol: 'TCP' },
      { name: '', port: 8080, protocol: 'UDP' },
      { name: '', port: 8080, protocol: 'SCTP' },
    ],
    endpoints: lasts.map((last) => at(last).address),
  });
}

async function sync({ rig }: IpvsRig): Promise<void> {
  const report = await rig.sync();
  assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
}

/** Weights by the last number of the address. */
function weights({ kernel }: IpvsRig, key = 'TCP 10.96.0.10:80'): Record<string, number> | undefined {
  const found = kernel.virtual.get(key);
  if (found === undefined) return undefined;
  return Object.fromEntries(
    [...found.destinations.values()].map(({ address, weight }) => [address.split('.')[3] ?? '', weight]),
  );
}

async function served(...lasts: number[]): Promise<IpvsRig> {
  const made = ipvsRig({ families: ['IPv4'] });
  made.rig.put(web(), pods(...lasts));
  await sync(made);
  return made;
}

describe('a removed destination', () => {
  it('without connections is deleted at once', async () => {
    const made = await served(11, 12);
    made.rig.put(pods(12));
    await sync(made);
    assert.deepEqual(weights(made), { '12': 1 });
  });

  it('with connections gets weight 0 first, and is deleted when they have ended', async () => {
    const made = await served(11, 12);
    made.kernel.connect(SERVER, at(11), 3);
    made.rig.put(pods(12));
    await sync(made);
    assert.deepEqual(weights(made), { '11': 0, '12': 1 });
    assert.equal(made.rig.mode.isWaiting, true);
    await sync(made);
    assert.deepEqual(weights(made), { '11': 0, '12': 1 });
    made.kernel.connect(SERVER, at(11), 0);
    await sync(made);
    assert.deepEqual(weights(made), { '12': 1 });
    assert.equal(made.rig.mode.isWaiting, false);
  });

  it('with connections is deleted at once where its endpoint is gone (--reset-gone), and stays where it only left', async () => {
    const made = await served(11, 12, 13);
    made.rig.cache.noteGone(true);
    for (const last of [11, 12]) made.kernel.connect(SERVER, at(last), 3);
    const ended = { addresses: [at(11).address], conditions: { ready: false, serving: true, terminating: true } };
    const ports = [{ name: '', port: 8080, protocol: 'TCP' }];
    const of = { name: 'web-1', service: 'web', addressType: 'IPv4', ports } as const;
    made.rig.put(slice({ ...of, endpoints: [ended, { addresses: [at(13).address] }] }));
    await sync(made);
    assert.deepEqual(weights(made), { '11': 0, '12': 0, '13': 1 });
    made.rig.put(pods(13));
    await sync(made);
    assert.deepEqual(weights(made), { '12': 0, '13': 1 });
  });

  it('gets weight 0 before its connections are read', async () => {
    const made = await served(11, 12);
    const seen: string[] = [];
    made.kernel.options = {
      ...made.kernel.options,
      intercept: ({ kind }) => void seen.push(kind),
      onRead: (what) => seen.push(`read ${what}`),
    };
    made.rig.put(pods(12));
    await sync(made);
    assert.deepEqual(seen.slice(0, 3), ['change-destination', 'read destinations', 'remove-destination']);
  });

  it('of UDP is deleted at once: the next packet of a flow finds another one', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    made.rig.put(web('UDP'), pods(11, 12));
    await sync(made);
    made.kernel.connect({ ...SERVER, protocol: 'UDP' }, at(11), 3);
    made.rig.put(pods(12));
    await sync(made);
    assert.deepEqual(weights(made, 'UDP 10.96.0.10:80'), { '12': 1 });
  });

  it('of SCTP drains as one of TCP: its associations would be aborted (kube-proxy deletes it at once)', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const [server, key] = [{ ...SERVER, protocol: 'SCTP' } as const, 'SCTP 10.96.0.10:80'];
    made.rig.put(web('SCTP'), pods(11, 12));
    await sync(made);
    made.kernel.connect(server, at(11), 3);
    made.rig.put(pods(12));
    await sync(made);
    assert.deepEqual(weights(made, key), { '11': 0, '12': 1 });
    assert.equal(made.rig.mode.isWaiting, true);
    // The Service goes, too, while no agent runs.
    const again = ipvsRig({ families: ['IPv4'], kernel: made.kernel, iptables: made.iptables });
    await sync(again);
    assert.deepEqual(weights(again, key), { '11': 0 });
    assert.equal(again.rig.mode.isWaiting, true);
    made.kernel.connect(server, at(11), 0);
    await sync(again);
    assert.deepEqual(made.kernel.dump(), []);
    assert.equal(again.rig.mode.isWaiting, false);
  });

  it('keeps its connections when it comes back (kube-proxy deletes it, and they break)', async () => {
    const made = await served(11, 12);
    made.kernel.connect(SERVER, at(11), 3);
    made.rig.put(pods(12));
    await sync(made);
    made.rig.put(pods(11, 12));
    await sync(made);
    assert.deepEqual(weights(made), { '11': 1, '12': 1 });
    assert.equal(made.kernel.virtual.get('TCP 10.96.0.10:80')?.destinations.get('10.244.1.11:8080')?.connections, 3);
    assert.ok(made.kernel.written.every(({ kind }) => kind !== 'remove-destination'));
  });

  it('goes on draining after a restart', async () => {
    const made = await served(11, 12);
    made.kernel.connect(SERVER, at(11), 3);
    made.rig.put(pods(12));
    await sync(made);
    const again = ipvsRig({ families: ['IPv4'], kernel: made.kernel, iptables: made.iptables });
    again.rig.put(web(), pods(12));
    await sync(again);
    assert.deepEqual(weights(again), { '11': 0, '12': 1 });
    made.kernel.connect(SERVER, at(11), 0);
    await sync(again);
    assert.deepEqual(weights(again), { '12': 1 });
  });

  it('drains after the next start if it was removed while no agent ran', async () => {
    const made = await served(11, 12);
    made.kernel.connect(SERVER, at(11), 3);
    const again = ipvsRig({ families: ['IPv4'], kernel: made.kernel, iptables: made.iptables });
    again.rig.put(web(), pods(12));
    await sync(again);
    assert.deepEqual(weights(again), { '11': 0, '12': 1 });
  });
});

describe('a deleted Service', () => {
  for (const isRestarted of [false, true]) {
    const when = isRestarted ? 'while no agent runs' : 'while an agent runs';
    it(`${when} keeps its server, its address and its label until the connections have ended`, async () => {
      const made = await served(11);
      made.kernel.connect(SERVER, at(11), 2);
      const then = isRestarted ? ipvsRig({ families: ['IPv4'], kernel: made.kernel, iptables: made.iptables }) : made;
      if (!isRestarted) then.rig.remove('Service', 'default/web');
      await sync(then);
      assert.deepEqual(weights(then), { '11': 0 });
      assert.ok(then.kernel.ours.has(SERVER.address));
      assert.ok(then.kernel.sets.get('KUBE-IPVS-SERVERS')?.entries.has('10.96.0.10,tcp:80'));
      assert.ok(then.kernel.sets.get('KUBE-IPVS-IPS')?.entries.has('10.96.0.10'), 'host ports stay closed');
      assert.equal(then.kernel.sets.get('KUBE-CLUSTER-IP')?.entries.size, 0);
      made.kernel.connect(SERVER, at(11), 0);
      await sync(then);
      assert.deepEqual(then.kernel.dump(), []);
    });
  }

  it('with a node port is recognised after a restart by its label', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    made.rig.put(web('TCP', { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] }), pods(11));
    await sync(made);
    const onNode: ServerId = { protocol: 'TCP', address: '192.168.77.2' as Address, port: 30_080 };
    made.kernel.connect(onNode, at(11), 2);
    const again = ipvsRig({ families: ['IPv4'], kernel: made.kernel, iptables: made.iptables });
    await sync(again);
    assert.deepEqual(weights(again, 'TCP 192.168.77.2:30080'), { '11': 0 });
    made.kernel.connect(onNode, at(11), 0);
    await sync(again);
    assert.deepEqual(again.kernel.dump(), []);
  });

  it('that comes back while it drains is served again without a lost connection', async () => {
    const made = await served(11);
    made.kernel.connect(SERVER, at(11), 2);
    made.rig.remove('Service', 'default/web');
    await sync(made);
    made.rig.put(web());
    await sync(made);
    assert.deepEqual(weights(made), { '11': 1 });
    assert.ok(made.kernel.written.every(({ kind }) => !kind.startsWith('remove-s') && kind !== 'remove-destination'));
  });
});

describe('an address that comes back', () => {
  /** The kernel after a sync that ended before it removed servers, and what is behind the address when it is added again. */
  async function comesBack(intercept: (write: KernelWrite) => KernelError | undefined = () => undefined) {
    const made = ipvsRig({ families: ['IPv4'] });
    const spec = { ports: [80, 81].map((port) => ({ name: `p${port}`, port, protocol: 'UDP', targetPort: 8080 })) };
    const ports = [80, 81].map((port) => ({ name: `p${port}`, port: 8080, protocol: 'UDP' }));
    const endpoints = (...lasts: number[]) =>
      slice({ name: 'web-1', service: 'web', ports, endpoints: lasts.map((last) => at(last).address) });
    made.rig.put(web('UDP', spec), endpoints(11));
    await sync(made);
    made.kernel.state.write({ kind: 'remove-address', address: SERVER.address });
    const { kernel, iptables } = made;
    const behind: string[][] = [];
    kernel.options = {
      ...kernel.options,
      intercept: (write) => {
        if (write.kind === 'add-address') behind.push([...kernel.virtual.keys()]);
        return intercept(write);
      },
    };
    const next = ipvsRig({ families: ['IPv4'], kernel, iptables });
    next.rig.put(web('UDP', { ports: spec.ports.slice(0, 1) }), endpoints(12));
    return { next, behind };
  }

  it('leads to no server, and no destination, that should be gone', async () => {
    const { next, behind } = await comesBack();
    await sync(next);
    assert.deepEqual([behind, weights(next, 'UDP 10.96.0.10:80')], [[['UDP 10.96.0.10:80']], { '12': 1 }]);
  });

  for (const [what, kind] of [
    ['nothing is removed, because a write before was impossible', 'add-destination'],
    ['such a server cannot be removed', 'remove-server'],
  ] as const) {
    it(`waits where ${what}`, async () => {
      let failures = 1;
      const { next, behind } = await comesBack((write) =>
        write.kind === kind && failures-- > 0 ? new KernelError('environment', 'not now') : undefined,
      );
      assert.equal((await next.rig.sync()).outcome, 'partial');
      assert.deepEqual(behind, []);
      await sync(next);
      assert.deepEqual(behind, [['UDP 10.96.0.10:80']]);
    });
  }
});
