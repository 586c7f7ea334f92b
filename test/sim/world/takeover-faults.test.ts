/** Faults in the middle of a takeover, and of a repair: each packet to a cluster IP meets endpoints of now. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { becomeOf, viewsIn } from '../check/kernel-views.ts';
import { packetsTo, sendersOf } from '../check/packets.ts';
import { NODE as NODE_NAME } from '../history/objects.ts';
import { flushChain } from '../kernel/iptables/others.ts';
import { deleteChain } from './foreign.ts';
import { OBJECTS, type Scene, simScene } from './scene.ts';

const NODE = '192.168.7.7' as Address;
const LOCAL = new Set<Address>([NODE]);
const WEB = { family: 'IPv4', protocol: 'TCP', address: '10.96.0.10' as Address, port: 80 } as const;
const SENDERS = sendersOf({ IPv4: NODE, IPv6: 'fd00:7::7' as Address });
const TO_WEB = packetsTo(WEB, SENDERS, LOCAL);

const nameOf = (object: object) => (object as { readonly metadata: { readonly name: string } }).metadata.name;

/** The endpoints that packets reach now: those to the Service `web`, unless others are given. */
function reached({ kernel }: Scene, packets = TO_WEB): ReadonlySet<string> {
  const views = viewsIn(kernel.views('IPv4'));
  return new Set(
    packets.flatMap(({ packet }) => [
      ...becomeOf(views, packet, { localAddresses: LOCAL, remembered: new Set() }).backends,
    ]),
  );
}

it('IPVS mode after a torn write of iptables mode leads to no endpoint of long ago', async () => {
  const scene = simScene({ mode: 'ipvs', variant: 'nft' });
  const { calls } = scene;
  try {
    await scene.run(2000);
    // The process ends after the table nat.
    let torn = 0;
    calls.faultAt = (_number, what) => {
      if (!what.startsWith('iptables-restore')) return undefined;
      torn += 1;
      return { kind: 'fails', when: 'before', variant: 695 };
    };
    scene.restartIn('iptables');
    await scene.run(1000);
    const moved = slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.20'] });
    scene.put(OBJECTS.map((object) => (nameOf(object) === 'web-1' ? moved : object)));
    for (let i = 0; i < 4000 && torn < 4; i++) await scene.run(10);
    await scene.run(10);
    assert.deepEqual([...reached(scene)], ['10.244.1.20:8080']);
    const met = new Set<string>();
    calls.onCall = () => {
      for (const endpoint of reached(scene)) met.add(endpoint);
    };
    scene.restartIn('ipvs');
    await scene.run(40_000);
    assert.deepEqual([...met], ['10.244.1.20:8080']);
  } finally {
    scene.end();
  }
});

it('IPVS mode repairs its rules before it removes endpoints: those of policy Local may be all that serves the node', async () => {
  const scene = simScene({ mode: 'ipvs', variant: 'nft' });
  const { kernel, calls } = scene;
  const VIP = '198.51.100.15' as Address;
  const toVip = packetsTo({ ...WEB, address: VIP }, SENDERS, LOCAL).filter(({ name }) => name.startsWith('node '));
  const spec = {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.15',
    externalTrafficPolicy: 'Local',
    ports: [{ port: 80, targetPort: 8080 }],
  };
  const status = { loadBalancer: { ingress: [{ ip: VIP }] } };
  const objects = (endpoints: readonly object[]) => [
    service({ name: 'lb', spec, status }),
    slice({ name: 'lb-1', service: 'lb', ports: [{ name: '', port: 8080 }], endpoints }),
  ];
  try {
    scene.put(objects([{ addresses: ['10.244.5.6'], nodeName: NODE_NAME }]));
    await scene.run(12_000);
    assert.deepEqual([...reached(scene, toVip)], ['10.244.5.6:8080']);
    deleteChain(kernel, { family: 'IPv4', table: 'nat', chain: 'KUBE-SERVICES' });
    assert.deepEqual([...reached(scene, toVip)], ['10.244.5.6:8080'], 'by the virtual server');
    scene.put(objects([{ addresses: ['10.244.5.3'], nodeName: 'elsewhere' }]));
    let refused = 0;
    calls.onCall = () => {
      if (reached(scene, toVip).size === 0) refused += 1;
    };
    scene.restartIn('ipvs');
    await scene.run(20_000);
    assert.deepEqual([...reached(scene, toVip)], ['10.244.5.3:8080']);
    assert.equal(refused, 0);
  } finally {
    scene.end();
  }
});

it('a Service that is deleted during a takeover is served no more, although another Service is refused', async () => {
  const scene = simScene({ mode: 'ipvs', variant: 'nft' });
  try {
    await scene.run(2000);
    scene.kernel.iptables.refuses = (line) => line.includes('10.96.0.11');
    scene.restartIn('iptables');
    await scene.run(3000);
    scene.put(OBJECTS.filter((object) => !nameOf(object).startsWith('web')));
    // The manifests are read every ten seconds.
    await scene.run(12_000);
    assert.deepEqual([...reached(scene)], []);
  } finally {
    scene.end();
  }
});

it('a chain that cannot be read once is repaired at once', async () => {
  const scene = simScene({ mode: 'iptables', variant: 'nft' });
  const { kernel, calls } = scene;
  try {
    await scene.run(5000);
    let isFirst = true;
    calls.faultAt = (_number, what) => {
      if (!isFirst || !/ -S KUBE-SVC/.test(what)) return undefined;
      isFirst = false;
      return { kind: 'fails', when: 'before', variant: 2 };
    };
    const writer = { pid: 4711, name: 'iptables' };
    for (const chain of [...kernel.iptables.stores.nft.used('IPv4', 'nat').keys()].filter((name) =>
      name.startsWith('KUBE-SVC'),
    ))
      flushChain(kernel.iptables, chain, { family: 'IPv4', table: 'nat', writer });
    assert.equal(reached(scene).size, 0);
    await scene.run(1000);
    assert.equal(isFirst, false);
    assert.equal(reached(scene).size, 2);
  } finally {
    scene.end();
  }
});
