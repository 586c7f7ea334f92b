/** --record-dir on a disk that does not answer: neither the next sync nor the end of the agent waits for it. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { RecordFolder } from '../../../src/agent/recording/record-folder.ts';
import { Recordings } from '../../../src/agent/recording/recordings.ts';

const CONFIG = { recording: { folder: '/recordings', size: 1 << 20 } } as never;
const AGENT = {} as never;

/** As a folder that was opened. */
class Opened {
  readonly path = '/recordings';
  starts = 0;
  stops = 0;
  readonly #stopped: Promise<void>;

  constructor(stopped: Promise<void> = Promise.resolve()) {
    this.#stopped = stopped;
  }

  async start(): Promise<void> {
    this.starts += 1;
  }

  stop(): Promise<void> {
    this.stops += 1;
    return this.#stopped;
  }
}

const hung = () => new Promise<never>(() => undefined);

describe('a disk that hangs', () => {
  const said: string[] = [];
  let recordings: Recordings;
  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] });
    said.length = 0;
    const line = (text: string) => void said.push(text);
    const recorder = { sinks: { restart: () => undefined } };
    recordings = new Recordings(recorder as never, { error: line, warn: line } as never);
  });
  afterEach(() => mock.reset());

  const opens = (folder: Promise<Opened>) => mock.method(RecordFolder, 'open', () => folder as never);

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
    const { promise, resolve } = Promise.withResolvers<Opened>();
    opens(promise);
    const use = recordings.use(AGENT, CONFIG);
    assert.equal(await endsAfter(4999, use), false);
    assert.equal(await endsAfter(1, use), true);
    const follows = 'the agent goes on, and records when the disk answers';
    assert.deepEqual(said, [`--record-dir=/recordings: the disk has not answered for 5 s; ${follows}`]);
    const folder = new Opened();
    resolve(folder);
    await turn();
    assert.equal(folder.starts, 1);
    await recordings.close();
    assert.equal(folder.stops, 1);
  });

  it('that answers after the recording ended is not used', async () => {
    const { promise, resolve } = Promise.withResolvers<Opened>();
    opens(promise);
    const use = recordings.use(AGENT, CONFIG);
    assert.equal(await endsAfter(5000, use), true);
    await recordings.close();
    const folder = new Opened();
    resolve(folder);
    await turn();
    assert.equal(folder.starts, 0);
  });

  it('delays the end of the agent by no more than five seconds', async () => {
    opens(Promise.resolve(new Opened(hung())));
    await recordings.use(AGENT, CONFIG);
    const close = recordings.close();
    assert.equal(await endsAfter(4999, close), false);
    assert.equal(await endsAfter(1, close), true);
    assert.match(said.join(), /has not answered for 5 s; the last records may be missing/);
  });
});
