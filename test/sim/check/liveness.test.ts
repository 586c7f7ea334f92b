/** What must hold at the end: silent where it does, and each part finds what is wrong. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { breakIt, redirect } from './breaking.ts';
import { type AskAgent, liveness } from './liveness.ts';
import { config, MODES, SENDERS } from './mode-world.ts';
import { aWorld, type CheckedWorld } from './worlds.ts';

const A = '10.244.1.1';
const web = service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } });
const pods = slice({ name: 'web-1', service: 'web', endpoints: [A] });

async function synced(mode: ModeName): Promise<CheckedWorld> {
  const world = aWorld(mode);
  await world.sync(nodeOf('a'), web, pods);
  return world;
}

function problemsOf({ views, versions }: CheckedWorld, ask?: AskAgent): Promise<string[]> {
  return liveness({ views, versions, senders: SENDERS, ask });
}

const VERIFIED = JSON.stringify({ differences: [{ because: 'waits for connections to end' }] });
const answering =
  (answers: Readonly<Record<string, { status: number; body: string }>>): AskAgent =>
  async (server, path) =>
    answers[path] ?? { status: 200, body: server === 'metrics' ? VERIFIED : '' };

describe('the check at the end', () => {
  for (const mode of MODES) {
    it(`is silent where all is as the newest objects say, and asks for every frontend: ${mode}`, async () => {
      const world = await synced(mode);
      assert.deepEqual(await problemsOf(world, answering({})), []);
      redirect(world, mode, A, '10.244.9.9');
      assert.match(
        (await problemsOf(world))[0] ?? '',
        /^pod -> TCP 10\.96\.0\.10:80 should be balanced 10\.244\.1\.1:8080, and is balanced 10\.244\.9\.9:8080$/,
      );
      breakIt(world, mode);
      assert.match(
        (await problemsOf(world))[0] ?? '',
        /should be balanced 10\.244\.1\.1:8080, and is (untouched|rejected|dropped)$/,
      );
    });

    it(`finds what a frontend that is gone left behind: ${mode}`, async () => {
      const world = await synced(mode);
      world.versions.remove('Service', 'default/web');
      assert.match((await problemsOf(world))[0] ?? '', /should be (untouched|dropped), and is balanced/);
    });

    it(`finds objects of a mode that is not configured: ${mode}`, async () => {
      const world = await synced(mode);
      world.versions.configure(config(mode === 'nftables' ? 'iptables' : 'nftables'));
      assert.match((await problemsOf(world)).join('\n'), /^IPv4: .* left$/m);
    });
  }

  it('asks the agent for its health, and for what verify finds', async () => {
    const world = await synced('nftables');
    const difference = { object: 'chain services', because: '' };
    const problems = await problemsOf(
      world,
      answering({
        '/healthz': { status: 503, body: 'a sync hangs' },
        '/verify': { status: 200, body: JSON.stringify({ differences: [difference] }) },
      }),
    );
    assert.deepEqual(problems, ['/healthz answers 503: a sync hangs', `verify: ${JSON.stringify(difference)}`]);
    const unverified = answering({ '/verify': { status: 503, body: 'the kernel cannot be read' } });
    assert.deepEqual(await problemsOf(world, unverified), ['/verify answers 503: the kernel cannot be read']);
  });
});
