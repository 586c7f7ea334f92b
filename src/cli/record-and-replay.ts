/** The commands record and replay, and recordings as the source of answers. */
import { randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { stat, unlink } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { loadConfig } from '../agent/load-config.ts';
import { RecordedAnswers } from '../agent/questions/recorded-answers.ts';
import { causeOf } from '../base/cause.ts';
import { parseDuration } from '../base/duration.ts';
import { fileProblem } from '../cluster/documents/protocol.ts';
import { textFlag } from '../config/flags.ts';
import { version } from '../config/program-version.ts';
import { anonymized } from '../inspect/history/anonymize.ts';
import { recordingBytes } from '../inspect/history/frames.ts';
import { readRecording } from '../inspect/history/reading.ts';
import { Replay } from '../inspect/replay/replay-recording.ts';
import { API_VERSION, isWrongQuestion, momentOf, NoAnswer, WrongQuestion } from '../inspect/wire/envelope.ts';
import { bytesText } from '../inspect/wire/format.ts';
import type { Replayed } from '../inspect/wire/replay.ts';
import { replayText } from '../inspect/wire/replay.ts';
import { askForFile } from './ask-agent.ts';
import { type CommandInput, show } from './command-input.ts';

const warn = (text: string) => void process.stderr.write(`slicewire: ${text}\n`);

/** Throws NoAnswer when the file cannot be read. */
export async function recordedAnswers(file: string): Promise<RecordedAnswers> {
  await mustBeFile(file);
  return new RecordedAnswers(() => named(file, readRecording(createReadStream(file), warn)));
}

/** Adds the name of the file to errors of a recording. */
async function* named<T>(file: string, lines: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* lines;
  } catch (error) {
    throw isWrongQuestion(error) ? new WrongQuestion(`${file}: ${error.message}`) : error;
  }
}

async function mustBeFile(file: string): Promise<void> {
  const is = await stat(file).catch((error: unknown) => {
    throw new NoAnswer(`the recording ${file} cannot be read: ${fileProblem(error)}`);
  });
  if (!is.isFile()) throw new NoAnswer(`the recording ${file} is no file`);
}

const DAY_MS = 24 * 60 * 60 * 1000;

export async function recordCommand(input: CommandInput): Promise<number> {
  const { flags, words, signal, print } = input;
  const [file = ''] = words;
  const text = textFlag(flags, 'for');
  const time = text === undefined ? undefined : parseDuration(text);
  if (text !== undefined && (time === undefined || time < 1000 || time > DAY_MS)) {
    throw new WrongQuestion(`--for ${text}: must be a duration from 1s to 24h, such as 30s`);
  }
  const listen = (await loadConfig(flags)).config.serve.metrics;
  const chunks = await askForFile({ listen, path: '/recording', parameters: { for: text }, signal });
  if (text !== undefined) warn(`recording into ${file} for ${text}; Ctrl+C ends it earlier`);
  const bytes = flags.anonymize === true ? anonymousBytes(chunks) : chunks;
  try {
    await pipeline(bytes, createWriteStream(file, { flags: 'wx', mode: 0o600 }), { signal });
  } catch (error) {
    if (!signal.aborted) throw new NoAnswer(await unwritten(file, error));
    // After an interrupt the complete part of the file counts.
  }
  const { size } = await stat(file);
  print(`${file}: ${bytesText(size)}`);
  return 0;
}

async function* anonymousBytes(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* recordingBytes(anonymized(readRecording(chunks, warn), randomBytes(32)));
}

async function unwritten(file: string, error: unknown): Promise<string> {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EEXIST') return `${file} exists already: name another file`;
  await unlink(file).catch(() => undefined);
  return `the recording could not be written into ${file}: ${causeOf(error)}`;
}

export async function replayCommand(input: CommandInput): Promise<number> {
  const { words, signal } = input;
  const [file = ''] = words;
  await mustBeFile(file);
  const replay = new Replay({ signal });
  const syncs: Replayed['syncs'] = [];
  const lines = named(file, readRecording(createReadStream(file), warn));
  for await (const { number, at, trigger, planText, isSame, why } of replay.syncs(lines)) {
    syncs.push({ number, at: momentOf(at), trigger, plan: planText, same: isSame ?? null, why });
  }
  const { recorded } = replay;
  if (recorded === undefined) throw new NoAnswer(`${file}: the recording is empty`);
  const { settings, nodeName, version: recordedBy } = recorded.parts;
  const same = syncs.every((sync) => sync.same !== false);
  const head = { apiVersion: API_VERSION, kind: 'Replay', file } as const;
  const answer: Replayed = {
    ...head,
    mode: settings.mode,
    node: nodeName,
    recordedBy,
    version: version(),
    same,
    syncs,
  };
  show(input, answer, replayText);
  return same ? 0 : 2;
}
