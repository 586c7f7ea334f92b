/** A scrape beside a kernel that does not answer. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { Agent } from '../../src/agent/agent.ts';
import { MetricsFeed } from '../../src/agent/metrics-feed.ts';
import type { Config } from '../../src/config/config.ts';

const nothing = () => undefined;
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

const COUNTED = { service: 'default/web', family: 'IPv4', address: '10.96.0.10', protocol: 'TCP', port: 80 };
const READINGS = [
  ['nftables', 'connectionCounts', [{ ...COUNTED, count: 12 }], /^slicewire_connections_total\{.*\} 12$/m],
  [
    'iptables',
    'packetCounts',
    [{ what: 'invalid-dropped', family: 'IPv4', packets: 7 }],
    /^kubeproxy_iptables_ct_state_invalid_dropped_packets_total 7$/m,
  ],
] as const;

for (const [name, reading, counts, line] of READINGS)
  test(`a scrape in ${name} mode has the last counters while the kernel does not answer, and asks it once`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const cache = {
      counts: () => ({ pending: 0, total: 0 }),
      faults: { counts: new Map() },
      own: { suspects: [], ejections: 0 },
    };
    const feed = { cache, watches: () => [] };
    const warned = mock.fn();
    const options = {
      log: { warn: warned, info: nothing, error: nothing, debug: nothing, v2: nothing },
      signal: new AbortController().signal,
      health: () => ({ healthy: true, reasons: { readyz: [] } }),
      refused: () => 0,
      takeover: () => 'none',
      relay: () => ({ outcomes: new Map(), families: [] }),
      programmed: () => ({ behind: 0, waiters: 0 }),
      turnedAway: () => [],
    };
    const config = { mode: name, countsConnections: name === 'nftables' } as Config;
    const metrics = new MetricsFeed(config, feed as never, options as never);
    let hangs = false;
    const read = mock.fn(() => (hangs ? new Promise(() => undefined) : Promise.resolve(counts)));
    const mode = {
      name,
      metrics: {
        ruleCounts: () => [],
        enlargedSets: () => [],
        limitCounts: () => Promise.resolve([]),
        [reading]: read,
      },
    };
    const kernelLock = { between: (work: () => unknown) => work() };
    const agent = { mode, feed, kernelLock, onNode: { families: ['IPv4'] }, loop: { faults: { counts: new Map() } } };
    metrics.use(agent as unknown as Agent, config);
    const scrape = async () => {
      const text = metrics.current.text();
      for (let i = 0; i < 10; i++) {
        await turn();
        t.mock.timers.tick(1000);
      }
      return await text;
    };
    assert.match(await scrape(), line);
    hangs = true;
    const before = read.mock.callCount();
    for (let i = 0; i < 3; i++) assert.match(await scrape(), line);
    assert.equal(read.mock.callCount(), before + 1);
    assert.equal(warned.mock.callCount(), 1, 'the log says so once');
    // The reading that hangs is one of the former agent.
    hangs = false;
    metrics.use({ ...agent } as unknown as Agent, config);
    assert.match(await scrape(), line);
    assert.ok(read.mock.callCount() > before + 1);
  });
