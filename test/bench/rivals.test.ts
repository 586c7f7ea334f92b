/** What the page says of slicewire beside kube-proxy, and of what was not measured. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { receivedOf } from './received.ts';
import { holdsOf, type RivalMeasured, type RivalsResult } from './rivals.ts';
import { rivalsSection, trafficSection } from './rivals-page.ts';
import { GOALS, todayBesideThen } from './then.ts';
import type { TrafficResult } from './traffic.ts';

function measured(proxy: RivalMeasured['proxy'], more: Partial<RivalMeasured> = {}): RivalMeasured {
  const figures = { cold: [300, 200, 240], processor: [100], peak: [50], resident: 70, anonymous: 25 };
  return { shape: { services: 1, endpoints: 1 }, mode: 'nftables', proxy, ...figures, ...more };
}

function rivals(...all: RivalMeasured[]): RivalsResult {
  return { kubeProxy: 'v1.36.2', server: 'made up', measured: all, missing: [] };
}

/** Cells of the first row that has the texts. */
function rowOf(text: string, ...has: string[]): string[] {
  const row = text.split('\n').find((line) => line.startsWith('|') && has.every((one) => line.includes(one)));
  assert.ok(row !== undefined, `${has.join(', ')} should be in a row of:\n${text}`);
  return row
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

describe('slicewire beside kube-proxy', () => {
  it('has a row for each proxy, and says what was not run', () => {
    const text = rivalsSection(
      rivals(measured('slicewire'), measured('kube-proxy', { cold: [500], restart: [480], received: 13_246.6 })),
    );
    assert.match(text, /kube-proxy 1\.36\.2 is its binary\. The API server: made up\./);
    assert.deepEqual(rowOf(text, 'slicewire', '0.24 s').slice(3), [
      ...['0.24 s (0.20 to 0.30)', '0.10 s', '50', '70', '25', 'not run'],
    ]);
    assert.equal(rowOf(text, 'kube-proxy 1.36.2', '0.50 s').at(-1), '0.48 s');
    assert.match(text, /TLS included: kube-proxy 1\.36\.2 13,247 bytes\./);
    assert.doesNotMatch(text, /Not measured/);
  });

  it('says why a proxy is missing', () => {
    const missing = ['kube-proxy: no binary was given (`--kube-proxy PATH`)'];
    const text = rivalsSection({ server: 'made up', measured: [measured('slicewire')], missing });
    assert.match(text, /No binary of kube-proxy was given\./);
    assert.match(text, /Not measured:\n\n- kube-proxy: no binary was given/);
  });
});

describe('today beside then', () => {
  const start = (text: string) => rowOf(text, 'cold start', '1 × 1, nftables');

  it('is reached below the aim and below kube-proxy in the same run', () => {
    const below = start(todayBesideThen(rivals(measured('slicewire'), measured('kube-proxy', { cold: [500] }))));
    assert.deepEqual(below.slice(2), ['0.5 s', '0.25 s, below kube-proxy', '0.24 s', '0.50 s', 'reached']);
    const above = start(todayBesideThen(rivals(measured('slicewire'), measured('kube-proxy', { cold: [200] }))));
    assert.equal(above.at(-1), '**missed**');
  });

  it('is missed above the aim, and nothing is said of what was not measured', () => {
    const slow = start(todayBesideThen(rivals(measured('slicewire', { cold: [260] }))));
    assert.deepEqual(slow.slice(-3), ['0.26 s', '–', '**missed**']);
    const text = todayBesideThen(rivals());
    assert.equal(text.match(/not measured \|$/gm)?.length, GOALS.length);
  });
});

describe('connections a second', () => {
  const rate = (perSecond: number, processor: number) => ({ perSecond: [perSecond], processor: [processor] });
  const traffic: TrafficResult = {
    clusters: [
      {
        services: 1000,
        ways: [
          { proxy: 'none', mode: 'nftables', connects: { pod: rate(20_000, 48) }, stream: { pod: rate(2e9, 400) } },
          {
            ...{ proxy: 'slicewire', mode: 'nftables', connects: { service: rate(15_000, 66), pod: rate(18_000, 54) } },
            stream: { service: rate(1.8e9, 500), pod: rate(2e9, 450) },
          },
          { proxy: 'layout', mode: 'iptables', connects: { service: rate(11_000, 87), pod: rate(12_000, 80) } },
        ],
      },
    ],
  };

  it('have the bare pod beside each proxy', () => {
    const text = trafficSection(traffic);
    assert.deepEqual(rowOf(text, 'no proxy (bare)').slice(2), ['–', '20,000', '–', '48.0 µs', '–']);
    const own = rowOf(text, 'slicewire, nftables');
    assert.deepEqual(own.slice(2), ['15,000', '18,000', '66.0 µs', '54.0 µs', '18.0 µs']);
    assert.ok(rowOf(text, "kube-proxy's layout as text, iptables"));
    assert.deepEqual(rowOf(text, 'slicewire, nftables', 'GB/s').slice(1), [
      ...['1.80 GB/s', '2.00 GB/s', '0.90', '500 ms', '450 ms'],
    ]);
  });
});

describe('waits for health', () => {
  it('belong to the phase in which they began', () => {
    const waits = [
      { from: 90, milliseconds: 30 },
      { from: 50, milliseconds: 20 },
      { from: 100, milliseconds: 11 },
      { from: 250, milliseconds: 70 },
    ];
    assert.deepEqual(holdsOf(waits, { lists: 100, synced: 200 }), { lists: 30, sync: 11, after: 70 });
    assert.deepEqual(holdsOf([], { lists: 100, synced: 200 }), { lists: 0, sync: 0, after: 0 });
  });

  it('are a table, and the longest of them is a goal', () => {
    const shape = { services: 44_000, endpoints: 1 };
    const result = rivals(measured('slicewire', { shape, holds: { lists: 30, sync: 41, after: 20 } }));
    assert.deepEqual(rowOf(rivalsSection(result), '44,000 × 1', '41 ms').slice(2), ['30 ms', '41 ms', '20 ms']);
    const goal = rowOf(todayBesideThen(result), 'longest wait for health');
    assert.deepEqual([goal[4], goal.at(-1)], ['41 ms', 'reached']);
  });
});

describe('what a process received', () => {
  const text = [
    'ESTAB 0 0 127.0.0.1:4 127.0.0.1:6443 users:(("slicewire",pid=12,fd=20)) cubic bytes_sent:9 bytes_acked:9 bytes_received:1500 segs_out:3',
    'ESTAB 0 0 127.0.0.1:5 127.0.0.1:6443 users:(("slicewire",pid=12,fd=21)) cubic bytes_received:25 segs_out:3',
    'ESTAB 0 0 127.0.0.1:6 127.0.0.1:6443 users:(("other",pid=123,fd=21)) cubic bytes_received:7',
    'ESTAB 0 0 127.0.0.1:7 127.0.0.1:6443 users:(("new",pid=14,fd=21)) cubic segs_out:3',
  ].join('\n');

  it('is the sum of its connections', () => {
    assert.equal(receivedOf(text, 12), 1525);
    assert.equal(receivedOf(text, 14), 0);
    assert.equal(receivedOf(text, 1), undefined);
  });
});
