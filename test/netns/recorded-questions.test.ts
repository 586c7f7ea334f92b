/** record, replay and questions about the past on the command line, of an agent on a real kernel. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { podAddress } from '../../src/cli/lab/lab.ts';
import { explanationSchema } from '../../src/inspect/wire/explanation.ts';
import { historySchema } from '../../src/inspect/wire/history.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { Scene } from '../questions/scene.ts';

const CLIENT = podAddress(3).v4;

/** The Service `shop/web` with these pods. */
const web = (...pods: readonly number[]) => [
  service({ name: 'web', namespace: 'shop', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
  slice({
    ...{ name: 'web-1', namespace: 'shop', service: 'web', addressType: 'IPv4' as const },
    endpoints: pods.map((n) => ({ addresses: [podAddress(n).v4], nodeName: 'node' })),
  }),
];

for (const mode of ['iptables', 'nftables'] as const) {
  describe(`recordings on the command line, ${mode} mode`, () => {
    let scene: Scene;
    let folder: string;
    /** A moment at which the Service had pod-1 alone. */
    let early: string;
    const file = (name: string) => join(folder, name);

    before(async () => {
      scene = await Scene.create();
      folder = await mkdtemp(join(tmpdir(), 'slicewire-recordings-'));
      await scene.start(mode, { flags: ['--record-dir', file('flights')] });
      await scene.apply('web', ...web(1));
      early = new Date().toISOString();
      await scene.apply('web', ...web(1, 2));
      await scene.apply('web', ...web(2));
    });
    after(async () => {
      await scene.remove();
      await rm(folder, { recursive: true });
    });

    const explained = async (...more: string[]) => {
      const { status, text } = await scene.slicewire('explain', CLIENT, 'svc/shop/web', '-o', 'json', ...more);
      assert.equal(status, 0, text);
      return explanationSchema.parse(JSON.parse(text)).verdict.endpoints.map(({ endpoint }) => endpoint);
    };
    const [one, two] = [1, 2].map((n) => `${podAddress(n).v4}:8080`);

    it('explain answers for a moment of the past', async () => {
      assert.deepEqual(await explained(), [two]);
      assert.deepEqual(await explained('--at', early), [one]);
    });

    it('record writes what the agent remembers, and replay makes the same plans', async () => {
      const recorded = await scene.slicewire('record', file('web.recording'));
      assert.equal(recorded.status, 0, recorded.text);
      assert.equal((await stat(file('web.recording'))).mode & 0o777, 0o600);
      const replayed = await scene.slicewire('replay', file('web.recording'));
      assert.equal(replayed.status, 0, replayed.text);
      assert.ok(replayed.text.includes(podAddress(2).v4), replayed.text);
      const again = await scene.slicewire('record', file('web.recording'));
      assert.equal(again.status, 1);
      assert.match(again.text, /exists already/);
    });

    it('a recording answers questions without the agent', async () => {
      const recording = ['--recording', file('web.recording')];
      assert.deepEqual(await explained(...recording), [two]);
      assert.deepEqual(await explained(...recording, '--at', early), [one]);
      const history = await scene.slicewire('history', 'shop/web', ...recording);
      assert.match(history.text, /10\.244\.1\.12:8080/);
      const verify = await scene.slicewire('verify', ...recording);
      assert.equal(verify.status, 1);
      assert.match(verify.text, /kernel/);
    });

    it('an anonymous recording has none of the names and addresses, and replays', async () => {
      const recorded = await scene.slicewire('record', file('anonymous.recording'), '--anonymize');
      assert.equal(recorded.status, 0, recorded.text);
      const replayed = await scene.slicewire('replay', file('anonymous.recording'));
      assert.notEqual(replayed.status, 1, replayed.text);
      const history = await scene.slicewire('history', '--recording', file('anonymous.recording'), '-o', 'json');
      for (const name of ['shop', podAddress(1).v4, podAddress(2).v4, '10.96.0.10']) {
        assert.ok(!history.text.includes(name) && !replayed.text.includes(name), name);
      }
      assert.ok(historySchema.parse(JSON.parse(history.text)).changes.length > 0);
    });

    it('the folder of --record-dir answers for the time before a restart', async () => {
      await scene.start(mode, { flags: ['--record-dir', file('flights')] });
      assert.deepEqual(await explained('--at', early), [one]);
      for (const since of [['--since', '10m'], []]) {
        const history = await scene.slicewire('history', 'shop/web', ...since);
        assert.match(history.text, /1 endpoint removed: 10\.244\.1\.11:8080/);
      }
    });
  });
}
