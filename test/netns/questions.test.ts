/** Questions on the command line to an agent on a real kernel, to a command without an agent, and to nobody. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { LAB, podAddress } from '../../src/cli/lab/lab.ts';
import { explanationSchema } from '../../src/inspect/wire/explanation.ts';
import { historySchema } from '../../src/inspect/wire/history.ts';
import { statusSchema } from '../../src/inspect/wire/status.ts';
import { verificationSchema } from '../../src/inspect/wire/verification.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { COMMAND_LINES } from '../messages/command-lines.ts';
import { QUESTIONS } from '../messages/questions.ts';
import { messageIn } from '../messages/row.ts';
import { Scene } from '../questions/scene.ts';

const CLIENT = podAddress(3).v4;

const web = (...ready: readonly boolean[]) => [
  service({ name: 'web', namespace: 'shop', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
  slice({
    ...{ name: 'web-1', namespace: 'shop', service: 'web', addressType: 'IPv4', ports: [{ name: '', port: 8080 }] },
    endpoints: ready.map((is, i) => ({
      addresses: [podAddress(i + 1).v4],
      nodeName: 'node',
      conditions: { ready: is, serving: is, terminating: false },
    })),
  }),
];

for (const mode of ['nftables', 'iptables'] as const) {
  describe(`questions to an agent in ${mode} mode`, () => {
    let scene: Scene;
    before(async () => {
      scene = await Scene.create();
      await scene.write('web', ...web(true, true));
      await scene.start(mode);
    });
    after(() => scene.remove());

    const json = async (...words: string[]) => {
      const { status, text } = await scene.slicewire(...words, '-o', 'json');
      return { status, answer: JSON.parse(text) as unknown };
    };

    it('explain has a text, JSON, and exit statuses', async () => {
      const { status, text } = await scene.slicewire('explain', CLIENT, 'svc/shop/web');
      assert.equal(status, 0, text);
      assert.match(text, /shop\/web/);
      assert.match(text, new RegExp(`${podAddress(1).v4}:8080`));
      const { status: again, answer } = await json('explain', CLIENT, '10.96.0.10:80', '--rules');
      const { verdict, steps, by } = explanationSchema.parse(answer);
      assert.deepEqual([again, by.who, by.mode, by.node], [0, 'agent', mode, 'node']);
      assert.deepEqual(
        verdict.endpoints.map(({ share }) => share),
        [0.5, 0.5],
      );
      assert.notEqual(steps.length, 0);
      const nobody = await json('explain', CLIENT, '10.96.0.99:80');
      assert.equal(nobody.status, 2);
      assert.notEqual(explanationSchema.parse(nobody.answer).verdict.kind, 'balanced');
    });

    it('explain from the node names the address that the node uses, and keeps the answer to what packets do', async () => {
      const { answer } = await json('explain', 'node', 'svc/shop/web');
      const { from, verdict } = explanationSchema.parse(answer);
      // The Node has no addresses here, and the first of its interfaces is the bridge of the pods.
      assert.deepEqual([from.what, from.address], ['node', LAB.node.v4]);
      assert.deepEqual([...new Set(verdict.endpoints.map(({ masqueraded }) => masqueraded))], [true]);
      const sent = await scene.send('node', '10.96.0.10', 80);
      assert.match(sent, new RegExp(`answers, and sees ${LAB.bridge.v4}$`));
    });

    it('explain says what is wrong with a question', async () => {
      const said = async (...words: string[]) => await scene.slicewire('explain', ...words);
      const wrong = await said(CLIENT, 'svc/shop/wbe');
      assert.deepEqual([wrong.status, wrong.text], [1, `slicewire: ${messageIn(QUESTIONS, 'no Service shop/wbe')}`]);
      const pod = await said('pod/shop/web-1', 'svc/shop/web');
      assert.equal(pod.status, 1);
      assert.match(pod.text, /^slicewire: .*Pod shop\/web-1/);
      assert.equal((await said(CLIENT)).status, 1);
      assert.match(
        (await said(CLIENT, 'svc/shop/web', '--at', 'soon')).text,
        new RegExp(`^${RegExp.escape(messageIn(COMMAND_LINES, 'slicewire: --at: soon'))}`),
      );
      assert.match((await said(CLIENT, 'svc/shop/web', '--at', '-9h')).text, /^slicewire: .*history reaches back to/);
      assert.match(
        (await said(CLIENT, 'svc/shop/web', '--seconds', '3')).text,
        /^slicewire: --seconds 3: has no meaning without --live$/,
      );
    });

    it('verify finds nothing, and then what another program deleted', async () => {
      const equal = await json('verify');
      const before = verificationSchema.parse(equal.answer);
      assert.deepEqual([equal.status, before.equal, before.differences], [0, true, []]);
      assert.ok(before.compared > 10);
      const words = mode === 'nftables' ? 'nft flush map ip slicewire services' : 'iptables -t nat -F KUBE-SERVICES';
      const [file = '', ...args] = words.split(' ');
      // An agent would repair it before it is asked.
      const alone = await scene.stop(mode);
      assert.equal((await scene.run(file, ...args)).status, 0);
      const differs = await json('verify', ...alone);
      const after = verificationSchema.parse(differs.answer);
      assert.deepEqual([differs.status, after.equal], [2, false]);
      const { status, text } = await scene.slicewire('verify', ...alone);
      assert.equal(status, 2);
      assert.doesNotMatch(text, /equal/);
      // The answer begins with the difference.
      const explained = explanationSchema.parse((await json('explain', CLIENT, 'svc/shop/web', ...alone)).answer);
      assert.notEqual(explained.differs.length, 0);
      assert.notEqual(explained.verdict.kind, 'balanced');
      await scene.start(mode);
      assert.equal((await scene.slicewire('verify')).status, 0);
    });

    it('history and status have what happened', async () => {
      await scene.apply('web', ...web(true, false));
      const told = await json('history', 'shop/web');
      const { changes, syncs } = historySchema.parse(told.answer);
      const [change] = changes;
      assert.equal(told.status, 0);
      assert.deepEqual(
        [change?.object, change?.what],
        ['EndpointSlice shop/web-1', [`${podAddress(2).v4}:8080 is not ready any more`]],
      );
      assert.notEqual(change?.inKernelAt, null);
      assert.deepEqual(
        syncs.map(({ number }) => number),
        [change?.sync],
      );
      assert.match(
        (await scene.slicewire('history', 'shop/web', '--since', '1h')).text,
        /is not ready any more\n +in the kernel after /,
      );
      const { status, answer } = await json('status');
      const { latency, syncs: last, health, history } = statusSchema.parse(answer);
      assert.deepEqual([status, health.healthy, latency?.changes], [0, true, 1]);
      // A sync without changes may have followed.
      assert.ok(last.some(({ number }) => number === change?.sync));
      assert.ok((history?.bytes ?? 0) > 0);
    });

    it('explain answers for a moment before', async () => {
      const [last] = historySchema.parse((await json('history', 'shop/web')).answer).changes;
      assert.ok(last?.inKernelAt);
      const endpoints = async (at: number) => {
        const { answer } = await json('explain', CLIENT, 'svc/shop/web', '--at', new Date(at).toISOString());
        return explanationSchema.parse(answer).verdict.endpoints.map(({ endpoint }) => endpoint);
      };
      const at = Date.parse(last.inKernelAt);
      assert.deepEqual(
        await endpoints(at - 1),
        [1, 2].map((n) => `${podAddress(n).v4}:8080`),
      );
      assert.deepEqual(await endpoints(at), [`${podAddress(1).v4}:8080`]);
    });

    it('a command answers without an agent', async () => {
      const own = [
        '--manifests',
        scene.folder,
        '--hostname-override',
        'node',
        '--mode',
        mode,
        '--cluster-cidr',
        '10.244.0.0/16',
      ];
      const { status, answer } = await json('explain', CLIENT, 'svc/shop/web', ...own);
      const { by, verdict } = explanationSchema.parse(answer);
      assert.deepEqual([status, by.who, verdict.kind], [0, 'command', 'balanced']);
      assert.equal((await scene.slicewire('verify', ...own)).status, 0);
      const { health } = statusSchema.parse((await json('status', ...own)).answer);
      assert.deepEqual(health, { live: false, ready: false, healthy: true, reasons: ['no agent was asked'] });
      assert.match(
        (await scene.slicewire('history', ...own)).text,
        new RegExp(`^${RegExp.escape(messageIn(COMMAND_LINES, 'slicewire: history is kept'))}`),
      );
    });

    it('a Host of somebody else is refused', async () => {
      const script = `require('node:http').get({ port: 10249, path: '/status', headers: { host: 'evil.example' } }, async (answer) => {
        console.log(answer.statusCode, (await answer.toArray()).join(''));
      });`;
      const { text } = await scene.run(process.execPath, '-e', script);
      assert.match(text, /^403 \{"apiVersion":"slicewire\/v1","kind":"Problem","message":"the header Host is/);
    });
  });
}

describe('questions to nobody', () => {
  let scene: Scene;
  before(async () => {
    scene = await Scene.create();
  });
  after(() => scene.remove());

  it('get a sentence with the remedies of the question', async () => {
    const remedies = [
      [['explain', 'node', '10.96.0.10:80'], '--kubeconfig FILE, --manifests PATH or --recording FILE'],
      [['verify'], '--kubeconfig FILE or --manifests PATH'],
      [['status'], '--kubeconfig FILE, --manifests PATH or --recording FILE'],
      [['history'], '--recording FILE'],
    ] as const;
    for (const [words, flags] of remedies) {
      const { status, text } = await scene.slicewire(...words);
      assert.equal(status, 1);
      assert.equal(
        text,
        `slicewire: no agent answers at 127.0.0.1:10249 (nothing listens there): start it, or name its address with --metrics-bind-address; without an agent, use ${flags}`,
      );
    }
    const file = join(scene.folder, 'config.yaml');
    await writeFile(
      file,
      'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmetricsBindAddress: 127.0.0.1:7\n',
    );
    const { text } = await scene.slicewire('status', '--config', file);
    assert.match(text, /^slicewire: no agent answers at 127\.0\.0\.1:7 /);
  });
});
