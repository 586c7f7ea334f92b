/**
 * Measures what a Node that vanishes costs, with and without --failover=confirm, and prints a table for docs/configure.md: `node
 * test/agent/failover/main.ts`, as root. It takes four minutes. A client opens 50 connections a second to a Service with two pods on each of three
 * Nodes; the slices say after 40 s that the pods of the dead Node are not ready, as kube-controller-manager does by default.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { openFlowTable } from '../../../src/kernel/conntrack.ts';
import { isLost } from './attempts.ts';
import { Vanishing, type VanishingOptions } from './vanishing.ts';

const BEFORE = 3000;
/** --node-monitor-grace-period of kube-controller-manager until Kubernetes 1.31; 50 s since 1.32. */
const NOTICED = 40_000;
const AFTER = 8000;

interface Measured {
  readonly last: number;
  readonly lost: number;
  readonly failed: number;
}

async function measure(mode: VanishingOptions['mode'], failover: VanishingOptions['failover']): Promise<Measured> {
  const vanishing = await Vanishing.start({ mode, failover, nodes: 3, pods: 2 });
  const { lab, client } = vanishing;
  try {
    await pause(BEFORE);
    const at = Date.now();
    await lab.cable('node-2', 'down');
    await pause(NOTICED);
    await vanishing.ready((node) => node !== 2);
    await pause(AFTER);
    const lost = client.since(at).filter(isLost);
    return {
      last: Math.max(...lost.map((one) => one.at)) - at,
      lost: lost.length,
      failed: lost.filter(({ isAnswered }) => !isAnswered).length,
    };
  } finally {
    await vanishing.end();
  }
}

/** Milliseconds of a reading of the connection table, in the middle of some. */
async function reading(): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < 11; n++) {
    const table = await openFlowTable(Number.POSITIVE_INFINITY);
    const start = performance.now();
    for (const part of table.unanswered()) void part;
    took.push(performance.now() - start);
    table.close();
  }
  return took.sort((a, b) => a - b)[5] ?? 0;
}

print('| mode | `--failover` | last connection into the void | lost first packets | failed after 5 s |');
print('| --- | --- | --- | --- | --- |');
for (const mode of ['iptables', 'nftables'] as const) {
  for (const failover of ['none', 'confirm'] as const) {
    const { last, lost, failed } = await measure(mode, failover);
    print(`| ${mode} | ${failover} | after ${(last / 1000).toFixed(1)} s | ${lost} | ${failed} |`);
  }
}
print(`\nA reading of the connection table while nothing happens: ${(await reading()).toFixed(1)} ms.`);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
