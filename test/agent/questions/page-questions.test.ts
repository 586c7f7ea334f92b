/** The parameters of the live page's questions: right ones, and what is said to wrong ones. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MAX_ROWS, pageQuestions } from '../../../src/agent/questions/parameters.ts';
import { isWrongQuestion } from '../../../src/inspect/wire/envelope.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { pageNode } from '../../inspect/overview/page-node.ts';
import { COMMAND_LINES } from '../../messages/command-lines.ts';
import { messageIn } from '../../messages/row.ts';

const node = pageNode();
for (let i = 0; i < 150; i++) {
  node.recorded.put(service({ name: `s${i}`, spec: { clusterIP: `10.96.0.${i}`, ports: [{ port: 80 }] } }));
}
const questions = pageQuestions(node.overview);

async function ask(path: string, query: string): Promise<unknown> {
  return await questions.get(path)?.answer(new URLSearchParams(query), NEVER);
}

/** After the name that was asked for. */
const NO_SERVICE = messageIn(COMMAND_LINES, 'slicewire: web is no Service').slice('slicewire: web'.length);

const WRONG: readonly (readonly [path: string, query: string, message: string])[] = [
  ['/services', 'limit=501', 'limit: 501: must be a number from 0 to 500'],
  ['/services', 'limit=-1', 'limit: -1: must be a number from 0 to 500'],
  ['/services', 'limit=', 'limit: : must be a number from 0 to 500'],
  ['/services', 'offset=1e3', 'offset: 1e3: must be a number from 0 to 9999999'],
  ['/services', 'offset=99999999', 'offset: 99999999: must be a number from 0 to 9999999'],
  ['/services', `search=${'a'.repeat(401)}`, 'search: it has 401 characters, and the limit is 400'],
  ['/service', '', 'the parameter name is missing'],
  ['/service', 'name=web', `web${NO_SERVICE}`],
  ['/service', 'name=../web', `../web${NO_SERVICE}`],
  ['/service', 'name=a/<b>', `a/<b>${NO_SERVICE}`],
];

describe('questions of the live page', () => {
  it('are answered with their defaults, and within their bounds', async () => {
    const shown = async (query: string) => {
      const answer = await ask('/services', query);
      assert.ok(typeof answer === 'object' && answer !== null && 'rows' in answer && Array.isArray(answer.rows));
      return answer.rows.length;
    };
    const counts = [
      await shown(''),
      await shown(`limit=${MAX_ROWS}`),
      await shown('limit=0'),
      await shown('offset=149'),
    ];
    assert.deepEqual([...counts, await shown('offset=9999999'), await shown('search=s14')], [100, 150, 0, 1, 0, 11]);
  });

  for (const [path, query, message] of WRONG) {
    it(`say what is wrong with ${path}?${query.slice(0, 30)}`, async () => {
      await assert.rejects(ask(path, query), (error) => {
        assert.ok(isWrongQuestion(error));
        assert.equal(error.message, message);
        return true;
      });
    });
  }
});
