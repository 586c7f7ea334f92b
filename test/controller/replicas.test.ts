/** `slicewire controller` as processes: several of them, and such as are killed in the middle of their work. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { selfCommand } from '../../src/kernel/process.ts';
import { aWhile, until } from '../helpers/base/until.ts';
import { address, ControllerRig } from './rig.ts';

/** Ports of their own for health and metrics. */
let port = 20_000 + (process.pid % 20_000);

async function start(
  t: TestContext,
  rig: ControllerRig,
  ...flags: string[]
): Promise<Child & { readonly log: string[] }> {
  port += 1;
  const kubeconfig = await rig.server.kubeconfig();
  const quick = [
    '--leader-elect-lease-duration=3s',
    '--leader-elect-renew-deadline=2s',
    '--leader-elect-retry-period=200ms',
  ];
  const self = selfCommand(
    'controller',
    `--kubeconfig=${kubeconfig}`,
    `--bind-address=127.0.0.1:${port}`,
    ...quick,
    ...flags,
  );
  const log: string[] = [];
  const child = startChild({ ...self, onErrorLine: (line) => log.push(line) });
  t.after(() => child.stop());
  return Object.assign(child, { log });
}

const SERVICES = 150;

async function cluster(t: TestContext): Promise<ControllerRig> {
  const rig = await ControllerRig.create(t);
  rig.node('node-a');
  for (let n = 0; n < SERVICES; n++) {
    rig.service(`web-${n}`);
    rig.pod(`web-${n}`, n);
  }
  return rig;
}

function isAllRight(rig: ControllerRig): boolean {
  return Array.from({ length: SERVICES }, (_, n) => n).every((n) => rig.ready(`web-${n}`).join() === address(n));
}

describe('replicas of the controller', () => {
  it('one writes; when it is killed another takes over after the lease, and writes nothing twice', {
    timeout: 60_000,
  }, async (t) => {
    const rig = await cluster(t);
    const first = await start(t, rig);
    await until('the first leads', () => first.log.some((line) => line.includes('writes from now on')), 20_000);
    const second = await start(t, rig);
    await until('all is written', () => isAllRight(rig), 20_000);
    await aWhile(500);
    assert.equal(rig.slices().length, SERVICES);
    assert.ok(!second.log.some((line) => line.includes('writes from now on')));
    process.kill(first.pid ?? assert.fail(), 'SIGKILL');
    rig.pod('web-0', 999);
    await until('the second wrote', () => rig.ready('web-0').length === 2, 20_000);
    assert.deepEqual(rig.slices().length, SERVICES);
    const creates = rig.writes.filter(({ method }) => method === 'POST');
    assert.equal(creates.length, SERVICES);
    assert.equal(rig.writes.length, SERVICES + 1);
  });

  it('one that receives SIGTERM gives the lease back', { timeout: 60_000 }, async (t) => {
    const rig = await cluster(t);
    const slow = ['--leader-elect-lease-duration=60s', '--leader-elect-renew-deadline=50s'];
    const first = await start(t, rig, ...slow);
    await until('the first leads', () => first.log.some((line) => line.includes('writes from now on')), 20_000);
    const second = await start(t, rig, ...slow);
    await until('the second sees it', () => second.log.some((line) => line.includes('is held by')), 20_000);
    await first.stop();
    await until('the second leads', () => second.log.some((line) => line.includes('writes from now on')), 10_000);
  });

  it('killed in the middle of its writes again and again, it ends right and writes nothing twice', {
    timeout: 60_000,
  }, async (t) => {
    const rig = await cluster(t);
    for (const part of [0.2, 0.5, 0.8]) {
      const child = await start(t, rig, '--leader-elect=false', '--concurrent-service-endpoint-syncs=1');
      await until('a part is written', () => rig.slices().length >= part * SERVICES, 20_000);
      process.kill(child.pid ?? assert.fail(), 'SIGKILL');
      await child.ended;
    }
    assert.ok(rig.slices().length < SERVICES, 'it was killed too late to show anything');
    await start(t, rig, '--leader-elect=false');
    await until('all is written', () => isAllRight(rig), 20_000);
    await aWhile(1500);
    assert.equal(rig.slices().length, SERVICES);
    const methods = Map.groupBy(rig.writes, ({ method }) => method);
    assert.deepEqual(
      [...methods].map(([method, writes]) => [method, writes.length]),
      [['POST', SERVICES]],
    );
  });
});
