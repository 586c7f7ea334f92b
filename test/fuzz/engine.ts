/** Runs a target over many inputs: each follows from seed and index, is judged, and shrunk when it is a finding. */
import { memoryUsage } from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { randomAt } from './random.ts';
import { type Target, Unsound } from './target.ts';

/** Milliseconds that an input may take. */
export const SLOWEST = 1000;
/** Bytes that memory may grow. */
export const LARGEST_GROWTH = 200 * 1024 * 1024;
/** Inputs between two looks at memory. */
const BETWEEN_LOOKS = 20_000;
/** Inputs before the first look: caches of the program fill. */
const WARM_UP = 2000;
/** Attempts to make an input smaller, and milliseconds for them. */
const SHRINKS = 2000;
const SHRINKING = 20_000;

export interface Finding {
  readonly target: string;
  readonly seed: number;
  readonly index: number;
  /** `crash`: an error that is not declared. `unsound`: an output outside the declared types. */
  readonly kind: 'crash' | 'unsound' | 'slow' | 'growth' | 'hang' | 'out of memory';
  /** The same of inputs that find the same. */
  readonly mark: string;
  readonly problem: string;
  readonly input: Buffer;
}

/** The input of this index. */
export function inputAt(target: Target, seed: number, index: number): Buffer {
  return target.mutate(randomAt(seed, index), target.seeds);
}

export interface Judged {
  readonly kind: Finding['kind'];
  readonly mark: string;
  readonly problem: string;
}

/** undefined: nothing is wrong. */
export async function judge(target: Target, input: Buffer): Promise<Judged | undefined> {
  try {
    // Most targets answer at once; awaiting nothing costs more than decoding.
    const running = target.run(input);
    if (running !== undefined) await running;
    return undefined;
  } catch (error) {
    if (error instanceof Unsound)
      return {
        kind: 'unsound',
        mark: error.message.split(':', 1)[0]?.replace(/\d+/g, '') ?? '',
        problem: error.message,
      };
    if (target.declared.some((declared) => error instanceof declared)) return undefined;
    const { stack = '', message } = error instanceof Error ? error : new Error(String(error));
    const frames = stack.split('\n').filter((line) => /\/(?:src|native)\//.test(line));
    const where = (frames[0] ?? stack.split('\n')[1] ?? '').trim();
    return {
      kind: 'crash',
      mark: `${message.slice(0, 20)} ${where}`,
      problem: stack.split('\n').slice(0, 6).join('\n'),
    };
  }
}

/** An input took long: it counts when it does so each time, because others use this machine too. */
async function isSlow(target: Target, input: Buffer): Promise<boolean> {
  for (let tries = 0; tries < 3; tries++) {
    const before = performance.now();
    await judge(target, input);
    if (performance.now() - before < SLOWEST) return false;
  }
  return true;
}

/** A smaller input with the same finding. */
async function shrunk(target: Target, input: Buffer, mark: string): Promise<Buffer> {
  let best = input;
  let left = SHRINKS;
  const start = performance.now();
  const isSame = async (one: Buffer) => (await judge(target, one))?.mark === mark;
  for (let size = Math.ceil(best.length / 2); size >= 1 && left > 0; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < best.length && left > 0; ) {
      left = performance.now() - start > SHRINKING ? 0 : left - 1;
      const smaller = Buffer.concat([best.subarray(0, at), best.subarray(at + size)]);
      if (await isSame(smaller)) best = smaller;
      else at += size;
    }
  }
  return best;
}

/** Collects garbage now. */
function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  return typeof collect === 'function' ? () => void collect() : () => undefined;
}

export interface RunOptions {
  readonly seed: number;
  readonly from: number;
  readonly inputs: number;
  /** Milliseconds; no input begins after them. */
  readonly most: number;
  /** Kinds of findings that are known already. */
  readonly known: Set<string>;
  readonly onFinding: (finding: Finding) => void;
  /** Called before each input, with its index. */
  readonly onInput?: (index: number) => void;
}

/** Returns the number of inputs that ran. */
export async function runTarget(target: Target, options: RunOptions): Promise<number> {
  const { seed, from, inputs, most, known, onFinding, onInput } = options;
  const collect = collector();
  const held = () => {
    collect();
    const { heapUsed, external } = memoryUsage();
    return heapUsed + external;
  };
  let base: number | undefined;
  const start = performance.now();
  for (let index = from; index < from + inputs; index++) {
    const before = performance.now();
    if (before - start > most) return index - from;
    onInput?.(index);
    const input = inputAt(target, seed, index);
    const judged = await judge(target, input);
    const found = (one: Judged, smaller: Buffer) => {
      known.add(one.mark);
      onFinding({ target: target.name, seed, index, ...one, input: smaller });
    };
    if (judged !== undefined && !known.has(judged.mark)) found(judged, await shrunk(target, input, judged.mark));
    else if (judged === undefined && performance.now() - before > SLOWEST && (await isSlow(target, input)))
      found({ kind: 'slow', mark: `slow ${index}`, problem: `took more than ${SLOWEST} ms, three times` }, input);
    if (index - from === WARM_UP) base = held();
    else if (base !== undefined && (index - from) % BETWEEN_LOOKS === 0) {
      const growth = held() - base;
      if (growth > LARGEST_GROWTH && !known.has('growth'))
        found({ kind: 'growth', mark: 'growth', problem: `memory grew by ${growth} bytes` }, input);
    }
    // Timers and sockets of the target get their turn.
    if (index % 1000 === 999) await new Promise(setImmediate);
  }
  return inputs;
}
