/** Questions as people write them, and what is understood. Wrong ones are in test/messages/questions.ts. */

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { readQuery } from '../../../src/inspect/explain/packet-query.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { type AskedNode, askedNode, type Known, type NodeOptions } from '../../helpers/inspect/explain/asking.ts';

const PODS = {
  'shop/both': { addresses: ['10.244.1.11', 'fd00:244:1::11'] as Address[], nodeName: 'node' },
  'shop/far': { addresses: ['10.244.9.11' as Address], nodeName: 'other' },
  'shop/host': { addresses: ['192.168.77.2' as Address], nodeName: 'node' },
};

async function aNode(mode: ModeName = 'nftables', options: NodeOptions = {}): Promise<AskedNode> {
  const node = askedNode(mode, options);
  const ports = [
    { name: 'dns', port: 53, protocol: 'UDP' },
    { name: 'dns-tcp', port: 53 },
    { name: 'http', port: 80 },
  ];
  const of = (name: string, spec: Record<string, unknown>) => service({ name, namespace: 'shop', spec });
  node.rig.put(
    of('web', { clusterIPs: ['fd00:96::10', '10.96.0.10'], ports: [{ name: 'http', port: 80 }] }),
    of('names', { clusterIP: '10.96.0.53', ports }),
  );
  await node.sync();
  return node;
}

describe('TO', () => {
  let node: AskedNode;
  before(async () => {
    node = await aNode();
  });
  const understood = (to: string, from = 'outside') => {
    const { address, port, protocol, family } = readQuery(from, to, node.facts({ pods: PODS })).to;
    return `${address} ${port} ${protocol} ${family}`;
  };

  const ROWS: readonly (readonly [string, string])[] = [
    ['10.96.0.10:80', '10.96.0.10 80 TCP IPv4'],
    ['10.96.0.10:53/udp', '10.96.0.10 53 UDP IPv4'],
    ['10.96.0.10:53/SCTP', '10.96.0.10 53 SCTP IPv4'],
    ['10.96.0.10:80/tcp', '10.96.0.10 80 TCP IPv4'],
    ['[fd00:96:0::10]:80', 'fd00:96::10 80 TCP IPv6'],
    ['[fd00:96::10]:80/udp', 'fd00:96::10 80 UDP IPv6'],
    ['svc/shop/web', 'fd00:96::10 80 TCP IPv6'],
    ['svc/shop/names:http', '10.96.0.53 80 TCP IPv4'],
    ['svc/shop/names:80', '10.96.0.53 80 TCP IPv4'],
    ['svc/shop/names:dns', '10.96.0.53 53 UDP IPv4'],
    ['svc/shop/names:53', '10.96.0.53 53 TCP IPv4'],
    ['svc/shop/names:53/udp', '10.96.0.53 53 UDP IPv4'],
    ['service/shop/names/udp', '10.96.0.53 53 UDP IPv4'],
    ['nodeport:30080', '192.168.77.2 30080 TCP IPv4'],
    ['nodeport:30080/udp', '192.168.77.2 30080 UDP IPv4'],
    [' svc/shop/web:http ', 'fd00:96::10 80 TCP IPv6'],
  ];
  for (const [to, what] of ROWS) it(`${to} is ${what}`, () => assert.equal(understood(to), what));

  it('is in the family of FROM, where it has both', () => {
    assert.equal(understood('svc/shop/web', '10.244.1.9'), '10.96.0.10 80 TCP IPv4');
    assert.equal(understood('svc/shop/web', 'fd00:244::9'), 'fd00:96::10 80 TCP IPv6');
    assert.equal(understood('svc/shop/web', 'pod/shop/far'), '10.96.0.10 80 TCP IPv4');
    assert.equal(understood('nodeport:30080', 'fd00:244::9'), 'fd00:77::2 30080 TCP IPv6');
  });
});

describe('a node of one family', () => {
  it('is asked about the addresses of that family', async () => {
    const facts = (await aNode()).facts();
    const families = new Map([...facts.families].filter(([family]) => family === 'IPv4'));
    const { to } = readQuery('outside', 'svc/shop/web', { ...facts, families });
    assert.equal(to.address, '10.96.0.10');
    assert.throws(() => readQuery('outside', '[fd00:96::10]:80', { ...facts, families }), {
      message: '[fd00:96::10]:80: fd00:96::10 is an IPv6 address, and this node serves IPv4 only',
    });
  });
});

