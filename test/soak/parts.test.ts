/** The pure parts of a soak: its course, its changes, and what it reads of metrics and of `verify`. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Churn, type Write } from './churn.ts';
import { movingEndpoints, shapeOf } from './cluster.ts';
import { memoryOf } from './measured.ts';
import { samplesOf, sumOf, Totals } from './metrics.ts';
import { missedOf } from './result.ts';
import { type SoakPlan, timeline } from './timeline.ts';
import { verifiedOf } from './verified.ts';

const HOUR: SoakPlan = {
  ...{ seconds: 3600, tail: 600, restartEvery: 60, flushEvery: 300, services: 10_000, perSecond: 100 },
};

describe('the course of a soak', () => {
  const events = timeline(HOUR);
  const of = (kind: string) => events.filter((event) => event.kind === kind);

  it('has a restart each minute, by both signals in turn, but for where the mode changes', () => {
    const signals = events.flatMap((event) => (event.kind === 'restart' ? [event.signal] : []));
    assert.equal(signals.length, 56);
    assert.ok(signals.every((signal, i) => signal === (i % 2 === 0 ? 'SIGTERM' : 'SIGKILL')));
    assert.equal(of('switch').length, 4);
  });

  it('has a write of another program each five minutes, half a minute from any restart', () => {
    assert.deepEqual(
      of('flush').map(({ at }) => at),
      Array.from({ length: 13 }, (_, i) => 270 + 300 * i),
    );
    for (const { at } of of('flush'))
      for (const one of [...of('restart'), ...of('switch')]) assert.ok(Math.abs(one.at - at) >= 30);
  });

  it('has no restart in its tail, and ends with it', () => {
    const last = events.findIndex(({ kind }) => kind === 'no more restarts');
    assert.ok(events.slice(last).every(({ kind }) => kind !== 'restart'));
    assert.deepEqual(events.at(-1), { kind: 'end', at: 4200 });
  });
});

describe('the changes of a soak', () => {
  const shape = shapeOf(500);
  const take = (seed: number, many: number): Write[] => {
    const churn = new Churn(shape, seed);
    return Array.from({ length: many }, () => churn.next('2026-11-22T00:00:00Z')).flat();
  };

  it('are the same for the same seed', () => {
    assert.deepEqual(take(1, 300), take(1, 300));
    assert.notDeepEqual(take(1, 300), take(2, 300));
  });

  it('let endpoints and Services come and go, and leave DNS and the API server alone', () => {
    const writes = take(1, 20_000);
    const sizes = new Set<number>();
    const [made, deleted] = [new Set<string>(), new Set<string>()];
    for (const write of writes) {
      if (write.kind === 'delete') {
        deleted.add(write.key);
        continue;
      }
      const { metadata, endpoints } = write.object as { metadata: { name: string }; endpoints?: unknown[] };
      if (endpoints !== undefined) sizes.add(endpoints.length);
      made.add(metadata.name);
    }
    assert.deepEqual([...sizes].sort(), [0, 1, 2, 3, 4, 5]);
    assert.ok(deleted.size > 100);
    assert.ok(!made.has('kubernetes') && !made.has('kube-dns'));
  });

  it('never delete what is gone, nor most of the Services', () => {
    const churn = new Churn(shape, 3);
    const gone = new Set<string>();
    for (let i = 0; i < 20_000; i++) {
      for (const write of churn.next('')) {
        const { metadata, kind } =
          write.kind === 'put' ? (write.object as { kind: string; metadata: { namespace: string; name: string } }) : {};
        if (write.kind === 'delete' && write.of === 'Service') {
          assert.ok(!gone.has(write.key), write.key);
          gone.add(write.key);
        } else if (kind === 'Service') gone.delete(`${metadata?.namespace}/${metadata?.name}`);
      }
      assert.equal(churn.services, shape.services - gone.size);
    }
    assert.ok(gone.size < shape.services / 5, `${gone.size}`);
  });

  it('replace one of three endpoints of the moving Service at a time', () => {
    const [before, after] = [movingEndpoints(59), movingEndpoints(60)];
    assert.deepEqual(before.slice(1), after.slice(0, 2));
    assert.deepEqual(movingEndpoints(0), after);
  });
});

describe('the metrics of a soak', () => {
  const text = (a: number, b: number) =>
    `# HELP x\nx_total{result="complete"} ${a}\nx_total{result="failed"} 1\nd_bucket{le="1"} ${a}\nd_bucket{le="2"} ${b}\nd_bucket{le="+Inf"} ${b}\n`;

  it('are added up over lives', () => {
    const totals = new Totals();
    totals.add(samplesOf(text(50, 100)));
    totals.add(samplesOf(text(50, 100)), samplesOf(text(10, 10)));
    assert.equal(totals.count('x_total'), 91);
    assert.equal(totals.count('x_total', '"complete"'), 90);
    assert.deepEqual([totals.quantile('d', 0.4), totals.quantile('d', 0.5), totals.quantile('d', 0.99)], [1, 2, 2]);
    assert.ok(Number.isNaN(totals.quantile('none', 0.5)));
  });

  it('do not take one name for another', () => {
    assert.equal(sumOf(samplesOf('x 1\nx_total 2\nx{a="b"} 4\n'), 'x'), 5);
    assert.equal(sumOf(samplesOf('x{a="b",c="d"} 4\nx{a="b",c="e"} 8\n'), 'x', 'a="b"', 'c="d"'), 4);
  });
});

describe('the answer of verify', () => {
  it('is none where it has another form', () => {
    assert.equal(verifiedOf('slicewire: no agent'), undefined);
    assert.equal(verifiedOf('{"differences":[]}'), undefined);
  });
});

describe('what a soak measured', () => {
  const MB = 2 ** 20;
  const good: Parameters<typeof missedOf>[0] = {
    services: 10_000,
    flushes: [{ mode: 'nftables', command: 'nft delete table', repaired: 999, isNamed: true }],
    verify: [{ mode: 'iptables', by: 'the agent, under load', compared: 1, differences: [], isAtRest: false }],
    unhealthy: { longest: 60_000, sum: 60_000 },
    tail: 1800,
    tailMemory: [{ mode: 'iptables', first: 100 * MB, last: 105 * MB, most: 300 * MB }],
  };

  it('is of memory the medians of the first and of the last third of the looks', () => {
    const found = memoryOf('nftables', [3, 1, 2, 900, 5, 5, 7, 8, 9]);
    assert.deepEqual(found, { mode: 'nftables', first: 2, last: 8, most: 900 });
    assert.deepEqual(memoryOf('nftables', []), { mode: 'nftables', first: 0, last: 0, most: 0 });
  });

  it('misses nothing at its limits', () => {
    assert.deepEqual(missedOf(good), []);
  });

  it('gives a write that removed all rules as long as the bare tool takes, by the number of Services', () => {
    const [flush] = good.flushes;
    assert.ok(flush);
    const all = { ...good, flushes: [{ ...flush, command: 'nft delete table ip slicewire', repaired: 3000 }] };
    assert.deepEqual(missedOf(all), []);
    assert.deepEqual(missedOf({ ...all, services: 9999 }), [
      'nftables mode: nft delete table ip slicewire: repaired after 3000 ms',
    ]);
    const few = {
      ...all,
      services: 1000,
      flushes: [{ ...flush, command: 'nft delete table ip slicewire', repaired: 1000 }],
    };
    assert.deepEqual(missedOf(few), []);
  });

  it('misses a repair after more than a second, a verify without an answer, health for a minute, and memory that grows', () => {
    const [flush, verify, memory] = [good.flushes[0], good.verify[0], good.tailMemory[0]];
    assert.ok(flush && verify && memory);
    const bad = {
      ...good,
      flushes: [{ ...flush, repaired: 1001 }],
      verify: [{ ...verify, why: 'exit status 3: too many changes' }],
      unhealthy: { longest: 61_000, sum: 61_000 },
      tailMemory: [{ ...memory, last: 106 * MB }],
    };
    assert.deepEqual(missedOf(bad), [
      'nftables mode: nft delete table: repaired after 1001 ms',
      'iptables mode: verify by the agent, under load: no answer: exit status 3: too many changes',
      'no health for 61 s',
      'iptables mode: memory grew from 100 MB to 106 MB',
    ]);
    // Too short for memory to come to rest.
    assert.equal(missedOf({ ...bad, tail: 600 }).length, 3);
  });
});
