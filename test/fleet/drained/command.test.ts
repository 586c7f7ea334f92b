/** `slicewire drained` as a process, and the text of its answers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { drainedText } from '../../../src/inspect/wire/drained.ts';
import { describeCommand } from './command-stories.ts';
import { NO } from './fake-fleet.ts';
import { DRAINED_COMMAND } from './forms.ts';

describeCommand('slicewire drained', async () => DRAINED_COMMAND);

describe('the text of an answer', () => {
  it('lists five nodes and counts the others, with the first line of their reasons', () => {
    const behind = Array.from({ length: 20 }, (_, i) => ({ node: `node-${i}`, since: null, why: 'busy\nmore' }));
    const nodes = { ...NO.nodes, behind, behindCount: 1234, leftOut: behind.slice(0, 1), leftOutCount: 1 };
    assert.deepEqual(
      drainedText({ ...NO, nodes })
        .split('\n')
        .slice(1),
      [
        '1,234 nodes behind:',
        ...behind.slice(0, 5).map(({ node }) => `  ${node}: busy`),
        '  and 1229 more',
        '1 node not waited for:',
        '  node-0: busy',
      ],
    );
  });
});
