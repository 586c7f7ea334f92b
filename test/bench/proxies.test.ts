/** What the page says of slicewire beside kube-proxy, and of what was not measured. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chart } from './chart.ts';
import { holdsOf, type ProxiesResult, type ProxyMeasured } from './proxies.ts';
import { GOALS, largestAims, proxiesAims, proxiesSection } from './proxies-page.ts';
import { receivedOf } from './received.ts';
import type { Aim } from './text.ts';

function measured(proxy: ProxyMeasured['proxy'], more: Partial<ProxyMeasured> = {}): ProxyMeasured {
  const figures = { cold: [300, 200, 240], processor: [100], peak: [50], resident: 70, anonymous: 25 };
  return { shape: { services: 1, endpoints: 1 }, mode: 'nftables', proxy, ...figures, ...more };
}

function proxies(...all: ProxyMeasured[]): ProxiesResult {
  return { kubeProxy: 'v1.36.2', measured: all, missing: [] };
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
    const text = proxiesSection(
      proxies(
        measured('slicewire', { floor: [120] }),
        measured('kube-proxy', { cold: [500], restart: [480], received: 13_246.6 }),
      ),
      'made up',
    );
    assert.match(text, /The rival is kube-proxy 1\.36\.2\. The API server: made up\./);
    assert.deepEqual(rowOf(text, 'slicewire', '0.24 s').slice(3), [
      ...['0.24 s (0.20 to 0.30)', '0.12 s', '2.00', '0.10 s', '50', '70', '25', 'not run'],
    ]);
    assert.equal(rowOf(text, 'kube-proxy 1.36.2', '0.50 s').at(-1), '0.48 s');
    assert.match(text, /TLS included: kube-proxy 1\.36\.2 13,247 bytes\./);
    assert.doesNotMatch(text, /Not measured/);
  });

  it('says why a proxy is missing', () => {
    const missing = ['kube-proxy: no binary was given (`--kube-proxy PATH`)'];
    const text = proxiesSection({ measured: [measured('slicewire')], missing }, 'made up');
    assert.match(text, /No binary of kube-proxy was given\./);
    assert.match(text, /Not measured:\n\n- kube-proxy: no binary was given/);
  });
});

describe('an aim', () => {
  const start = (...all: ProxyMeasured[]) =>
    proxiesAims(proxies(...all)).find(({ what, at }) => what === 'cold start' && at === '1 × 1, nftables') ??
    assert.fail();

  it('is a figure, with that of kube-proxy in the same run beside it', () => {
    const { aim, found, beside, isReached } = start(measured('slicewire'), measured('kube-proxy', { cold: [500] }));
    assert.deepEqual([aim, found, beside, isReached], ['0.25 s', '0.24 s', 'kube-proxy 1.36.2 0.50 s', true]);
    assert.equal(start(measured('slicewire', { cold: [260] })).isReached, false);
  });

  it('without a figure is to be below kube-proxy', () => {
    const shape = { services: 1000, endpoints: 5 };
    const cold = (own: number, theirs: number) =>
      proxiesAims(
        proxies(measured('slicewire', { shape, cold: [own] }), measured('kube-proxy', { shape, cold: [theirs] })),
      ).find(({ what, at }) => what === 'cold start' && at === '1,000 × 5, nftables');
    assert.deepEqual([cold(100, 200)?.isReached, cold(200, 200)?.isReached], [true, false]);
  });

  it('is neither reached nor missed where nothing was measured', () => {
    const aims = proxiesAims(proxies());
    const none = aims.filter(({ found, isReached }) => found === 'not run' && isReached === undefined);
    assert.equal(none.length, GOALS.length + 1);
  });

  it('of a large cluster is the cost of each object beside 10,000 × 5', () => {
    const of = (services: number, endpoints: number, cold: number) =>
      measured('slicewire', { shape: { services, endpoints }, cold: [cold] });
    const shown = (aim: Aim | undefined) => [aim?.at, aim?.found, aim?.isReached];
    const wide = proxiesAims(proxies(of(10_000, 5, 2000), of(5200, 50, 7000))).at(-1);
    assert.deepEqual(shown(wide), ['5,200 × 50, nftables', '0.79 ×', true]);
    const [many] = largestAims(proxies(of(10_000, 5, 2000), of(100_000, 1, 8000)));
    assert.deepEqual(shown(many), ['100,000 × 1, nftables', '1.20 ×', false]);
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

  it('are a table with those for the lock, and the longest of them is an aim', () => {
    const shape = { services: 44_000, endpoints: 1 };
    const watched = { holds: { lists: 30, sync: 41, after: 20 }, lock: { idle: 1, cold: 380, steady: 4 } };
    const result = proxies(measured('slicewire', { shape, watched }));
    const row = rowOf(proxiesSection(result, 'made up'), '44,000 × 1', '41.0 ms');
    assert.deepEqual(row.slice(3), ['30.0 ms', '41.0 ms', '20.0 ms', '1.0 ms', '380.0 ms', '4.0 ms']);
    const aims = largestAims(result).filter(({ isReached }) => isReached);
    assert.deepEqual(
      aims.map(({ what, found }) => [what, found]),
      [
        ['longest wait for an answer of `/livez`', '41 ms'],
        ["longest wait for the kernel's lock, 100 changes a second", '4.0 ms'],
      ],
    );
  });
});

describe('the chart', () => {
  it('has a line for each proxy, and a point for each cluster that was measured in nftables mode', () => {
    const at = (proxy: ProxyMeasured['proxy'], services: number, cold: number) =>
      measured(proxy, { shape: { services, endpoints: 1 }, cold: [cold] });
    const svg = chart(
      proxies(
        ...[at('slicewire', 1000, 400), at('slicewire', 1, 250), at('kube-proxy', 1, 450)],
        measured('slicewire', { mode: 'iptables', cold: [9000] }),
      ),
    );
    assert.match(svg, /<text class="h"[^>]*>Start to all rules</);
    // Three panels have figures here: nothing was changed.
    assert.equal(svg.match(/<polyline/g)?.length, 6);
    assert.equal(svg.match(/<circle/g)?.length, 9);
    assert.doesNotMatch(svg, /NaN|Infinity|9\.0 s/);
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
