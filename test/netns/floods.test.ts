/**
 * A pod without any right floods each port of agent, controller and fleet that other machines reach. Memory stays bounded, the node's own
 * probes are answered, and the log names the pod.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../../src/host/child.ts';
import { realCommands } from '../../src/host/commands.ts';
import { LAB, Lab, podAddress } from '../../src/lab/lab.ts';
import { NEVER } from '../helpers/rig.ts';
import { until } from '../helpers/until.ts';
import { type FloodReport, HEALTH_CHECK_PORT, type Process } from './floods.ts';

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
/** Milliseconds of each flood. */
const TIME = 1000;
/** Kilobytes that a flood may cost. Garbage that is not collected yet is a part of them. */
const MAX_COST = 120_000;

const ATTACKS = [
  ...['pipelining', 'idle', 'slow heads', 'huge heads', 'endless bodies', 'half-closed', 'one request each'],
] as const;

interface Surface {
  readonly name: string;
  readonly process: Process;
  readonly port: number;
  readonly path: string;
}

const SURFACES: readonly Surface[] = [
  { name: 'health', process: 'agent', port: 10256, path: '/x' },
  { name: 'address for Prometheus', process: 'agent', port: 10249, path: '/metrics' },
  { name: 'health check node port', process: 'agent', port: HEALTH_CHECK_PORT, path: '/' },
  { name: 'controller', process: 'controller', port: 10261, path: '/metrics' },
  { name: 'fleet', process: 'fleet', port: 10262, path: '/metrics' },
];

describe('a flood by a pod', () => {
  let lab: Lab;
  let inside: Child;
  const lines: string[] = [];
  const errors: string[] = [];

  before(async () => {
    lab = await Lab.create({ commands: realCommands, pods: 1, remotePods: 0, signal: NEVER });
    const command = lab.inside('node', process.execPath, [file('./floods-inside.ts')]);
    inside = startChild({ ...command, onLine: (line) => lines.push(line), onErrorLine: (line) => errors.push(line) });
    await until('the node’s side is ready', () => lines.includes('ready'), 60_000).catch((error: Error) =>
      assert.fail(`${error.message}\n${errors.join('\n')}`),
    );
  });
  after(async () => {
    inside?.stop();
    await inside?.ended;
    await lab?.remove();
  });

  async function flood({ process: of, port, path }: Surface, attack: string): Promise<FloodReport> {
    lines.length = 0;
    inside.send(of);
    await until('it measures', () => lines.includes('measuring'));
    await pause(100);
    const args = [file('./flood-client.ts'), attack, LAB.node.v4, String(port), path, String(TIME)];
    const client = lab.inside('pod-1', process.execPath, args);
    const { exitCode, stderr } = await realCommands.run(client, NEVER);
    assert.equal(exitCode, 0, stderr);
    await pause(200);
    if (inside.pid !== undefined) process.kill(inside.pid, 'SIGUSR2');
    await until('the report', () => lines.length > 1);
    return JSON.parse(lines.at(-1) ?? '') as FloodReport;
  }

  for (const surface of SURFACES) {
    it(`costs little memory, and holds up no probe: ${surface.name}`, async (t) => {
      const warnings: string[] = [];
      for (const attack of ATTACKS) {
        const report = await flood(surface, attack);
        const { before: idle, most, slowest, probes, failures } = report;
        warnings.push(...report.warnings);
        const cost = `${attack}: +${((most - idle) / 1000).toFixed(1)} MB, slowest of ${probes} probes ${slowest.toFixed(0)} ms`;
        t.diagnostic(cost);
        assert.deepEqual(failures, [], cost);
        assert.ok(probes > 0, cost);
        assert.ok(most - idle < MAX_COST, cost);
      }
      // Each process names an address once in ten minutes, whatever port it floods.
      const isFirst = SURFACES.find((one) => one.process === surface.process) === surface;
      assert.equal(warnings.length, isFirst ? 1 : 0, warnings.join('\n'));
      const sentence = `${podAddress(1).v4} has 16 connections to port ${surface.port}, the most that one address may have`;
      if (isFirst)
        assert.ok(
          warnings.some((line) => line.includes(sentence)),
          warnings.join('\n'),
        );
    });
  }
});
