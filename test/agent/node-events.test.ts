/** Events of the agent, as the API server takes them. The tests of the recorder have their form (test/cluster/api/event-recorder.test.ts). */
import assert from 'node:assert/strict';
import test, { describe, type TestContext } from 'node:test';
import type { ObjectFeed } from '../../src/agent/feed.ts';
import { NodeEvents } from '../../src/agent/node-events.ts';
import { realPlatform } from '../../src/agent/platform.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { logInto } from '../../src/telemetry/log.ts';
import { until } from '../helpers/base/until.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';

async function start(t: TestContext) {
  const server = await ApiServer.start();
  t.after(() => server.stop());
  const stop = new AbortController();
  t.after(() => stop.abort());
  const config = configFromFlags({ kubeconfig: await server.kubeconfig(), hostnameOverride: 'node-a' });
  const log = logInto({ write: () => undefined }, 'silent');
  // No event of a Service is emitted.
  const feed = {} as ObjectFeed;
  return { server, events: new NodeEvents(config, feed, { log, signal: stop.signal, platform: realPlatform }) };
}

describe('the event of a takeover', () => {
  for (const [how, wentBack, told] of [
    ['goes back', true, ['Warning', 'TakeoverFailed']],
    ['is confirmed', false, ['Normal', 'TakeoverConfirmed']],
  ] as const)
    test(`that ${how} is about the Node, and says why`, async (t) => {
      const { server, events } = await start(t);
      const news = 'the takeover of this node ended: a connection does not reach the agent';
      events.emitTakeover(news, wentBack);
      await until('the event', () => server.events.length === 1);
      const { type, reason, note, regarding } = server.events[0] as unknown as Record<string, unknown>;
      assert.deepEqual([type, reason, note], [...told, news]);
      assert.deepEqual(regarding, { apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: 'node-a' });
    });
});
