/**
 * Kubernetes' end-to-end tests of trafficDistribution and of topology hints: the real controller writes the hints, and the endpoints are
 * those that the agent of each client's node uses. Packets by hints are stories (test/conformance/stories/topology.ts).
 */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { address, ControllerRig } from '../../controller/rig.ts';
import { until } from '../../helpers/base/until.ts';
import { backendsOn } from './node-view.ts';

const NAME = 'traffic-dist-test-service';

/** Nodes by name: `1a` and `1b` are in `zone-1`. */
const zoneOf = (node: string) => `zone-${node[0]}`;

/** Servers on these nodes, one each: server n is the n-th of the list. */
class Story {
  readonly rig: ControllerRig;
  readonly #service: object;

  private constructor(rig: ControllerRig, service: object) {
    this.rig = rig;
    this.#service = service;
  }

  static async create(t: TestContext, service: object, nodes: readonly string[]): Promise<Story> {
    const rig = await ControllerRig.create(t);
    for (const node of nodes) rig.node(node, zoneOf(node));
    await rig.start();
    return new Story(rig, service);
  }

  /** Resolves when all of them are endpoints with hints. */
  async serve(servers: readonly string[]): Promise<void> {
    const ports = [{ port: 80, targetPort: 9376, protocol: 'TCP' }];
    this.rig.service(NAME, { ports, ...this.#service });
    for (const [n, node] of servers.entries()) this.rig.pod(NAME, n, { node });
    await this.has(servers.length);
  }

  async has(count: number): Promise<void> {
    const isHinted = () => this.rig.slices(NAME).every(({ endpoints }) => endpoints.every(({ hints }) => hints));
    await until(`${count} endpoints`, () => this.rig.ready(NAME).length === count && isHinted());
  }

  /** Each client's node uses these servers, and no others. */
  goes(wanted: Readonly<Record<string, readonly number[]>>): void {
    const used = Object.keys(wanted).map((node) => {
      const backends = backendsOn(this.rig, NAME, { nodeName: node, zone: zoneOf(node) }).get('') ?? [];
      return [node, backends];
    });
    const texts = Object.entries(wanted).map(([node, servers]) => [
      node,
      servers.map((n) => `${address(n)}:9376`).sort(),
    ]);
    assert.deepEqual(used, texts);
  }
}

/** One node a zone: servers in two zones, clients in all three. */
async function threeZones(t: TestContext, trafficDistribution: string): Promise<void> {
  const story = await Story.create(t, { trafficDistribution }, ['1a', '2a', '3a']);
  await story.serve(['1a', '2a']);
  story.goes({ '1a': [0], '2a': [1], '3a': [0, 1] });
}

const SIX = ['1a', '1b', '2a', '2b', '3a', '3b'];

/** Two nodes a zone: servers on both of the first zone, on one of the second, on none of the third. */
async function twoNodesEach(
  t: TestContext,
  trafficDistribution: string,
  wanted: Readonly<Record<string, readonly number[]>>,
): Promise<void> {
  const story = await Story.create(t, { trafficDistribution }, SIX);
  await story.serve(['1a', '1b', '2b']);
  story.goes(wanted);
}

const BY_ZONE = { '1a': [0, 1], '1b': [0, 1], '2a': [2], '3a': [0, 1, 2] };

describe('Traffic Distribution', () => {
  for (const value of ['PreferClose', 'PreferSameZone']) {
    it(`should route traffic to an endpoint in the same zone when using ${value}`, (t) => threeZones(t, value));

    it(`should route traffic correctly between pods on multiple nodes when using ${value}`, (t) =>
      twoNodesEach(t, value, BY_ZONE));
  }

  it('should route traffic to an endpoint on the same node or fall back to same zone when using PreferSameNode', (t) =>
    twoNodesEach(t, 'PreferSameNode', { '1a': [0], '1b': [1], '2a': [2], '3a': [0, 1, 2] }));

  it('should route traffic to an endpoint on the same node when using PreferSameNode and fall back when the endpoint becomes unavailable', async (t) => {
    const story = await Story.create(t, { trafficDistribution: 'PreferSameNode' }, ['1a', '2a']);
    await story.serve(['1a', '2a']);
    story.goes({ '1a': [0], '2a': [1] });
    story.rig.server.delete('Pod', `default/${NAME}-0`);
    await story.has(1);
    story.goes({ '1a': [1], '2a': [1] });
    story.rig.pod(NAME, 2, { node: '1a' });
    await story.has(2);
    story.goes({ '1a': [2], '2a': [1] });
  });
});

describe('Topology Hints', () => {
  it('should distribute endpoints evenly', async (t) => {
    const nodes = ['1a', '2a', '3a'];
    const story = await Story.create(t, { publishNotReadyAddresses: true }, nodes);
    const annotations = { 'service.kubernetes.io/topology-mode': 'Auto' };
    story.rig.server.put({
      kind: 'Service',
      metadata: { name: NAME, namespace: 'default', annotations },
      spec: {
        ...{ clusterIP: '10.96.0.10', ipFamilies: ['IPv4'], selector: { app: NAME }, publishNotReadyAddresses: true },
        ports: [{ port: 80, targetPort: 9376, protocol: 'TCP' }],
      },
    });
    for (const [n, node] of nodes.entries()) story.rig.pod(NAME, n, { node });
    await story.has(nodes.length);
    const endpoints = story.rig.slices(NAME).flatMap((one) => one.endpoints);
    assert.equal(endpoints.length, nodes.length);
    for (const { zone, hints } of endpoints) {
      assert.deepEqual(hints, { forZones: [{ name: zone }] });
    }
    story.goes({ '1a': [0], '2a': [1], '3a': [2] });
  });
});
