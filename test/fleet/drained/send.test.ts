/** The connection of one question to the fleet. */
import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { it } from 'node:test';
import { sendToFleet } from '../../../src/fleet/drained/ask-fleet.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { FakeFleet, YES } from './fake-fleet.ts';

it('a question that waits for long has TCP look whether the other machine is still there', async (t) => {
  const fleet = await FakeFleet.open({ status: 200, body: YES });
  t.after(() => fleet.close());
  const keepAlive = t.mock.method(Socket.prototype, 'setKeepAlive');
  const question = { of: { pod: 'shop/web-1' }, timeout: 1000, fleet: fleet.url, tokenFile: undefined };
  assert.equal((await sendToFleet(question, 1000, NEVER)).kind, 'answer');
  const given = keepAlive.mock.calls.map((call) => call.arguments);
  assert.ok(
    given.some(([isOn, after]) => isOn === true && after === 5000),
    JSON.stringify(given),
  );
});
