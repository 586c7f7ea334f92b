/**
 * The node's side of floods.test.ts, in its namespace: an API server on its loopback, and agent, controller and fleet, which listen for
 * other machines. Each line of standard input is a Measurement, and each line of standard output its FloodReport. It ends with `end`.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LAB, podAddress } from '../../src/cli/lab/network.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { fromSources, slicewire } from '../helpers/cli/slicewire.ts';
import { madeToken } from '../helpers/cluster/api/api-reviews.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import {
  type FloodReport,
  HEALTH_CHECK_PORT,
  type Measurement,
  type Process,
  VALID_TOKENS,
  validToken,
  WATCHED,
} from './floods.ts';

const NODE = LAB.node.v4;
const isWatched = process.argv[2] === WATCHED;
/** Log lines of the processes, for the message of a failure. */
const log: string[] = [];

/** Of each process: how long its event loop was held, a line each (loop-watch.ts). */
const holdsOf = (process: Process) => join(folder, `${process}-holds`);
const WATCH = fileURLToPath(new URL('./loop-watch.ts', import.meta.url));

/** One whose loop is watched runs from the sources: nothing can be loaded into the executable. */
function start(of: Process, ...args: readonly string[]): Child {
  const watched = [`LOOP_HOLDS=${holdsOf(of)}`, ...fromSources('--import', WATCH), ...args];
  const command = isWatched ? { file: '/usr/bin/env', args: watched } : slicewire(...args);
  return startChild({ ...command, onErrorLine: (line) => log.push(line) });
}

/** The longest that the loop was held, in milliseconds, and from now on it counts anew. */
function longestHold(of: Process): number {
  const lines = existsSync(holdsOf(of)) ? readFileSync(holdsOf(of), 'utf8').trim().split('\n') : [];
  rmSync(holdsOf(of), { force: true });
  return Math.max(0, ...lines.map(Number));
}

/** Kilobytes of memory that no file backs. */
function anonymous(child: Child): number {
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]);
}

interface Asked {
  readonly port: number;
  readonly path: string;
}

/** Asks as the kubelet does: from the node's own address, on a connection of its own. */
function ask({ port, path }: Asked): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const request = get({ host: NODE, port, path, agent: false, timeout: 30_000 }, (answer) => {
      let body = '';
      answer.setEncoding('utf8').on('data', (text: string) => (body += text));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body }));
    });
    request.on('timeout', () => request.destroy(new Error('no answer within 30 s')));
    request.on('error', reject);
  });
}

/** Milliseconds of an answer of /livez. */
async function probe(port: number): Promise<number> {
  const began = performance.now();
  await ask({ port, path: '/livez' });
  return performance.now() - began;
}

const PORTS: Readonly<Record<Process, number>> = { agent: 10256, controller: 10261, fleet: 10262 };
const METRICS: Readonly<Record<Process, number>> = { ...PORTS, agent: 10249 };

/** slicewire_http_clients_turned_away_total, by `ADDRESS REASON`. */
async function turnedAway(of: Process): Promise<Map<string, number>> {
  const { body } = await ask({ port: METRICS[of], path: '/metrics' });
  const samples = body.matchAll(/^slicewire_http_clients_turned_away_total\{address="(.*?)",reason="(.*?)"\} (\d+)$/gm);
  return new Map([...samples].map(([, address, reason, count]) => [`${address} ${reason}`, Number(count)]));
}

