/** `npm run soak` and `npm run versions` share this: signals, priority, what is printed, and the exit status. */
import { mkdtempSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { soakLines } from '../reliability/soak-page.ts';
import { missedOf, problemsOf, type SoakResult } from './result.ts';
import type { SoakOptions } from './run.ts';
import { soak } from './soak.ts';

type Given = Omit<SoakOptions, 'probesPerSecond' | 'signal' | 'say' | 'folder'>;

function say(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`);
}

/** Aborts at SIGINT and SIGTERM. */
export function interrupted(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => {
      say(`${signal}: the soak ends early`);
      stop.abort();
    });
  return stop.signal;
}

/** Runs the soak and prints what it found. The process will end with 1 when something was wrong. */
export async function carryOut(given: Given, signal: AbortSignal, { json = false } = {}): Promise<SoakResult> {
  // The agent alone has the priority of a node's program.
  setPriority(10);
  const folder = mkdtempSync(join(tmpdir(), 'slicewire-soak-'));
  const result = await soak({ ...given, probesPerSecond: 40, signal, say, folder });
  process.stdout.write(json ? `${JSON.stringify(result)}\n` : `${soakLines(result)}\n`);
  const problems = [...problemsOf(result), ...missedOf(result)];
  for (const problem of problems) say(problem);
  process.exitCode = problems.length === 0 && !result.isEarly ? 0 : 1;
  return result;
}
