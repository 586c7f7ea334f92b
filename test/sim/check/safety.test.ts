/** The check of every commit, over kernels in memory that real modes write: it is silent where all is well, and finds what is broken on purpose. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nodeOf, service, slice } from '../../helpers/objects.ts';
import { aWorld, MODES } from './worlds.ts';

const web = service({
  name: 'web',
  spec: {
    type: 'NodePort',
    clusterIPs: ['10.96.0.10', 'fd00:96::10'],
    clusterIP: '10.96.0.10',
    ports: [{ port: 80, nodePort: 30_080 }],
  },
});
const pods = (...endpoints: string[]) => slice({ name: 'web-1', service: 'web', endpoints });

describe('the check of every commit', () => {
  for (const mode of MODES) {
    it(`is silent while ${mode} mode follows the objects`, async () => {
      const world = aWorld(mode);
      await world.sync(nodeOf('a'), web, pods('10.244.1.1'));
      assert.ok(world.isServed('pod -> TCP 10.96.0.10:80'));
      await world.sync(pods('10.244.1.1', '10.244.1.2'));
      await world.sync(pods('10.244.1.2'));
      await world.sync(pods());
      await world.sync(pods('10.244.1.3'));
      assert.deepEqual(world.violations, []);
    });
  }
});
