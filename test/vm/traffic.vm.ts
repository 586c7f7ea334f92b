/** Weights and a stable choice in IPVS mode with real connections (docs/traffic.md): its schedulers wrr and mh. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { PORT, pods } from '../conformance/stories/build.ts';
import { service } from '../helpers/cluster/objects.ts';
import { storyLab, type TestedMode } from '../netns/story-packets.ts';
import { assertWeightedShares } from '../netns/weighted-shares.ts';
import { ipvsOnNode } from './ipvs-stories.ts';

/** Milliseconds: the machine may be emulated. */
const TIMEOUT = 20_000;
const CLIENTS = Array.from({ length: 12 }, (_, i) => `10.244.1.${100 + i}`);

describe('traffic in IPVS mode', () => {
  const w = cluster('IPv4');
  let lab: Lab;
  let mode: TestedMode;
  before(async () => {
    lab = await storyLab();
    mode = await ipvsOnNode(lab);
    for (const address of CLIENTS) await lab.exec('pod-3', 'ip', 'address', 'add', `${address}/24`, 'dev', 'eth0');
  });
  after(() => lab.remove());

  it('has the shares of the weights', async (t) => {
    t.diagnostic(await assertWeightedShares(lab, mode, 20_000));
  });

  async function answering(balance: string, from: string): Promise<string> {
    const answer = await lab.ask('pod-3', { address: w.clusterIP(10), port: PORT, from, timeout: TIMEOUT });
    return answer.outcome === 'reply' ? answer.by : `${balance}: ${answer.outcome}`;
  }
  async function serve(balance: string): Promise<void> {
    const spec = { clusterIP: w.clusterIP(10), ports: [{ port: PORT }] };
    const web = service({ name: 'web', spec, annotations: { 'slicewire.dev/balance': balance } });
    const state = { objects: [web, pods(w, 'pod-1', 'pod-2', 'other')], packets: [] };
    const rig = (await mode.open(state, 'IPv4')).become(state);
    assert.equal((await rig.sync()).outcome, 'complete');
  }

  it('gives a client the same endpoint by each connection, also after its servers were made anew', async () => {
    const seen: (readonly string[])[] = [];
    for (let round = 0; round < 2; round++) {
      await serve('hash');
      for (let n = 0; n < 2; n++) {
        const answers: string[] = [];
        for (const from of CLIENTS) answers.push(await answering('hash', from));
        seen.push(answers);
      }
    }
    for (const answers of seen) assert.deepEqual(answers, seen[0]);
    assert.deepEqual(new Set(seen[0]), new Set(['pod-1', 'pod-2', 'other']));
  });

  it('spreads the connections of one client over its ports where the port counts', async () => {
    await serve('hash-port');
    const answers = new Set<string>();
    for (let n = 0; n < 40; n++) answers.add(await answering('hash-port', CLIENTS[0] ?? ''));
    assert.deepEqual(answers, new Set(['pod-1', 'pod-2', 'other']));
  });
});
