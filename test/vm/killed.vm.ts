/** SIGKILL at random points, forty times: whatever was half written, the next agent ends where it should, and nothing foreign is touched. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { bundle } from '../../scripts/bundle.ts';
import type { Address } from '../../src/base/address.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { startChild } from '../../src/kernel/commands.ts';
import { servicePorts } from '../../src/proxy/model/service-port.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { ipvsRig } from '../helpers/proxy/ipvs-rig.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { generation } from './generations.ts';
import { kernelIn, modeIn, settledSysctls } from './ipvs-under-test.ts';

const TIMES = 40;
/** Milliseconds after it began: a round of writes takes some tens. */
const LATEST = 250;
/** Agents that start at the same time, each in a node of its own. */
const NODES = 2;

function portsOf(n: number) {
  const ports = generation(n).flatMap(({ service, slices }) =>
    servicePorts(service, slices, { nodeName: 'node', zone: '' }),
  );
  return new Map(ports.map((port) => [port.key, port]));
}

describe('an agent that is killed', () => {
  const labs: Lab[] = [];
  let folder: string;
  /** In one file: many of them start, on emulated processors. */
  const program = () => join(folder, 'killed.mjs');
  /** What those said that a signal of the engine's own ended before they were killed (V8 gives up with SIGTRAP). */
  const crashed: string[] = [];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    await bundle('test/vm/killed-inside.ts', program());
    for (let i = 0; i < NODES; i++) {
      labs.push(await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER }));
    }
  });
  after(async () => {
    for (const lab of labs) await lab.remove();
    await rm(folder, { recursive: true });
  });

  async function killOnce(lab: Lab, first: number): Promise<void> {
    const said: string[] = [];
    const { promise: begun, resolve: begin } = Promise.withResolvers<undefined>();
    const inside = lab.inside('node', process.execPath, [program(), String(first)]);
    const child = startChild({
      ...inside,
      onLine: (line) => (line === 'begins' ? begin(undefined) : said.push(line)),
      onErrorLine: (line) => said.push(line),
    });
    let hasEnded = false;
    void child.ended.then(() => {
      hasEnded = true;
      begin(undefined);
    });
    await begun;
    await pause(Math.random() * LATEST);
    // A write may be refused while a command of the one before it, which outlives it, writes too: that is logged, and no reason to end.
    if (hasEnded) {
      const status = await child.ended;
      assert.equal(status, undefined, `it ended with status ${status}: ${said.join('\n')}`);
      crashed.push(said.join('\n'));
      return;
    }
    assert.ok(child.pid !== undefined);
    // `ip netns exec` becomes the program that it runs.
    process.kill(child.pid, 'SIGKILL');
    await child.ended;
  }

  it(`${TIMES} times, leaves what the next one completes`, async () => {
    await Promise.all(
      labs.map(async (lab) => {
        await lab.exec('node', 'ipvsadm', '-A', '-t', '203.0.113.7:443', '-s', 'wlc');
        await lab.exec('node', 'ipset', 'create', 'SOMEBODYS', 'hash:ip');
        for (let i = 0; i < TIMES / NODES; i++) await killOnce(lab, i);
      }),
    );
    assert.ok(crashed.length <= TIMES / 20, `the engine gave up ${crashed.length} times: ${crashed.join('; ')}`);
    for (const lab of labs) {
      const kernel = await kernelIn(lab, 'node');
      const mode = modeIn(lab, kernel, { sysctls: await settledSysctls(lab), families: ['IPv4'] });
      mode.desire(portsOf(0), new Map());
      assert.equal((await mode.observe(NEVER)).kind, 'known');
      assert.equal((await mode.plan().apply(NEVER)).outcome, 'complete');
      assert.equal((await mode.observe(NEVER)).kind, 'known');
      assert.deepEqual(
        mode.plan().steps.map(({ key }) => key),
        [],
        'nothing is left to do',
      );
      const fresh = ipvsRig({ families: ['IPv4'] });
      fresh.kernel.others.clear();
      for (const address of (await kernel.addresses('IPv4')).others) fresh.kernel.others.add(address as Address);
      fresh.rig.mode.desire(portsOf(0), new Map());
      await fresh.rig.mode.observe(NEVER);
      await fresh.rig.mode.plan().apply(NEVER);
      const there = (await kernel.servers()).map(({ protocol, address, port }) => `${protocol} ${address}:${port}`);
      assert.deepEqual(there.sort(), [...fresh.kernel.virtual.keys(), 'TCP 203.0.113.7:443'].sort());
      assert.ok((await kernel.setNames()).includes('SOMEBODYS'));
    }
  });
});
