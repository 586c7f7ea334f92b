/** Recordings, which may come from anywhere: the frames, their lines, and the history that they make. */
import { readFileSync } from 'node:fs';
import { DeltaMismatch } from '../../../src/inspect/history/delta.ts';
import { frameBytes, headerBytes, RecordingUnreadable, readFrames } from '../../../src/inspect/history/frames.ts';
import { historyOf } from '../../../src/inspect/history/history-content.ts';
import { ObjectStore } from '../../../src/inspect/history/past-objects.ts';
import { flightOf, readRecording } from '../../../src/inspect/history/reading.ts';
import { mutateBytes } from '../mutate/bytes.ts';
import { type Json, mutateValue } from '../mutate/json.ts';
import type { Random } from '../random.ts';
import { soundNode, soundService, soundSlice } from '../sound/objects.ts';
import { soundPrototypes } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';

const file = (name: string) => readFileSync(new URL(`../../recordings/${name}.recording`, import.meta.url));

async function* chunksOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Frames of lines. */
async function framesOf(bytes: Buffer): Promise<string[][]> {
  const frames: string[][] = [];
  for await (const lines of readFrames(chunksOf(bytes), () => undefined)) frames.push([...lines]);
  return frames;
}

const SEEDS = [file('churn-iptables'), file('churn-nftables')];
const FRAMES = await Promise.all(SEEDS.map(framesOf));
const LINES = FRAMES.flat(2).map((line): Json => JSON.parse(line));

/** A line is changed, left out, or comes twice; the sums are right. One time in eight bytes are changed instead. */
function mutate(random: Random, seeds: readonly Buffer[]): Buffer {
  if (random.once(8)) return mutateBytes(random, random.pick(seeds), seeds);
  const frames = random.pick(FRAMES).map((lines) => [...lines]);
  for (let left = 1 + random.below(3); left > 0; left--) {
    const lines = random.pick(frames);
    const at = random.below(lines.length);
    const line: Json = JSON.parse(lines[at] || 'null');
    const kind = random.below(6);
    if (kind === 0) lines.splice(at, 1);
    else if (kind === 1) lines.splice(at, 0, random.pick(random.pick(frames)) ?? '');
    else lines[at] = JSON.stringify(mutateValue(random, line, random.pick(LINES)));
    if (lines.length === 0) lines.push('');
  }
  return Buffer.concat([headerBytes(), ...frames.map((lines) => frameBytes(lines))]);
}

export const recording: Target = {
  name: 'recording',
  declared: [RecordingUnreadable],
  seeds: SEEDS,
  mutate,
  async run(input) {
    const store = new ObjectStore();
    for await (const line of readRecording(chunksOf(input), () => undefined)) {
      if (line.type !== 'object' && line.type !== 'change') continue;
      try {
        const { key, to } = store.apply(line.delta);
        if (to !== undefined && 'key' in to) sure(to.key === key, () => `key: ${to.key} is kept as ${key}`);
      } catch (error) {
        if (!(error instanceof DeltaMismatch)) throw error;
      }
    }
    for (const service of store.services()) soundService(service);
    for (const slice of store.slices.all()) soundSlice(slice);
    if (store.node !== undefined) soundNode(store.node);
    try {
      const flight = await flightOf(readRecording(chunksOf(input), () => undefined));
      await historyOf(flight, { service: undefined, since: undefined, at: undefined, most: 20 });
    } catch (error) {
      if (!(error instanceof DeltaMismatch)) throw error;
    }
    soundPrototypes();
  },
};
