/** Troubles that last, in the log. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { REPORT_PERIOD_MS } from '../../src/base/lasting-problem.ts';
import { logInto } from '../../src/telemetry/log.ts';
import { listenTrouble, TroubleLog } from '../../src/telemetry/trouble-log.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

function made() {
  const lines: { readonly level: string; readonly msg: string }[] = [];
  const log = logInto({ write: (line: string) => void lines.push(JSON.parse(line)) }, 'v2');
  const clock = new FakeClock();
  const troubles = new TroubleLog({ log, clock, level: 'error' });
  const said = () => lines.splice(0).map(({ level, msg }) => `${level} ${msg}`);
  return { clock, troubles, said };
}

describe('troubles in the log', () => {
  it('have a line when they begin, every ten minutes and at their end; other tries have theirs at -v 2', () => {
    const { clock, troubles, said } = made();
    const tell = () => troubles.tell({ cause: 'EIO', text: 'cannot read: EIO' });
    assert.deepEqual([tell(), tell()], [true, false]);
    clock.advance(REPORT_PERIOD_MS);
    assert.equal(tell(), true);
    assert.deepEqual(said(), ['error cannot read: EIO', 'debug cannot read: EIO', 'error cannot read: EIO']);
    troubles.over({ text: 'can be read again' });
    troubles.over({ text: 'can be read again' });
    assert.deepEqual(said(), ['info can be read again'], 'it ended once');
    assert.equal(tell(), true, 'the next one is told at once');
  });

  it('of ports name the address that is bound now', () => {
    const { troubles, said } = made();
    const first = listenTrouble(troubles, '127.0.0.1:80');
    const second = listenTrouble(troubles, '127.0.0.1:81');
    first.onFailure(new Error('EADDRINUSE'));
    first.onFailure(new Error('EADDRINUSE'));
    second.onOpen();
    first.onOpen();
    assert.deepEqual(said(), [
      'error cannot listen at 127.0.0.1:80: EADDRINUSE; trying again',
      'debug cannot listen at 127.0.0.1:80: EADDRINUSE; trying again',
      'info listening at 127.0.0.1:80 now',
    ]);
  });
});
