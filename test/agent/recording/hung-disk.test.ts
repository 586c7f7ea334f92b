/** --record-dir on a disk that does not answer: neither the next sync nor the end of the agent waits for it. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import type { RecordingFiles } from '../../../src/agent/recording/recording-files.ts';
import { Recordings } from '../../../src/agent/recording/recordings.ts';

const CONFIG = { recording: { folder: '/recordings', size: 1 << 20 } } as never;
const AGENT = {} as never;

/** A disk of which calls wait until they are answered. */
class Disk {
  made: Promise<void> = Promise.resolve();
  closed: Promise<void> = Promise.resolve();
  listed: Promise<void> = Promise.resolve();
  listings = 0;
  /** Files that are open. */
  open = 0;
  readonly files: RecordingFiles = {
    makeFolder: () => this.made,
    isFolder: async () => true,
    list: async () => {
      this.listings += 1;
      await this.listed;
      return [];
    },
    create: async () => {
      this.open += 1;
      const close = () => {
        this.open -= 1;
        return this.closed;
      };
      return { append: async ({ length }) => length, close };
    },
    remove: async () => undefined,
    read: () => assert.fail('nothing is read'),
  };
}

const hung = () => new Promise<never>(() => undefined);

describe('a disk that hangs', () => {
  const said: string[] = [];
  let recordings: Recordings;
  let disk: Disk;
  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] });
    said.length = 0;
    const line = (text: string) => void said.push(text);
    disk = new Disk();
    const sinks = { restart: () => undefined, add: () => undefined, remove: () => undefined };
    const recorder = { sinks, log: { reachesBackTo: Number.POSITIVE_INFINITY } };
    recordings = new Recordings({ recorder, log: { error: line, warn: line }, files: disk.files } as never);
  });
  afterEach(() => mock.reset());

  /** Whether the work ends once the agent has waited for so long. */
  async function endsAfter(milliseconds: number, work: Promise<void>): Promise<boolean> {
    let isDone = false;
    void work.then(() => {
      isDone = true;
    });
    await turn();
    mock.timers.tick(milliseconds);
    await turn();
    return isDone;
  }
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

  it('delays the first sync by no more than five seconds, and is used when it answers', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    disk.made = promise;
    const use = recordings.use(AGENT, CONFIG);
    assert.equal(await endsAfter(4999, use), false);
    assert.equal(await endsAfter(1, use), true);
    const follows = 'the agent goes on, and records when the disk answers';
    assert.deepEqual(said, [`--record-dir=/recordings: the disk has not answered for 5 s; ${follows}`]);
    resolve();
    await turn();
    assert.equal(disk.open, 1);
    await recordings.close();
    assert.equal(disk.open, 0);
  });

  it('that answers after the recording ended is not used', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    disk.made = promise;
    const use = recordings.use(AGENT, CONFIG);
    assert.equal(await endsAfter(5000, use), true);
    assert.equal(await endsAfter(5000, recordings.close()), true);
    resolve();
    await turn();
    assert.equal(disk.open, 0);
  });

  it('is asked by no question while another one waits for it: each would take a thread of Node.js', async () => {
    await recordings.use(AGENT, CONFIG);
    disk.listed = hung();
    const before = disk.listings;
    const questions = Array.from({ length: 5 }, () => recordings.archive.flightAt(0).catch(() => undefined));
    assert.equal(
      await endsAfter(
        5000,
        Promise.all(questions).then(() => undefined),
      ),
      true,
    );
    assert.equal(disk.listings, before + 1);
    assert.match(said.join(), /has not answered for 5 s; the answer is from memory alone/);
  });

  it('delays the end of the agent by no more than five seconds', async () => {
    disk.closed = hung();
    await recordings.use(AGENT, CONFIG);
    const close = recordings.close();
    assert.equal(await endsAfter(4999, close), false);
    assert.equal(await endsAfter(1, close), true);
    assert.match(said.join(), /has not answered for 5 s; the last records may be missing/);
  });
});
