/** Questions about the rules, sets and virtual servers of kube-proxy in IPVS mode, which were recorded from the real one. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { explanationSchema } from '../../src/inspect/wire/explanation.ts';
import { verificationSchema } from '../../src/inspect/wire/verification.ts';
import { masked } from '../questions/transcript.ts';
import { IPVS_VERSIONS, RecordedNode } from '../recordings/kube-proxy/scene.ts';
import { CHANGED, switchingDocument, transcript } from '../recordings/kube-proxy/transcript.ts';

it('has recordings', () => assert.ok(IPVS_VERSIONS.length > 0));

for (const version of IPVS_VERSIONS) {
  describe(`questions about kube-proxy ${version} in IPVS mode`, () => {
    let node: RecordedNode;
    before(async () => {
      node = await RecordedNode.create({ version, mode: 'ipvs' });
    });
    after(() => node.remove());
    beforeEach(() => node.reset());

    const verified = async () => {
      const { status, text } = await node.ask('verify', '-o', 'json');
      assert.notEqual(status, 1, text);
      return { status, answer: verificationSchema.parse(JSON.parse(text)) };
    };

    it('finds that they do what the objects ask for, but for what is on purpose', async () => {
      const { status, answer } = await verified();
      assert.deepEqual(answer.differences, []);
      assert.deepEqual([status, answer.equal, answer.notes, answer.by.mode], [0, true, [], 'ipvs']);
      assert.ok(answer.compared > 60, String(answer.compared));
    });

    it('explains a connection by them, step by step', async () => {
      const { status, text } = await node.ask('explain', '10.244.1.11', 'svc/shop/web', '--rules', '-o', 'json');
      const { verdict, differs, by } = explanationSchema.parse(JSON.parse(text));
      assert.deepEqual([status, verdict.kind, differs, by.rules], [0, 'balanced', [], 'kube-proxy']);
      const own = verdict.endpoints.map(({ masqueraded }) => masqueraded);
      assert.deepEqual(own, [true, false, false], 'the Pod that reaches itself is masqueraded');
    });

    it('finds endpoints that are stale or lacking', async () => {
      await node.write(CHANGED);
      const { status, answer } = await verified();
      assert.equal(status, 2);
      const ofWeb = answer.differences.filter(({ service }) => service === 'shop/web');
      assert.deepEqual(
        [...new Set(ofWeb.flatMap(({ causes = [] }) => causes))],
        [
          '10.244.1.12:8080 is in no EndpointSlice of Service shop/web: it is stale.',
          '10.244.2.19:8080 gets no new connections.',
        ],
      );
    });

    it('finds a server that another program removed', async () => {
      await node.lab.exec('node', 'ipvsadm', '-D', '-t', '10.96.0.20:80');
      const { answer } = await verified();
      assert.ok(answer.differences.length > 0);
      for (const { service, object } of answer.differences)
        assert.deepEqual([service, /10\.96\.0\.20:80/.test(object)], ['shop/web', true]);
    });
  });
}

describe('docs/switching.md', () => {
  it('has these answers', async () => {
    const [now, written] = [masked(await transcript(['ipvs'])), masked(switchingDocument().ipvs)];
    assert.equal(now, written, 'run test/recordings/kube-proxy/transcript.ts ipvs in the machine');
  });
});
