/** What the end of a connection says about who is at the address. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { replyOfError } from '../../../src/agent/failover/probe.ts';

describe('an error of a connection', () => {
  for (const [code, after, reply] of [
    ['ECONNREFUSED', 1, 'answer'],
    ['ECONNRESET', 1, 'answer'],
    ['ETIMEDOUT', 600, 'silence'],
    ['EHOSTDOWN', 1, 'silence'],
    ['EHOSTUNREACH', 3050, 'silence'],
    ['EHOSTUNREACH', 600, 'silence'],
    ['EHOSTUNREACH', 2, 'unknown'],
    ['ENETUNREACH', 1, 'unknown'],
    ['EACCES', 1, 'unknown'],
    ['', 600, 'unknown'],
  ] as const) {
    it(`${code === '' ? 'without a code' : code} after ${after} ms is ${reply}`, () => {
      assert.equal(replyOfError(code, after), reply);
    });
  }
});
