/** A Service takes the cluster IP of another in one sync: no packet to the addresses of one goes to the endpoints of the other. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { MODES } from './mode-world.ts';
import { aWorld, type CheckedWorld } from './worlds.ts';

const [A, B] = ['10.244.1.1', '10.244.2.2'] as const;
const [FIRST, SECOND, EXTERNAL, OTHER] = ['10.96.0.1', '10.96.0.2', '192.0.2.1', '192.0.2.2'] as const;

function named(name: string, clusterIP: string, ...externalIPs: string[]): object {
  const ports = [{ name: 'p80', port: 80 }];
  const policy = { internalTrafficPolicy: 'Cluster', externalTrafficPolicy: 'Local' };
  return service({ name, spec: { clusterIP, clusterIPs: [clusterIP], ports, externalIPs, ...policy } });
}

const pods = (name: string, endpoint: string) =>
  slice({
    name: `${name}-1`,
    service: name,
    ports: [{ name: 'p80', port: 8080, protocol: 'TCP' }],
    endpoints: [{ addresses: [endpoint], nodeName: 'node' }],
  });

async function begun(mode: (typeof MODES)[number], ...objects: object[]): Promise<CheckedWorld> {
  const world = aWorld(mode);
  await world.sync(nodeOf('zone'), pods('a', A), pods('b', B), ...objects);
  assert.deepEqual(world.violations, []);
  return world;
}

describe('a cluster IP that another Service takes over', () => {
  for (const mode of MODES) {
    it(`is not reached by an external address of the former one that goes: ${mode}`, async () => {
      const world = await begun(mode, named('a', SECOND, EXTERNAL), named('b', '10.96.0.3'));
      await world.sync(named('a', FIRST), named('b', '10.96.0.3', SECOND));
      assert.deepEqual(world.violations, []);
    });

    it(`is not reached by an external address of the former one that stays: ${mode}`, async () => {
      const world = await begun(mode, named('a', SECOND, EXTERNAL), named('b', '10.96.0.3', OTHER));
      await world.sync(named('a', FIRST, EXTERNAL), named('b', SECOND, OTHER));
      assert.deepEqual(world.violations, []);
      for (const at of [EXTERNAL, OTHER, FIRST, SECOND]) assert.ok(world.isServed(`pod -> TCP ${at}:80`), at);
    });

    it(`may change owners with another one: ${mode}`, async () => {
      const world = await begun(mode, named('a', SECOND, EXTERNAL), named('b', FIRST, OTHER));
      await world.sync(named('a', FIRST, EXTERNAL), named('b', SECOND, OTHER));
      assert.deepEqual(world.violations, []);
      for (const at of [EXTERNAL, OTHER, FIRST, SECOND]) assert.ok(world.isServed(`pod -> TCP ${at}:80`), at);
    });
  }
});
