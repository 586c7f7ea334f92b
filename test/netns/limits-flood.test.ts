/**
 * 100,000 new connections a second against one Service: with a limit the other Services answer as before, or nearly so. The figures of
 * docs/traffic.md are from here.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const SOURCE = fileURLToPath(new URL('flood.c', import.meta.url));
const RATE = 100_000;
const SECONDS = 5;
const ROUNDS = Number(process.env.FLOOD_ROUNDS ?? 1);
const FLOODED = '10.96.0.10';
const LIMITED = '10.96.0.11';
const OTHER = '10.96.0.12';
/** Addresses of the flood, on pod-3. */
const SENDERS = Array.from({ length: 20 }, (_, i) => `10.244.1.${100 + i}`);

describe('a flood of new connections to one Service', () => {
  let folder: string;
  let program: string;
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    program = join(folder, 'flood');
    const compiled = spawnSync('gcc', ['-O2', '-o', program, SOURCE], { encoding: 'utf8' });
    assert.equal(compiled.status, 0, compiled.stderr);
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    await lab.serve('pod-1', 'TCP', 8080);
    for (const address of SENDERS) await lab.exec('pod-3', 'ip', 'address', 'add', `${address}/24`, 'dev', 'eth0');
    node = await ManifestNode.create(lab);
    const served = (name: string, clusterIP: string, annotations: Record<string, string>) => [
      service({ name, annotations, spec: { clusterIP, ports: [{ port: 80 }] } }),
      slice({ name: `${name}-1`, service: name, addressType: 'IPv4', endpoints: ['10.244.1.11'] }),
    ];
    await node.write(
      'services',
      ...served('flooded', FLOODED, {}),
      ...served('limited', LIMITED, {
        'slicewire.dev/new-connections': '100/s',
        'slicewire.dev/max-connections': '1000',
      }),
      ...served('other', OTHER, {}),
    );
    await node.start('--mode=nftables').synced();
  });
  after(async () => {
    await node.clear();
    await lab.remove();
    await rm(folder, { recursive: true });
  });

  interface Answers {
    /** Microseconds until a connection was open; -1 for one that did not open. */
    readonly times: readonly number[];
    /** Packets of the flood. */
    readonly sent: number;
  }

  /** Asks the other Service while the flood runs against an address. */
  async function asked(flooded: string | undefined): Promise<Answers> {
    await lab.exec('node', 'conntrack', '-F');
    const of = [SENDERS[0] ?? '', SENDERS.length, flooded ?? '', 80, RATE, SECONDS].map(String);
    const flood = flooded === undefined ? Promise.resolve('0') : lab.exec('pod-3', program, 'flood', ...of);
    await new Promise((resolve) => setTimeout(resolve, 500));
    const out = await lab.exec('pod-2', program, 'ask', OTHER, '80', '3000', '1000');
    return { times: out.trim().split('\n').map(Number), sent: Number(await flood) };
  }

  it('leaves the answers of the others alone where it has a limit', async (t) => {
    const ways = { 'no flood': undefined, 'a Service with a limit': LIMITED, 'a Service without': FLOODED };
    const found = new Map<string, Answers>();
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, address] of Object.entries(ways)) {
        const before = found.get(name) ?? { times: [], sent: 0 };
        const now = await asked(address);
        found.set(name, { times: [...before.times, ...now.times], sent: before.sent + now.sent });
      }
    }
    for (const [name, { times, sent }] of found) {
      const answered = times.filter((time) => time >= 0).sort((a, b) => a - b);
      const [p50, p99] = [0.5, 0.99].map((share) => answered[Math.floor(answered.length * share)]);
      const rate = Math.round(sent / SECONDS / ROUNDS);
      t.diagnostic(
        `${name}: p50 ${p50} us, p99 ${p99} us, ${times.length - answered.length} of ${times.length} unanswered; ${rate} a second sent`,
      );
    }
    const limited = found.get('a Service with a limit') ?? assert.fail();
    assert.ok(limited.sent > RATE, 'the flood was sent');
    assert.deepEqual(
      limited.times.filter((time) => time < 0),
      [],
    );
    const metrics = await lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
    const counted =
      /^slicewire_connections_over_limit_total\{service="default\/limited".*limit="new-connections".*\} (\d+)$/m;
    assert.ok(Number(counted.exec(metrics)?.[1]) > RATE, metrics);
  });
});
