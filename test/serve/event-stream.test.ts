/** The stream of events for programs: its pace, its silence, its readers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NoAnswer } from '../../src/inspect/wire/envelope.ts';
import { EventStreams, MAX_WAITING_BYTES, PROGRAM_STREAM } from '../../src/serve/event-stream.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';

const NEVER = new AbortController().signal;
const { maxSilence: COMMENT_AFTER, maxReaders: MAX_STREAMS } = PROGRAM_STREAM;

function streams(text = (value: number): string => String(value)) {
  const clock = new FakeClock();
  const state = { value: 0, computed: 0, isBroken: false, thrown: 0 };
  const made = new EventStreams<number>(
    PROGRAM_STREAM,
    {
      now: () => state.value,
      whole: (value) => ({ whole: text(value) }),
      changed(before, value) {
        state.computed += 1;
        if (state.isBroken) throw new Error('broken');
        return before === value ? undefined : { changed: text(value) };
      },
      onThrown() {
        state.thrown += 1;
      },
    },
    clock,
  );
  const open = (pace: number, signal = NEVER, hangUp: () => void = () => undefined) => {
    const { body } = made.open({ signal, hangUp, encodings: undefined }, pace);
    return (body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  };
  const set = (value: number) => {
    state.value = value;
    made.touch();
  };
  return { clock, state, made, open, set };
}

type Pieces = AsyncIterator<Uint8Array>;

async function next(pieces: Pieces): Promise<string | undefined> {
  const { done, value } = await pieces.next();
  return done === true ? undefined : Buffer.from(value).toString();
}

describe('a paced stream', () => {
  it('begins with the whole; an event follows at the pace, with the newest, and none where nothing changed', async () => {
    const { clock, state, open, set } = streams();
    const pieces = open(1000);
    assert.equal(await next(pieces), 'data: {"whole":"0"}\n\n');
    set(1);
    set(2);
    clock.advance(999);
    assert.equal(state.computed, 0);
    clock.advance(1);
    assert.equal(await next(pieces), 'data: {"changed":"2"}\n\n');
    clock.advance(5000);
    set(3);
    clock.advance(0);
    assert.equal(await next(pieces), 'data: {"changed":"3"}\n\n', 'after a pause at once');
    set(3);
    clock.advance(2000);
    set(4);
    clock.advance(0);
    assert.equal(await next(pieces), 'data: {"changed":"4"}\n\n');
    await pieces.return?.();
    assert.equal(clock.pending, 0, 'no timer where nobody reads');
  });

  it('has a comment after each 15 s of silence, and notices then what nobody told', async () => {
    const { clock, state, open } = streams();
    const pieces = open(50);
    await next(pieces);
    clock.advance(COMMENT_AFTER - 1);
    const waiting = next(pieces);
    clock.advance(1);
    assert.equal(await waiting, ':\n\n');
    state.value = 7;
    clock.advance(COMMENT_AFTER);
    assert.equal(await next(pieces), 'data: {"changed":"7"}\n\n');
    clock.advance(COMMENT_AFTER);
    assert.equal(await next(pieces), ':\n\n');
  });

  it('is computed once for all readers of a pace, and a new one goes on with them', async () => {
    const { clock, state, open, set } = streams();
    const first = open(100);
    await next(first);
    set(1);
    const second = open(100);
    assert.equal(await next(second), 'data: {"whole":"0"}\n\n', 'what the others know');
    clock.advance(100);
    assert.equal(await next(first), 'data: {"changed":"1"}\n\n');
    assert.equal(await next(second), 'data: {"changed":"1"}\n\n');
    assert.equal(state.computed, 1);
  });

  it('ends a reader that is too slow, and not the others', async () => {
    const { clock, open, set } = streams((value) => String(value).repeat(100_000));
    const [slow, quick] = [open(100), open(100)];
    await next(slow);
    await next(quick);
    let value = 0;
    for (let waiting = 0; waiting <= MAX_WAITING_BYTES + 100_000; waiting += 100_000) {
      set(++value);
      clock.advance(100);
      assert.ok(await next(quick));
    }
    let pieces = 0;
    while ((await next(slow)) !== undefined) pieces += 1;
    assert.ok(pieces < value, `${pieces} of ${value}`);
    set(++value);
    clock.advance(100);
    assert.ok(await next(quick));
  });

  it('gives the place of a reader that is too slow to others at once, and hangs up', async () => {
    const { clock, made, open, set } = streams((value) => String(value).repeat(100_000));
    let hungUp = 0;
    const slow = open(100, NEVER, () => {
      hungUp += 1;
    });
    await next(slow);
    for (let value = 1; value <= 9 && hungUp === 0; value++) {
      set(value);
      clock.advance(100);
    }
    assert.deepEqual([hungUp, made.readers, clock.pending], [1, 0, 0]);
    const other = open(100);
    assert.ok(await next(other));
    assert.equal(await next(slow), undefined, 'what waited is dropped');
    set(10);
    clock.advance(100);
    assert.ok(await next(other), 'the end of one does not touch another of the same pace');
    assert.equal(made.readers, 1);
  });

  it('ends with the signal, and when an event cannot be made', async () => {
    const { clock, state, open, set, made } = streams();
    const asking = new AbortController();
    const [gone, other] = [open(100, asking.signal), open(100)];
    await next(gone);
    await next(other);
    asking.abort();
    assert.equal(await next(gone), undefined);
    state.isBroken = true;
    set(1);
    clock.advance(100);
    assert.equal(await next(other), undefined);
    assert.deepEqual([state.thrown, made.readers], [1, 0]);
  });

  it('is one of sixteen at most', async () => {
    const { open, made } = streams();
    const all = Array.from({ length: MAX_STREAMS }, (_, i) => open(100 + i));
    for (const pieces of all) await next(pieces);
    assert.throws(() => made.open({ signal: NEVER }, 100), NoAnswer);
    await all[0]?.return?.();
    assert.equal(await next(open(100)), 'data: {"whole":"0"}\n\n');
  });
});