describe('FROM', () => {
  const sender = async (from: string, known: Known & { options?: NodeOptions; mode?: ModeName; to?: string } = {}) => {
    const { options, mode, to = '10.96.0.10:80', ...more } = known;
    const node = await aNode(mode, options);
    const { what, address, device, isLocalPod } = readQuery(from, to, node.facts({ pods: PODS, ...more })).from;
    return [what, address, device === undefined ? 'sent here' : 'comes in', isLocalPod ? 'local Pod' : '']
      .join(' ')
      .trim();
  };

  it('is a Pod by the range of Pods, or by its name', async () => {
    assert.equal(await sender('10.244.1.9'), 'pod 10.244.1.9 comes in local Pod');
    assert.equal(await sender('pod/shop/both'), 'pod 10.244.1.11 comes in local Pod');
    assert.equal(await sender('pod/shop/both', { to: '[fd00:96::10]:80' }), 'pod fd00:244:1::11 comes in local Pod');
    const none: NodeOptions = { localDetector: { kind: 'none' } };
    assert.equal(await sender('pod/shop/both', { options: none }), 'pod 10.244.1.11 comes in');
  });

  it('is a Pod by its interface only where it runs on this node', async () => {
    const options: NodeOptions = { localDetector: { kind: 'interface', name: 'veth+' } };
    assert.equal(await sender('pod/shop/both', { options }), 'pod 10.244.1.11 comes in local Pod');
    assert.equal(await sender('pod/shop/far', { options }), 'pod 10.244.9.11 comes in');
    assert.equal(await sender('10.244.1.9', { options }), 'outside 10.244.1.9 comes in');
  });

  it('is the node by its own addresses; a Pod of the host network is the node', async () => {
    assert.equal(await sender('node'), 'node 192.168.77.2 sent here');
    assert.equal(await sender('10.244.1.1'), 'node 10.244.1.1 sent here local Pod');
    assert.equal(await sender('127.0.0.1'), 'node 127.0.0.1 sent here');
    assert.equal(await sender('pod/shop/host'), 'node 192.168.77.2 sent here');
  });

  it('is the destination where the node has it: the kernel takes it as the source', async () => {
    assert.equal(await sender('node', { to: '127.0.0.1:30080' }), 'node 127.0.0.1 sent here');
    assert.equal(await sender('node', { to: '10.244.1.1:22' }), 'node 10.244.1.1 sent here local Pod');
    assert.equal(await sender('node', { mode: 'ipvs' }), 'node 10.96.0.10 sent here');
  });

  it('sends from the address that the routes choose, where they are known and FROM names none', async () => {
    const node = await aNode();
    const to = '10.96.0.10:80';
    const routed = async (from: string, source: Address | undefined) => {
      const routeTo = async () => source && { source, device: 'eth0' };
      const { from: sender, notes } = await node.ask(from, to, { pods: PODS, more: { routeTo } });
      return [sender.address, notes.some((note) => note.startsWith('This node has no route to 10.96.0.10: '))];
    };
    const bridge = '10.244.1.1' as Address;
    assert.deepEqual(await routed('node', bridge), [bridge, false]);
    assert.deepEqual(await routed('pod/shop/host', bridge), [bridge, false]);
    assert.deepEqual(await routed('192.168.77.2', bridge), ['192.168.77.2', false]);
    assert.deepEqual(await routed('203.0.113.9', bridge), ['203.0.113.9', false]);
    assert.deepEqual(await routed('node', undefined), ['192.168.77.2', true]);
  });

  it('is a Pod by the device that leads to its address, where interfaces tell Pods', async () => {
    for (const [name, device, what] of [
      ['cni0', 'cni0', 'pod'],
      ['veth+', 'veth7', 'pod'],
      ['cni0', 'cni01', 'outside'],
      ['veth+', 'eth0', 'outside'],
    ] as const) {
      const node = await aNode('iptables', { localDetector: { kind: 'interface', name } });
      const more = { routeTo: async () => ({ source: undefined, device }) };
      const { from, notes } = await node.ask('10.244.1.9', '10.96.0.10:80', { more });
      assert.deepEqual([from.what, notes.some((note) => note.includes('client outside'))], [what, what === 'outside']);
    }
  });

  it('does not send from the bridge of the Pods, where the Node has no known address', async () => {
    const facts = (await aNode()).facts();
    const families = new Map(
      [...facts.families].map(([family, one]) => [
        family,
        { ...one, nodeAddresses: [...one.localAddresses].reverse() },
      ]),
    );
    assert.equal(readQuery('node', '10.96.0.10:80', { ...facts, families }).from.address, '192.168.77.2');
  });

  it('is outside by any other address, or an address for documentation', async () => {
    assert.equal(await sender('203.0.113.9'), 'outside 203.0.113.9 comes in');
    assert.equal(await sender('outside'), 'outside 192.0.2.77 comes in');
    assert.equal(await sender('outside', { to: '[fd00:96::10]:80' }), 'outside 2001:db8::77 comes in');
  });
});
