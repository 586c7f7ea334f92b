/**
 * A pod without any right floods each port of agent, controller and fleet that other machines reach. Memory stays bounded, the node's own
 * probes are answered, and the log names the pod.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { type Child, realCommands, startChild } from '../../src/kernel/commands.ts';
import { CONNECTIONS_PER_CLIENT } from '../../src/serve/clients.ts';
import { until } from '../helpers/base/until.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import {
  type FloodClientReport,
  type FloodReport,
  HEALTH_CHECK_PORT,
  type Measurement,
  type Process,
  WATCHED,
} from './floods.ts';

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
/** Milliseconds of each flood. */
const TIME = 1000;
/** Shorter than the second after which an idle connection makes room for a new one of its address. */
const BEFORE_IDLE = 700;
/** Kilobytes that a flood may cost. Without limits it is hundreds of megabytes in the same second. */
const MAX_COST = 30_000;
/** The same by a program in the node's own network, which has a larger share. */
const MAX_COST_OF_NODE = 60_000;

/** Milliseconds of processor that a flood may hold the event loop for. */
const MAX_HELD = 50;
/** Milliseconds after which the kubelet takes a probe for failed (timeoutSeconds, 1 by default). */
const PROBE_TIMEOUT = 1000;

const ATTACKS = [
  'pipelining',
  'idle',
  'slow heads',
  'huge heads',
  'endless bodies',
  'half-closed',
  'empty lines',
  'one request each',
] as const;

interface Surface {
  readonly name: string;
  readonly process: Process;
  /** The namespace of the client, and the address that it floods; by default the pod's, and the node's own. */
  readonly from?: string;
  readonly address?: string;
  readonly port: number;
  readonly path: string;
}

const SURFACES: readonly Surface[] = [
  { name: 'health', process: 'agent', port: 10256, path: '/x' },
  { name: 'address for Prometheus', process: 'agent', port: 10249, path: '/metrics' },
  { name: 'health check node port', process: 'agent', port: HEALTH_CHECK_PORT, path: '/' },
  // No other machine reaches it, but each program in the node's network does, such as a pod with hostNetwork.
  { name: 'metrics on loopback', process: 'agent', port: 10249, path: '/metrics', from: 'node', address: '127.0.0.1' },
  // The kubelet has the same address.
  { name: 'health, from the node itself', process: 'agent', port: 10256, path: '/x', from: 'node' },
  { name: 'controller', process: 'controller', port: 10261, path: '/metrics' },
  { name: 'fleet', process: 'fleet', port: 10262, path: '/metrics' },
];

/** Declares the hooks of a suite with agent, controller and fleet; returns what floods one of them, and the lab. */
function flooded(...watched: readonly string[]) {
  let lab: Lab;
  let inside: Child;
  const lines: string[] = [];
  const errors: string[] = [];

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 2, remotePods: 0, signal: NEVER });
    const command = lab.inside('node', process.execPath, [file('./floods-inside.ts'), ...watched]);
    inside = startChild({ ...command, onLine: (line) => lines.push(line), onErrorLine: (line) => errors.push(line) });
    await until('the node’s side is ready', () => lines.includes('ready'), 60_000).catch((error: Error) =>
      assert.fail(`${error.message}\n${errors.join('\n')}`),
    );
  });
  after(async () => {
    inside?.send('end');
    await inside?.ended;
    await lab?.remove();
  });

  async function flood(
    { process: of, port, path, from = 'pod-1', address = LAB.node.v4, audience }: Surface & { audience?: string },
    attack: string,
    meanwhile?: () => Promise<void>,
  ): Promise<FloodReport> {
    lines.length = 0;
    inside.send(JSON.stringify({ process: of, ...(audience === undefined ? {} : { audience }) } satisfies Measurement));
    await until('it measures', () => lines.includes('measuring'));
    await pause(100);
    const time = audience === undefined ? TIME : 2 * TIME;
    const args = [file('./flood-client.ts'), attack, address, String(port), path, String(time), audience ?? ''];
    const client = lab.inside(from, process.execPath, args);
    const [{ exitCode, stderr }] = await Promise.all([realCommands.run(client, NEVER), meanwhile?.()]);
    await pause(200);
    if (inside.pid !== undefined) process.kill(inside.pid, 'SIGUSR2');
    assert.equal(exitCode, 0, stderr);
    await until('the report', () => lines.length > 1).catch((error: Error) =>
      assert.fail(`${error.message}\n${errors.join('\n')}`),
    );
    return JSON.parse(lines.at(-1) ?? '') as FloodReport;
  }

  return { flood, inside: (name: string, args: readonly string[]) => lab.inside(name, process.execPath, args) };
}