const server = await ApiServer.start();
const folder = await mkdtemp(join(tmpdir(), 'floods-'));
const children = new Map<Process, Child>();
try {
  const kubeconfig = await server.kubeconfig();
  const tokenFile = join(folder, 'token');
  await writeFile(tokenFile, madeToken('fleet', 'slicewire-agent'));
  for (const [name, { v4 }] of [['node', LAB.node] as const, ['other', LAB.otherNode] as const]) {
    server.put({ kind: 'Node', metadata: { name }, status: { addresses: [{ type: 'InternalIP', address: v4 }] } });
  }
  // pod-2 is a replica of the fleet, and each node has an agent.
  const endpoint = (address: string, nodeName: string) => ({ addresses: [address], nodeName });
  const inSystem = { namespace: 'kube-system', addressType: 'IPv4' as const };
  const fleet = [endpoint(podAddress(2).v4, 'other')];
  server.put(slice({ ...inSystem, name: 'fleet-a', service: 'slicewire-fleet', endpoints: fleet }));
  const agents = [endpoint(NODE, 'node'), endpoint(LAB.otherNode.v4, 'other')];
  server.put(slice({ ...inSystem, name: 'agents-a', service: 'slicewire', endpoints: agents }));
  server.put(
    service({
      name: 'web',
      spec: {
        ...{ type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: HEALTH_CHECK_PORT },
        ...{ clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7'], ports: [{ port: 80, nodePort: 30_080 }] },
      },
    }),
  );
  const endpoints = [{ addresses: ['10.244.1.1'], nodeName: 'node' }];
  server.put(slice({ name: 'web-a', service: 'web', addressType: 'IPv4', endpoints }));
  const common = ['--kubeconfig', kubeconfig];
  children.set(
    'agent',
    start(
      'agent',
      ...['run', '--mode=nftables', '--hostname-override=node', '--conntrack-max-per-core=0', ...common],
      `--scrape-bind-address=${NODE}:10249`,
    ),
  );
  children.set(
    'controller',
    start('controller', 'controller', '--bind-address=0.0.0.0:10261', '--leader-elect=false', ...common),
  );
  children.set(
    'fleet',
    start('fleet', 'fleet', '--bind-address=0.0.0.0:10262', `--token-file=${tokenFile}`, ...common),
  );
  server.reviews.allowed.add('system:serviceaccounts /programmed');
  const answers = async (port: number) => (await probe(port).catch(() => -1)) >= 0;
  for (const port of [...Object.values(PORTS), HEALTH_CHECK_PORT]) await until(`port ${port}`, () => answers(port));
  // The garbage of a start is no cost of a flood.
  await pause(2000);
  if (isWatched) for (const of of children.keys()) assert.ok(longestHold(of) > 0, `the start of ${of} held no loop`);
  process.stdout.write('ready\n');
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'end') break;
    const { process: of, audience } = JSON.parse(line) as Measurement;
    const child = children.get(of);
    if (child === undefined) throw new Error(`no such process: ${line}`);
    const before = anonymous(child);
    let most = before;
    let slowest = 0;
    let probes = 0;
    const failures: string[] = [];
    for (let n = 1; audience !== undefined && n <= VALID_TOKENS; n += 1) {
      server.reviews.account(validToken(n, audience), ['kube-system', 'slicewire-fleet'], audience);
    }
    const logged = log.length;
    const reviewed = server.reviews.asked.length;
    const counted = await turnedAway(of);
    longestHold(of);
    let isOver = false;
    const end = new Promise<void>((resolve) => process.once('SIGUSR2', () => resolve())).then(() => (isOver = true));
    process.stdout.write('measuring\n');
    while (!isOver) {
      await probe(PORTS[of]).then(
        (time) => {
          probes += 1;
          slowest = Math.max(slowest, time);
        },
        (error: Error) => failures.push(error.message),
      );
      most = Math.max(most, anonymous(child));
      await pause(25);
    }
    await end;
    const held = longestHold(of);
    const grown = [...(await turnedAway(of))].map(([key, count]) => [key, count - (counted.get(key) ?? 0)] as const);
    const warnings = log.slice(logged).filter((each) => each.includes('"warn"') && each.includes('"address"'));
    const report: FloodReport = {
      ...{ before, most, held, slowest, probes, failures, warnings },
      reviews: server.reviews.asked.filter(({ kind }, at) => at >= reviewed && kind === 'TokenReview').length,
      turnedAway: Object.fromEntries(grown.filter(([, count]) => count > 0)),
    };
    process.stdout.write(`${JSON.stringify(report)}\n`);
  }
} finally {
  await Promise.all([...children.values()].map((child) => child.stop()));
  await server.stop();
  await rm(folder, { recursive: true, force: true });
}
process.exit(0);
