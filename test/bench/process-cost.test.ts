/** What processes cost, tried with processes of our own. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { MemorySampler, processorTime, residentMemory, treeMemory, treeOf } from './process-cost.ts';

const MEGABYTE = 2 ** 20;

function work(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

test('the time of a processor', () => {
  const before = processorTime(process.pid);
  work(200);
  const after = processorTime(process.pid);
  const spent = after.user + after.system - before.user - before.system;
  assert.ok(spent > 0 && spent < 2000, `${spent} ms`);
});

test('the time of a processor counts what a living child does', async () => {
  const before = processorTime(process.pid);
  const lines: string[] = [];
  const program =
    'const end = performance.now() + 300; while (performance.now() < end); console.log("done"); setInterval(() => {}, 1000)';
  const child = startChild({ file: process.execPath, args: ['-e', program], onLine: (line) => lines.push(line) });
  await until('the child has worked', () => lines.length > 0);
  const after = processorTime(process.pid);
  const spent = after.user + after.system - before.user - before.system;
  await child.stop();
  assert.ok(spent >= 100, `${spent} ms`);
});

test('memory of a process, and of a tree with the most that it was', async () => {
  const { now, peak } = residentMemory(process.pid);
  assert.ok(now > 10 * MEGABYTE && peak >= now);
  const sampler = new MemorySampler(process.pid, 2);
  const alone = treeMemory(process.pid);
  const program = `const held = Buffer.alloc(64 * 2 ** 20, 1); console.log(held.length); setInterval(() => {}, 1000)`;
  const lines: string[] = [];
  const child = startChild({ file: process.execPath, args: ['-e', program], onLine: (line) => lines.push(line) });
  await until('the child holds its memory', () => lines.length > 0);
  assert.deepEqual(treeOf(process.pid), [process.pid, child.pid]);
  await child.stop();
  const most = await sampler.stop();
  assert.ok(most.peak > alone + 80 * MEGABYTE, `${most.peak} ${alone}`);
  assert.ok(most.samples > 5);
});
