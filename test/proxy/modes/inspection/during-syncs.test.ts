/** A comparison while we write ourselves. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inspectionOf } from '../../../../src/proxy/modes/inspect.ts';
import type { FamilyInspection } from '../../../../src/proxy/modes/inspection.ts';
import type { Unlike } from '../../../../src/proxy/reconcile/compare.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';

const unlike = (object: string, ...found: string[]): Unlike => ({
  ...{ object, owner: undefined, kind: 'changed', wanted: [], found, refusedAs: object },
  ...{ isPending: false, isWaiting: false, isRepaired: true },
});

describe('a comparison during syncs', () => {
  it('blames another program for what differs in the same way in each reading alone', async () => {
    let writes = 0;
    const inspection: FamilyInspection = {
      get writes() {
        return writes;
      },
      believed: () => undefined,
      desired: () => ({ family: 'IPv4' }),
      isCertain: async () => false,
      read: async () => ({ family: 'IPv4' }),
      async compared() {
        writes += 1;
        return [unlike(`ours ${writes}`), unlike('ours, again and again', `endpoint ${writes}`), unlike('theirs')];
      },
      remembered: async () => new Map(),
      lastWriter: async () => undefined,
    };
    const { differences } = await inspectionOf([{ family: 'IPv4', inspection }], {}).compare(NEVER);
    assert.deepEqual(
      differences.map(({ object, because }) => [object, because]),
      [
        ['ours 3', 'not written yet'],
        ['ours, again and again', 'not written yet'],
        ['theirs', undefined],
      ],
    );
  });
});
