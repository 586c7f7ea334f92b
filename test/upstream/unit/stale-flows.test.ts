/** The flows that kube-proxy's TestCleanStaleEntries keeps and deletes: every destination of a Service, answered by every endpoint. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Protocol } from '../../../src/base/address.ts';
import { type Address, addressBytes, socketBytes } from '../../../src/base/address.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const NODE = '192.168.77.2' as Address;
const PORT = 8000;
const NODE_PORT = 32_000;
const TARGET = 9090;
const OTHER = 3000;
const FRONTENDS = ['172.30.1.1', '192.168.99.100', '1.2.3.4'];
const [SERVING, NOT_SERVING, DELETED] = ['10.240.0.4', '10.240.1.5', '10.240.2.6'] as const;
const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];

function objects(endpoints: readonly object[]): object[] {
  const [clusterIP, externalIP, ip] = FRONTENDS;
  const ports = PROTOCOLS.map((protocol) => ({ name: protocol.toLowerCase(), protocol }));
  return [
    service({
      name: 'cleanup',
      spec: {
        clusterIP,
        externalIPs: [externalIP],
        ports: ports.map((port) => ({
          ...port,
          port: PORT,
          ...(port.protocol === 'TCP' ? {} : { nodePort: NODE_PORT }),
        })),
      },
      status: { loadBalancer: { ingress: [{ ip }] } },
    }),
    slice({
      name: 'cleanup-0',
      service: 'cleanup',
      addressType: 'IPv4',
      ports: ports.map((port) => ({ ...port, port: TARGET })),
      endpoints,
    }),
  ];
}

/** How a flow is judged, `address:port` to `address:port`. */
function judged(
  { flows }: Rig,
  protocol: Protocol,
  to: readonly [string, number],
  by: readonly [string, number],
): string {
  const socket = ([address, port]: readonly [string, number]) => socketBytes(address as Address, port);
  const flow = { family: 'IPv4', protocol, destination: socket(to), replySource: socket(by) } as const;
  const nodes = { now: (address: string) => address === addressBytes(NODE), before: () => false };
  return flows.judge(flow, nodes).kind;
}

async function settled(endpoints: readonly object[]): Promise<Rig> {
  const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] }).put(...objects(endpoints));
  assert.equal((await rig.sync()).outcome, 'complete');
  return rig;
}

/** Of the endpoints: one serves, one does not; a third one is gone. */
const ENDPOINTS = [
  { addresses: [SERVING], conditions: { serving: true } },
  { addresses: [NOT_SERVING], conditions: { ready: false, serving: false } },
];

describe('UDP flows of a Service with one endpoint that serves', () => {
  it('go on to that endpoint, and are deleted to one that does not serve and to one that is gone', async () => {
    const rig = await settled(ENDPOINTS);
    for (const to of [...FRONTENDS.map((address) => [address, PORT] as const), [NODE, NODE_PORT] as const]) {
      assert.equal(judged(rig, 'UDP', to, [SERVING, TARGET]), 'live', `${to}`);
      for (const address of [NOT_SERVING, DELETED])
        assert.equal(judged(rig, 'UDP', to, [address, TARGET]), 'stale', `${to} by ${address}`);
    }
  });

  it('are deleted where the endpoint has another port now', async () => {
    const rig = await settled(ENDPOINTS);
    for (const address of FRONTENDS) assert.equal(judged(rig, 'UDP', [address, PORT], [SERVING, 8080]), 'stale');
  });

  it('are deleted where nobody translated them', async () => {
    const rig = await settled(ENDPOINTS);
    for (const address of FRONTENDS) assert.equal(judged(rig, 'UDP', [address, PORT], [address, PORT]), 'stale');
  });

  it('to ports that the Service does not have stay, whoever answers', async () => {
    const rig = await settled(ENDPOINTS);
    for (const protocol of PROTOCOLS) {
      for (const address of FRONTENDS) {
        for (const by of [SERVING, NOT_SERVING, DELETED, address])
          assert.equal(
            judged(rig, protocol, [address, OTHER], [by, TARGET]),
            'foreign',
            `${protocol} ${address} ${by}`,
          );
      }
    }
  });
});

it('UDP flows of a Service without any endpoint are deleted (k8s#139628)', async () => {
  const rig = await settled([]);
  for (const address of [SERVING, DELETED])
    assert.equal(judged(rig, 'UDP', [FRONTENDS[1] ?? '', PORT], [address, TARGET]), 'stale');
});
