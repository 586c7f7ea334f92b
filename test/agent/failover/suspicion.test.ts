/** Judges the replies of a Node's addresses. dead-nodes.test.ts has the times of the probes, and their consequences. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ProbedTarget, type Reply, verdictOf } from '../../../src/agent/failover/suspicion.ts';
import type { Address } from '../../../src/base/address.ts';

/** Each reply of another address. */
const replies = (node: string, ...all: readonly Reply[]): ProbedTarget[] =>
  all.map((reply, i) => ({ node, address: `10.244.${node}.${i + 1}` as Address, port: 8080, reply }));

const SILENT = replies('2', 'silence', 'silence');

describe('a Node whose endpoints were asked', () => {
  it('is silent where half of the others answer, and not judged where fewer do', () => {
    assert.equal(verdictOf(SILENT, replies('3', 'answer', 'silence')), 'silent');
    assert.equal(verdictOf(SILENT, replies('3', 'answer', 'silence', 'silence')), 'unclear');
    assert.equal(verdictOf(SILENT, []), 'unclear', 'this node cannot tell its own network from the other’s');
  });

  it('is silent by two addresses at least, of which all could be asked', () => {
    const others = replies('3', 'answer', 'answer');
    assert.equal(verdictOf(SILENT, others), 'silent');
    assert.equal(verdictOf(SILENT.slice(1), others), 'unclear');
    assert.equal(verdictOf(replies('2', 'silence', 'unknown'), others), 'unclear');
    const [first, second] = SILENT;
    assert.ok(first !== undefined && second !== undefined);
    const unasked: ProbedTarget = { ...second, port: 9090, reply: 'unknown' };
    assert.equal(verdictOf([first, second, unasked], others), 'unclear', 'another port of it could not be asked');
  });

  it('answers where one endpoint does, whatever the others do', () => {
    assert.equal(verdictOf(replies('2', 'silence', 'answer', 'unknown'), []), 'answers');
  });
});
