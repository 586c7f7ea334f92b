/** Restarts of the real agent in nftables mode: it reads the ruleset unless it is sure that everything is as the last agent left it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TABLE } from '../../../src/kernel/nftables-kernel.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { OBJECTS, type Scene, simScene } from './scene.ts';

const OTHER = { pid: 4711, name: 'nft' };
const ID = { family: 'IPv4', table: TABLE } as const;
const NOT_READ = 'the ruleset is unchanged since the last agent, and as desired; it was not read';
const MORE = [
  service({ name: 'more', spec: { clusterIP: '10.96.0.12', ports: [{ port: 81, targetPort: 8080 }] } }),
  slice({ name: 'more-1', service: 'more', endpoints: ['10.244.1.9'] }),
];

/** With an agent that has written its rules, and is at rest. */
async function begun(test: (scene: Scene) => Promise<void>): Promise<void> {
  const scene = simScene({ mode: 'nftables', variant: 'nft' });
  try {
    await scene.run(20_000);
    assert.equal(has(scene.lines, NOT_READ), false, 'the first agent found nothing');
    await test(scene);
  } finally {
    scene.end();
  }
}

const has = (lines: readonly string[], text: string) => lines.some((line) => line.includes(text));
const elements = ({ kernel }: Scene) => [...(kernel.nft.stateOf('IPv4', TABLE)?.sets.get('services') ?? [])].length;

/** Kills the agent, acts while there is none, and returns the lines of the next one until it is at rest. */
async function restarted(scene: Scene, whileDown: () => void = () => undefined): Promise<readonly string[]> {
  const since = scene.lines.length;
  scene.process().kill();
  whileDown();
  await scene.run(20_000);
  const lines = scene.lines.slice(since);
  assert.ok(has(lines, '"msg":"synced'), lines.join('\n'));
  return lines;
}

