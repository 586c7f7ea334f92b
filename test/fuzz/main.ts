/**
 * `npm run fuzz -- --target json`: attacks a decoder with mutated inputs, and prints what it finds. `--seed` and `--only` repeat one
 * input; `--file` runs the bytes of a file.
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { measuredNow } from '../reliability/machine.ts';
import { readResults, recordPart } from '../reliability/results.ts';
import { type Finding, inputAt, judge } from './engine.ts';
import { type JobResult, runWatched } from './job.ts';
import type { Target } from './target.ts';
import { TARGET_NAMES, targetNamed } from './targets/index.ts';

const { values } = commandLine({
  command: 'npm run fuzz',
  about: `Attacks decoders with mutated inputs, and says which inputs end them, take long, or are read wrongly. Targets: ${TARGET_NAMES.join(', ')}.`,
  options: {
    target: { type: 'string', value: 'NAME[,NAME…]', default: 'all', help: 'the targets' },
    inputs: { type: 'string', value: 'N', default: '1000000', least: 0, help: 'so many inputs for each' },
    seed: { type: 'string', value: 'N', default: '1', least: 0, help: 'of the inputs' },
    seconds: { type: 'string', value: 'N', default: '86400', least: 0, help: 'at most so long for each' },
    only: { type: 'string', value: 'INDEX', least: 0, help: 'this input of the seed alone, which is printed' },
    file: { type: 'string', value: 'FILE', help: 'this input alone' },
    keep: { type: 'boolean', help: 'saves each finding in test/fuzz/found, which the tests run again' },
    record: { type: 'boolean', help: 'writes the result to docs/reliability.json and docs/reliability.md' },
  },
});

const say = (text: string) => void process.stdout.write(`${text}\n`);

/** Throws RangeError. */
function number(flag: 'inputs' | 'seed' | 'seconds' | 'only'): number {
  const text = values[flag] ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new RangeError(`--${flag} ${text}: must be a whole number`);
}

/** Printable, and short enough to read. */
function inputText(input: Buffer): string {
  const text = JSON.stringify(input.subarray(0, 400).toString('latin1'));
  return input.length > 400 ? `${text}… (${input.length} bytes)` : text;
}

function report(finding: Finding): void {
  const { target, seed, index, kind, problem, input } = finding;
  say(`\n${target}: ${kind}: ${problem}`);
  say(`  input: ${inputText(input)}`);
  say(`  again: npm run fuzz -- --target ${target} --seed ${seed} --only ${index}`);
  if (!values.keep) return;
  const digest = createHash('sha256').update(input).digest('hex').slice(0, 12);
  const path = fileURLToPath(new URL(`./found/${target}-${digest}.input`, import.meta.url));
  writeFileSync(path, input);
  say(`  saved: ${path}`);
}

async function once(target: Target, input: Buffer): Promise<boolean> {
  say(`${target.name}: ${inputText(input)}`);
  const judged = await judge(target, input);
  await target.close?.();
  say(judged === undefined ? 'nothing is wrong' : `${judged.kind}: ${judged.problem}`);
  return judged === undefined;
}

async function attack(target: Target): Promise<JobResult> {
  const [seed, inputs, most] = [number('seed'), number('inputs'), number('seconds') * 1000];
  const result = await runWatched(target, { seed, inputs, most, onFinding: report });
  const rate = Math.round(result.inputs / result.seconds);
  say(
    `${target.name}: ${result.inputs} inputs in ${result.seconds.toFixed(0)} s (${rate} a second), seed ${seed}: ${result.findings.length} findings`,
  );
  return result;
}

/** A row of the table: target, inputs, seconds, seed, findings. */
type Row = readonly string[];

/** Adds the rows to part `fuzz` of docs/reliability.json; targets that did not run keep theirs. */
function record(rows: readonly Row[]): void {
  const before = readResults().fuzz?.rows ?? [];
  const kept = before.filter(([name]) => !rows.some(([target]) => target === name));
  const all = [...kept, ...rows].sort(([a = ''], [b = '']) => TARGET_NAMES.indexOf(a) - TARGET_NAMES.indexOf(b));
  recordPart('fuzz', {
    ...measuredNow(),
    command: 'npm run fuzz -- --target X --seed N',
    text: [
      'A finding is a crash, an input that takes more than 1 s, memory that grows by more than 200 MB, or an output outside of the declared types.',
      'The finds of earlier runs are mended, and each of it has a test (`test/fuzz/mended.test.ts`, `test/fuzz/found/`).',
    ],
    head: ['decoder', 'inputs', 'seconds', 'seed', 'findings'],
    rows: all,
  });
}

async function main(): Promise<boolean> {
  const names = values.target === 'all' ? TARGET_NAMES : values.target.split(',');
  let isClean = true;
  const rows: Row[] = [];
  for (const name of names) {
    const target = await targetNamed(name);
    if (values.file !== undefined) isClean = (await once(target, readFileSync(values.file))) && isClean;
    else if (values.only !== undefined)
      isClean = (await once(target, inputAt(target, number('seed'), number('only')))) && isClean;
    else {
      const { inputs, seconds, findings } = await attack(target);
      await target.close?.();
      isClean &&= findings.length === 0;
      rows.push([
        name,
        inputs.toLocaleString('en'),
        seconds.toFixed(0),
        String(number('seed')),
        String(findings.length),
      ]);
    }
  }
  if (values.record) record(rows);
  return isClean;
}

process.exitCode = (await main()) ? 0 : 1;
