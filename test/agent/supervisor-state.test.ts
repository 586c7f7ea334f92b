/** Notifications of the supervisor that fail, in the log. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { SupervisorState } from '../../src/agent/supervisor-state.ts';
import { logInto } from '../../src/telemetry/log.ts';

const MISSING = '/nonexistent/notify';
const before = { NOTIFY_SOCKET: process.env.NOTIFY_SOCKET, WATCHDOG_USEC: process.env.WATCHDOG_USEC };

function restore(): void {
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

describe('a supervisor that cannot be notified', () => {
  beforeEach(() => {
    process.env.NOTIFY_SOCKET = MISSING;
  });
  afterEach(restore);

  it('is told when it begins, when it is over, and when it begins again', async () => {
    const lines: string[] = [];
    const write = (line: string) => {
      const { level, msg } = JSON.parse(line);
      lines.push(`${level} ${msg.split(':')[0]}`);
    };
    const state = new SupervisorState(logInto({ write }));
    await state.ready();
    const reload = async () => {
      await state.reloadBegins();
      await state.reloadEnded();
    };
    await reload();
    await reload();
    const failed = ['of the reload', 'that the agent is ready'].map((of) => `warn cannot notify the supervisor ${of}`);
    assert.deepEqual(lines.splice(0), failed.toReversed());
    delete process.env.NOTIFY_SOCKET;
    await reload();
    await reload();
    assert.deepEqual(lines.splice(0), [
      'info could notify the supervisor of the reload again',
      'info could notify the supervisor that the agent is ready again',
    ]);
    process.env.NOTIFY_SOCKET = MISSING;
    await reload();
    assert.deepEqual(lines, failed);
  });
});
