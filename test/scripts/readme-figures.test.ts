/** The figures in the table of the README are those of docs/benchmarks.json, so a new run of the benchmarks renews them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { Results } from '../bench/page.ts';
import { median } from '../bench/text.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const { nftables, cold, connections } = JSON.parse(read('docs/benchmarks.json')) as Results;

interface Sized {
  readonly shape: { readonly services: number; readonly endpoints: number };
}

/** The first result of this size. The plain ones come before those with other shapes of Services. */
function of<T extends Sized>(results: readonly T[], services: number): T {
  const found = results.find(({ shape }) => shape.services === services);
  assert.ok(found !== undefined);
  return found;
}

const seconds = (milliseconds: readonly number[], digits = 1) => `${(median(milliseconds) / 1000).toFixed(digits)} s`;

describe('the figures of the README', () => {
  const rows = read('README.md').split('\n');
  const start = of(nftables.starts, 10_000);
  const last = connections.find(({ services }) => services === 30_000);
  const expected: readonly (readonly [string, string, string])[] = [
    ['nftables, 10,000 × 5, all rules', seconds(start.rival, 0), seconds(start.cold)],
    [
      'nftables, 10,000 × 5, one change',
      `${median(start.rivalChange).toFixed(0)} ms`,
      `${median(of(nftables.change, 10_000).change).toFixed(1)} ms`,
    ],
    ['iptables, 1,000 × 5, all rules', seconds(of(cold, 1000).rival), seconds(of(cold, 1000).cold)],
    ['iptables, 10,000 × 5, all rules', 'minutes', seconds(of(cold, 10_000).cold)],
    [
      'iptables, 30,000 Services, new connection to the last',
      `${last?.list?.p50.toFixed(0)} µs`,
      `${median(last?.last.map(({ p50 }) => p50) ?? []).toFixed(0)} µs`,
    ],
  ];
  for (const [name, rival, own] of expected) {
    it(name, () => {
      const row = rows.find((line) => line.startsWith(`| ${name} |`)) ?? '';
      const [, , theirs = '', ours = ''] = row.split('|');
      assert.ok(theirs.trim().startsWith(rival), `${rival} should be in: ${theirs}`);
      assert.ok(ours.includes(`[${own}]`), `${own} should be in: ${ours}`);
    });
  }

  it('memory at rest', () => {
    assert.ok(rows.join(' ').includes(`${of(cold, 10_000).resident.toFixed(0)} MB at rest with 10,000 × 5`));
  });
});
