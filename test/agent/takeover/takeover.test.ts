/** A takeover that went back: what lets it be tried again, and what does not. The netns tests have the rest, on real kernels. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { Agent } from '../../../src/agent/agent.ts';
import { realPlatform } from '../../../src/agent/platform.ts';
import { Takeover, type TakeoverAt } from '../../../src/agent/takeover/takeover.ts';
import { TakeoverRecord, type TakeoverState } from '../../../src/agent/takeover/takeover-record.ts';
import { realClock } from '../../../src/base/clock.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import { version } from '../../../src/config/program-version.ts';
import type { RecordFile } from '../../../src/kernel/record-file.ts';
import { logInto } from '../../../src/telemetry/log.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

class MemoryFile implements RecordFile {
  text: string | undefined;
  boot = 'this boot';
  path = () => '/run/slicewire/takeover-1';
  place = () => this.boot;
  read = () => this.text;
  write = (text: string) => {
    this.text = text;
  };
  remove = () => {
    const isThere = this.text !== undefined;
    this.text = undefined;
    return isThere;
  };
}

const WENT_BACK: TakeoverState = {
  ...{ kind: 'went back', cause: 'packets do not pass', at: Date.parse('2026-11-29T10:00:00Z') },
  told: { version: version(), annotation: 'a' },
};

const CONFIRM = configFromFlags({ manifests: '/none', takeover: 'confirm' });

describe('a takeover that went back', () => {
  let files: { state: MemoryFile; kept: MemoryFile };
  let node: { takeover?: string } | undefined;
  let stages: TakeoverAt[];
  let again: number;
  beforeEach(() => {
    files = { state: new MemoryFile(), kept: new MemoryFile() };
    new TakeoverRecord(files).write(WENT_BACK);
    node = { takeover: 'a' };
    [stages, again] = [[], 0];
  });
  const stops: AbortController[] = [];
  afterEach(() => stops.splice(0).map((stop) => stop.abort()));

  function begun(flags: Record<string, string> = { takeover: 'confirm' }): Takeover {
    const takeover = new Takeover({
      platform: { ...realPlatform, kernel: { ...realPlatform.kernel, takeover: files } },
      clock: realClock,
      log: logInto({ write: () => undefined }, 'silent'),
      datapath: { check: () => Promise.resolve([]) },
      unhealthy: () => [],
      verify: () => Promise.reject(new Error('nobody asks')),
      onStage: (at) => stages.push(at),
      onDecided: () => assert.fail('it was decided before'),
      onAgain: () => {
        again += 1;
      },
    });
    return beginAgain(takeover, configFromFlags({ manifests: '/none', ...flags }));
  }

  /** Another generation. */
  function beginAgain(takeover: Takeover, config = CONFIRM): Takeover {
    const agent = { feed: { node: () => node } } as unknown as Agent;
    takeover.begin({ agent, config, keepsTables: takeover.keepsTables(config), signal: NEVER });
    return takeover;
  }

  it('needs no connections through the rules until it is tried again', async () => {
    const takeover = begun();
    assert.equal(takeover.needsDatapath(CONFIRM), false);
    node = { takeover: 'b' };
    await takeover.beforeWrite();
    assert.equal(takeover.needsDatapath(CONFIRM), true);
  });

  it('writes nothing, says why and what to do, and keeps no tables', async () => {
    const takeover = begun();
    const report = await takeover.beforeWrite();
    assert.equal(report?.outcome, 'failed');
    const [at] = stages;
    assert.equal(at?.stage, 'went back');
    assert.equal(
      at?.unready,
      'the takeover of this node failed at 2026-11-29T10:00:00.000Z: packets do not pass. The rules that were there before are back, and nothing is written. To try again, remove /run/slicewire/takeover-1, change the annotation slicewire.dev/takeover of the Node, or start another version.',
    );
    assert.equal(at?.news, undefined, 'it happened before this process');
    assert.equal(takeover.keepsTables(CONFIRM), false);
    assert.equal(again, 0);
  });

  for (const [how, change] of [
    ['the file is removed', () => files.state.remove()],
    ['the annotation is another one', () => Object.assign(node ?? {}, { takeover: 'b' })],
    ['the annotation is gone', () => delete node?.takeover],
    [
      'this is another version',
      () => new TakeoverRecord(files).write({ ...WENT_BACK, told: { version: '0.0.1', annotation: 'a' } }),
    ],
  ] as const) {
    it(`is tried again, by another generation, when ${how}`, async () => {
      if (how === 'this is another version') change();
      const takeover = begun();
      if (how !== 'this is another version') {
        assert.equal((await takeover.beforeWrite())?.outcome, 'failed');
        assert.equal(again, 0);
        change();
      }
      for (let sync = 1; sync <= 3; sync++)
        assert.equal((await takeover.beforeWrite())?.outcome, 'failed', 'this generation never writes again');
      assert.equal(again, 3, 'each sync asks again, because building one may fail');
      assert.equal(takeover.keepsTables(CONFIRM), true, 'the next one keeps tables');
      beginAgain(takeover);
      assert.equal(files.state.text, undefined);
      assert.equal(stages.at(-1)?.stage, 'none');
    });
  }

  it('is held, and says so, where its record cannot be read, until that is removed', async () => {
    files.state.read = () => {
      if (files.state.text === undefined) return undefined;
      throw new Error('EIO: i/o error');
    };
    const takeover = begun();
    assert.equal((await takeover.beforeWrite())?.outcome, 'failed');
    assert.match(
      stages.at(-1)?.unready ?? '',
      /cannot be read: EIO.*Remove \/run\/slicewire\/takeover-1 to begin anew\.$/,
    );
    files.state.remove();
    assert.equal((await takeover.beforeWrite())?.outcome, 'failed');
    assert.equal(again, 1);
  });

  it('without a way back goes on, and begins anew when the file is removed', async () => {
    new TakeoverRecord(files).write({ ...WENT_BACK, kind: 'no way back' });
    const takeover = begun();
    assert.equal(await takeover.beforeWrite(), undefined);
    assert.match(stages.at(-1)?.unready ?? '', /is gone, so this agent goes on\. Remove/);
    files.state.remove();
    assert.equal((await takeover.beforeWrite())?.outcome, 'failed');
    assert.equal(again, 1);
  });

  it('is not told again by the annotation of a Node that is not known yet', async () => {
    const takeover = begun();
    const known = node;
    node = undefined;
    assert.equal((await takeover.beforeWrite())?.outcome, 'failed');
    node = known;
    assert.equal((await takeover.beforeWrite())?.outcome, 'failed');
    assert.equal(again, 0);
  });

  it('is over after the next boot, and without --takeover=confirm', async () => {
    files.state.boot = 'the next boot';
    assert.equal(new TakeoverRecord(files).read(), undefined);
    files.state.boot = 'this boot';
    assert.equal(await begun({}).beforeWrite(), undefined);
    assert.deepEqual([files.state.text, stages.at(-1)?.stage], [undefined, 'none']);
  });
});
