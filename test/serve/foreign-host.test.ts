/** Metrics of each server under another name: a page in a browser may reach loopback by DNS rebinding, and Prometheus may ask by a name. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { controllerHandler } from '../../src/controller/monitoring.ts';
import { fleetHandler } from '../../src/fleet/server.ts';
import type { Handler } from '../../src/serve/http.ts';
import { metricsHandler, scrapeHandler } from '../../src/serve/metrics-server.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { OWN_FACTS } from '../helpers/serve/own-facts.ts';

const METRICS = { contentType: 'text/plain', text: async () => 'a 1\n' };
const FOLLOWER = { feed: { isSynced: true, watches: [] }, metrics: METRICS, clock: new FakeClock() };
const readPage = () => Promise.resolve(Buffer.of());

const agent = (isLocal: boolean) =>
  metricsHandler({
    ...{ mode: () => 'iptables', config: () => ({}), metrics: () => METRICS, hasProfiling: () => false },
    ...{ component: OWN_FACTS, setVerbosity: () => undefined, readPage },
    questions: { byPath: new Map(), isLocal: () => isLocal },
  });

const SERVERS: Readonly<Record<string, Handler>> = {
  'the agent that listens on loopback': agent(true),
  'the agent that listens for other machines': agent(false),
  'an address for Prometheus': scrapeHandler(() => METRICS),
  'the controller': controllerHandler({ ...FOLLOWER, component: OWN_FACTS, isLocal: true }),
  'the controller that listens for other machines': controllerHandler({
    ...FOLLOWER,
    ...{ component: OWN_FACTS, isLocal: false },
  }),
  'the fleet': fleetHandler({
    ...{ ...FOLLOWER, component: OWN_FACTS, readPage, unready: () => '', auth: async () => undefined },
    questions: { drained: () => assert.fail(), programmed: () => assert.fail() },
    live: () => assert.fail(),
  }),
};

async function statusOf(handler: Handler, host: string, [remote, local]: readonly [string, string]): Promise<number> {
  const request = { method: 'GET', path: '/metrics', query: new URLSearchParams(), host, remote, local };
  const { status } = await handler({ ...request, body: async () => '', signal: AbortSignal.timeout(10_000) });
  return status;
}

describe('metrics', () => {
  for (const [name, handler] of Object.entries(SERVERS)) {
    it(`of ${name} are refused on loopback under another name`, async () => {
      for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) {
        const ends = [address, address] as const;
        assert.equal(await statusOf(handler, 'evil.example:10249', ends), 403, address);
        assert.equal(await statusOf(handler, 'localhost:10249', ends), 200, address);
      }
    });
  }

  it('are answered under any name where another machine asks', async () => {
    const others = Object.entries(SERVERS).filter(([name]) => name !== 'the agent that listens on loopback');
    for (const [name, handler] of others)
      assert.equal(await statusOf(handler, 'node-a.example:10249', ['192.0.2.9', '192.0.2.1']), 200, name);
  });
});
