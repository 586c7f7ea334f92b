/** A Service with very many endpoints: the work for its page follows their number, because the event loop waits for it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { firstLines, kernelPlaces } from '../../../src/inspect/overview/kernel-lines.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { askedNode, MODES } from '../../helpers/inspect/explain/asking.ts';

const ENDPOINTS = 1000;
const ports = [80, 81].map((port) => ({ name: `p${port}`, port, nodePort: 30_000 + port }));
const endpoints = Array.from({ length: ENDPOINTS }, (_, i) => `10.244.${i >> 8}.${i & 255}`);
const objects = [
  service({ name: 'big', spec: { type: 'NodePort', clusterIP: '10.96.0.10', ports } }),
  slice({ name: 'big-1', service: 'big', ports: ports.map(({ name, port }) => ({ name, port })), endpoints }),
];

/** Values that were taken out of arrays one by one while `work` ran. */
function stepsOf(work: () => void): number {
  let steps = 0;
  const own = Array.prototype[Symbol.iterator];
  const put = (value: unknown) =>
    Object.defineProperty(Array.prototype, Symbol.iterator, { value, writable: true, configurable: true });
  put(function (this: unknown[]) {
    steps += this.length;
    return own.call(this);
  });
  try {
    work();
  } finally {
    put(own);
  }
  return steps;
}

describe('a Service with 1,000 endpoints', () => {
  for (const mode of MODES) {
    it(`has its lines of the kernel by steps that follow their number (${mode})`, async () => {
      const { rig, sync } = askedNode(mode);
      rig.put(...objects);
      await sync();
      const served = rig.model.portsOf('default/big');
      const views = rig.mode.inspection.believed();
      let lines = 0;
      const steps = stepsOf(() => {
        const places = views.flatMap((view) => kernelPlaces(served, { view, nodePortAddresses: [] }));
        const { rules, rulesOmitted } = firstLines(places);
        lines = rulesOmitted + rules.reduce((sum, one) => sum + one.lines.length, 0);
      });
      assert.ok(lines >= 2 * ENDPOINTS, `${lines} lines`);
      assert.ok(steps < 100 * lines, `${steps} steps for ${lines} lines`);
    });
  }
});