describe('a restart in nftables mode', () => {
  it('reads nothing when everything is as it was left, and again after that', () =>
    begun(async (scene) => {
      const { generation } = scene.kernel.nft;
      for (const _ of [1, 2]) {
        const lines = await restarted(scene);
        assert.ok(has(lines, NOT_READ), lines.join('\n'));
        assert.ok(has(lines, '"msg":"synced, nothing to do"'), lines.join('\n'));
      }
      assert.equal(scene.kernel.nft.generation, generation);
      assert.equal((await scene.ask('/healthz'))?.status, 200);
    }));

  it('goes on as after a reading: it writes changes, and repairs what another program deletes', () =>
    begun(async (scene) => {
      const before = elements(scene);
      await restarted(scene);
      scene.put([...OBJECTS, ...MORE]);
      await scene.run(20_000);
      assert.equal(elements(scene), before + 1);
      assert.ok(scene.kernel.nft.others.flushSet(OTHER, ID, 'services'));
      await scene.run(20_000);
      assert.equal(elements(scene), before + 1);
      scene.put(OBJECTS);
      // What served the Service stays a moment for packets on their way: until it is gone the table is not as desired.
      await scene.run(40_000);
      assert.equal(elements(scene), before);
      assert.ok(has(await restarted(scene), NOT_READ));
    }));

  it('reads after another program wrote while no agent ran, and knows the ruleset at the restart after that', () =>
    begun(async (scene) => {
      const { others } = scene.kernel.nft;
      assert.equal(has(await restarted(scene, () => others.touch(OTHER)), NOT_READ), false);
      assert.ok(has(await restarted(scene), NOT_READ));
    }));

  it('knows the ruleset also when another program wrote to its own table while an agent ran', () =>
    begun(async (scene) => {
      scene.kernel.nft.others.touch(OTHER);
      await scene.run(20_000);
      assert.ok(has(await restarted(scene), NOT_READ));
    }));

  for (const [what, act] of [
    ['flushed a map', (scene) => scene.kernel.nft.others.flushSet(OTHER, ID, 'services')],
    ['deleted the table', (scene) => scene.kernel.nft.others.deleteTable(OTHER, ID)],
    ['added a rule to a chain of ours', (scene) => scene.kernel.nft.others.addRule(OTHER, ID, 'services')],
  ] as const satisfies readonly (readonly [string, (scene: Scene) => boolean])[]) {
    it(`reads and repairs after another program ${what} while no agent ran`, () =>
      begun(async (scene) => {
        const before = scene.kernel.nft.stateOf('IPv4', TABLE);
        const lines = await restarted(scene, () => void act(scene));
        assert.equal(has(lines, NOT_READ), false);
        const texts = (state: typeof before) =>
          [...(state?.chains ?? [])].map(([name, { rules }]) => [name, rules.map(({ text }) => text)]).sort();
        assert.deepEqual(texts(scene.kernel.nft.stateOf('IPv4', TABLE)), texts(before));
        assert.equal(elements(scene), before?.sets.get('services')?.length);
      }));
  }

  it('reads and writes when a Service changed while no agent ran', () =>
    begun(async (scene) => {
      const before = elements(scene);
      const lines = await restarted(scene, () => scene.put([...OBJECTS, ...MORE]));
      assert.equal(has(lines, NOT_READ), false);
      assert.equal(elements(scene), before + 1);
      assert.ok(has(await restarted(scene), NOT_READ));
    }));

  it('reads when the agent was killed between its transaction and the record of it', () =>
    begun(async (scene) => {
      const before = elements(scene);
      let writes = 0;
      scene.calls.faultAt = (_number, what) => {
        if (!what.startsWith('write /run/slicewire')) return undefined;
        writes += 1;
        return writes === 1 ? { kind: 'kill', when: 'before' } : undefined;
      };
      const since = scene.lines.length;
      scene.put([...OBJECTS, ...MORE]);
      await scene.run(20_000);
      assert.ok(writes > 0);
      assert.equal(has(scene.lines.slice(since), NOT_READ), false);
      assert.equal(elements(scene), before + 1);
      assert.ok(has(await restarted(scene), NOT_READ));
    }));

  it('reads when the record is of another boot or network namespace', () =>
    begun(async (scene) => {
      const { record } = scene.kernel;
      const lines = await restarted(scene, () => {
        record.place = 'another boot';
      });
      assert.equal(has(lines, NOT_READ), false);
      assert.ok(has(await restarted(scene), NOT_READ));
    }));

  for (const [what, change] of [
    [
      'has another digest',
      (text) => text.replace(/"digest":"./g, (all) => `${all.slice(0, -1)}${all.endsWith('0') ? 1 : 0}`),
    ],
    ['has another key', (text) => text.replace(/"key":"./, (all) => `${all.slice(0, -1)}${all.endsWith('0') ? 1 : 0}`)],
    ['has another generation', (text) => text.replaceAll(/"generation":/g, '"generation":1')],
    ['has another handle', (text) => text.replaceAll(/"handle":"/g, '"handle":"1')],
    ['is cut', (text) => text.slice(0, 50)],
  ] as const satisfies readonly (readonly [string, (text: string) => string])[]) {
    it(`reads when the record ${what}`, () =>
      begun(async (scene) => {
        const { record } = scene.kernel;
        const before = record.text ?? '';
        const lines = await restarted(scene, () => {
          record.text = change(before);
        });
        assert.notEqual(change(before), before);
        assert.equal(has(lines, NOT_READ), false);
        assert.equal((await scene.ask('/healthz'))?.status, 200);
        assert.ok(has(await restarted(scene), NOT_READ));
      }));
  }

  it('finds no record after a cleanup', () =>
    begun(async (scene) => {
      const { removed } = await scene.cleanUp();
      assert.deepEqual(removed, ['IPv4 nftables table slicewire', 'IPv6 nftables table slicewire']);
      assert.equal(scene.kernel.record.text, undefined);
    }));

  it('reads, and serves, where no record can be written or read', () =>
    begun(async (scene) => {
      scene.calls.faultAt = (_number, what) =>
        what.endsWith('/run/slicewire/ruleset') ? { kind: 'fails', when: 'before', variant: 0 } : undefined;
      for (const _ of [1, 2]) assert.equal(has(await restarted(scene), NOT_READ), false);
      scene.calls.faultAt = () => undefined;
      assert.equal((await scene.ask('/healthz'))?.status, 200);
    }));
});