describe('a flood by a pod', () => {
  const { flood, inside } = flooded();

  for (const surface of SURFACES) {
    it(`costs little memory, and holds up no probe: ${surface.name}`, async (t) => {
      const warnings: string[] = [];
      const turnedAway = new Set<string>();
      for (const attack of ATTACKS) {
        const report = await flood(surface, attack);
        const { before: idle, most, slowest, probes, failures } = report;
        warnings.push(...report.warnings);
        for (const key of Object.keys(report.turnedAway)) turnedAway.add(key);
        const cost = `${attack}: +${((most - idle) / 1000).toFixed(1)} MB, slowest of ${probes} probes ${slowest.toFixed(0)} ms`;
        t.diagnostic(cost);
        assert.deepEqual(failures, [], cost);
        assert.ok(probes > 0, cost);
        assert.ok(slowest < PROBE_TIMEOUT, cost);
        assert.ok(most - idle < (surface.from === undefined ? MAX_COST : MAX_COST_OF_NODE), cost);
      }
      const client = surface.from === 'node' ? (surface.address ?? LAB.node.v4) : podAddress(1).v4;
      t.diagnostic(`turned away: ${[...turnedAway].join(', ')}`);
      for (const reason of ['share', 'pipelining']) assert.ok(turnedAway.has(`${client} ${reason}`), reason);
      // Each process names an address once in ten minutes, whatever port it floods.
      const isFirst = SURFACES.find((one) => one.process === surface.process) === surface;
      assert.ok(warnings.length <= 1, warnings.join('\n'));
      const names = (line: string) => line.includes(podAddress(1).v4) && line.includes(`port ${surface.port}`);
      if (isFirst) assert.ok(warnings.some(names), warnings.join('\n'));
    });
  }

  for (const { name, port, trusted } of [
    { name: 'the fleet has more places at the agent', port: 10256, trusted: 'pod-2' },
    { name: 'another node has more places at the fleet', port: 10262, trusted: 'other' },
  ]) {
    it(`${name} than a pod`, async () => {
      const openFrom = async (from: string) => {
        const args = [
          file('./flood-client.ts'),
          'forty idle',
          LAB.node.v4,
          String(port),
          '/x',
          String(BEFORE_IDLE),
          '',
        ];
        const { stdout } = await realCommands.run(inside(from, args), NEVER);
        return (JSON.parse(stdout) as FloodClientReport).open;
      };
      assert.equal(await openFrom(trusted), 40);
      const ofPod = await openFrom('pod-1');
      assert.ok(ofPod > 0 && ofPod <= CONNECTIONS_PER_CLIENT, `${ofPod} connections`);
    });
  }

  // An address may send four new tokens at once, that of the fleet five to the agent.
  const ASKED = [
    { name: 'health', process: 'agent', port: 10256, path: '/programmed', audience: 'slicewire-agent', count: 5 },
    { name: 'fleet', process: 'fleet', port: 10262, path: '/programmed', audience: 'slicewire-fleet', count: 3 },
  ] as const;

  for (const surface of ASKED) {
    it(`with tokens that it made up keeps no valid one out: ${surface.name}`, async (t) => {
      const { port, path, audience, count } = surface;
      let statuses = '';
      const { reviews, slowest, failures } = await flood(surface, 'made-up tokens', async () => {
        const args = [file('./hook-client.ts'), LAB.node.v4, String(port), path, audience, String(count)];
        const { stdout, stderr } = await realCommands.run(inside('pod-2', args), NEVER);
        statuses = stdout || stderr;
      });
      const valid = `valid tokens: ${statuses.trim()}; ${reviews} reviews, slowest probe ${slowest.toFixed(0)} ms`;
      t.diagnostic(valid);
      assert.deepEqual(failures, []);
      assert.deepEqual(JSON.parse(statuses), Array(count).fill(200), valid);
      // The API server is asked of a few made-up ones, and of the valid ones.
      assert.ok(reviews > count && reviews < 40, valid);
    });
  }
});

describe('the event loop in a flood by a pod', () => {
  const { flood } = flooded(WATCHED);

  for (const surface of SURFACES) {
    it(`is held for a short time alone: ${surface.name}`, async (t) => {
      for (const attack of ATTACKS) {
        const { held } = await flood(surface, attack);
        t.diagnostic(`${attack}: ${held.toFixed(0)} ms of processor`);
        assert.ok(held < MAX_HELD, `${attack}: ${held} ms`);
      }
    });
  }
});
