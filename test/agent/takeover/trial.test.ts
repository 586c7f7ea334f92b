/** Rounds of checks: which failures in a row end a takeover. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Trial } from '../../../src/agent/takeover/trial.ts';

const found = (...names: string[]) => new Map(names.map((name) => [name, `${name} failed`]));

it('a takeover fails where one check fails in three rounds in a row', () => {
  const trial = new Trial();
  assert.equal(trial.round(found('packets')), undefined);
  assert.equal(trial.round(found('packets', 'services')), undefined);
  assert.equal(trial.round(found('packets', 'services')), 'packets failed');
});

it('a check that passes in between begins anew, and others do not count for it', () => {
  const trial = new Trial();
  for (const names of [['verify'], ['health'], ['verify'], ['health'], ['verify'], []])
    assert.equal(trial.round(found(...names)), undefined);
});
