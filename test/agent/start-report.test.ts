/** The report of a start: what it says, and when. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PHASES, startReport } from '../../src/agent/start-report.ts';
import type { Log } from '../../src/telemetry/log.ts';

/** A report at moments that are set, and what was logged. */
function made() {
  const lines: [object, string][] = [];
  const log = { info: (facts: object, text: string) => void lines.push([facts, text]) };
  const at = { now: 80.4 };
  const report = startReport(log as unknown as Log, { loaded: 61.6, now: () => at.now });
  return { lines, at, report };
}

test('a start is reported once, after its first sync, in milliseconds since the process began', () => {
  const { lines, at, report } = made();
  for (const [phase, now] of [
    ['tools', 120],
    ['lists', 150.2],
    ['mode', 160],
  ] as const) {
    at.now = now;
    report.ended(phase);
  }
  assert.deepEqual(lines, []);
  at.now = 200.9;
  report.ended('sync');
  const start = { program: 62, configuration: 80, tools: 120, lists: 150, mode: 160, sync: 201 };
  const text =
    'the start: the program was loaded after 62 ms, the command line and the configuration were read after 80 ms, the tools of iptables were tried where something needs them after 120 ms, the initial lists were complete after 150 ms, the mode was built after 160 ms, the first sync ended after 201 ms';
  assert.deepEqual(lines, [[{ start }, text]]);
  assert.deepEqual(Object.keys(start), Object.keys(PHASES));
});

test('later generations and syncs change nothing', () => {
  const { lines, at, report } = made();
  report.ended('sync');
  at.now = 5000;
  for (const phase of ['tools', 'lists', 'mode', 'sync'] as const) report.ended(phase);
  assert.equal(lines.length, 1);
});
