/** How many questions of one asker wait, and what they hear when the fleet stops. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FleetQuestions, type FleetQuestionsOptions } from '../../src/fleet/server.ts';
import type { HttpRequest } from '../../src/serve/http.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const asked = (remote: string) =>
  ({
    path: '/drained',
    query: new URLSearchParams('service=shop/web'),
    remote,
    signal: NEVER,
  }) as unknown as HttpRequest;

function questionsOf(isComplete: boolean): FleetQuestions {
  const options = {
    drains: { ask: () => new Promise(() => undefined) },
    nodes: { isComplete, nodeOf: (address: string) => (address === '10.0.0.9' ? 'n9' : 'n1') },
    clock: new FakeClock({ hurried: true }),
    gap: () => undefined,
  };
  return new FleetQuestions(options as unknown as FleetQuestionsOptions);
}

it('one Node has at most 500 questions that wait, and others have theirs', async () => {
  const questions = questionsOf(true);
  for (let index = 0; index < 500; index += 1) void questions.drained(asked(`10.0.0.${index % 2}`));
  const message = '500 questions from n1 wait already: ask again later';
  await assert.rejects(questions.drained(asked('10.0.0.1')), { message });
  void questions.drained(asked('10.0.0.9'));
  assert.equal(questions.waiting, 501);
});

it('a question that waits for the Nodes is counted, and hears that the fleet stops', async () => {
  const questions = questionsOf(false);
  const admitting = questions.isOfNode(asked('10.0.0.1'));
  assert.equal(questions.waiting, 1);
  questions.stop('it stops');
  assert.equal(await admitting, true);
  assert.equal(questions.waiting, 0);
  await assert.rejects(questions.drained(asked('10.0.0.1')), { message: 'it stops' });
});
