/** A campaign on several processors: workers take one seed after another. */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type CampaignOptions, type CampaignResult, noHistories, runSeed, take } from './campaign.ts';
import type { Outcome } from './run-history.ts';

/** Megabytes: a history leaves much garbage behind, and seldom collected it costs less. */
const YOUNG_GENERATION = 192;

interface Work extends Pick<CampaignOptions, 'first' | 'most' | 'keepsGoing' | 'shrinking'> {
  /** Milliseconds since 1970 after which no history begins. */
  readonly end: number;
  /** How many seeds were taken, shared by all workers. */
  readonly taken: Int32Array;
}

interface Done {
  readonly seed: number;
  readonly outcome: Outcome;
  readonly lines: readonly string[];
}

/** Many histories, each with the next seed. Rejects when a worker ends by an error. */
export async function runCampaign(
  { first, most, time, keepsGoing = false, shrinking = 0, print, onHistory }: Omit<CampaignOptions, 'options'>,
  processors: number,
): Promise<CampaignResult> {
  const result = noHistories();
  // A shared array has room for no greater number.
  const work: Work = {
    ...{ first, most: Math.min(most, 2 ** 30), keepsGoing, shrinking, end: Date.now() + time },
    taken: new Int32Array(new SharedArrayBuffer(4)),
  };
  let before = Promise.resolve();
  const follow = ({ seed, outcome, lines }: Done) => {
    for (const line of lines) print(line);
    take(result, seed, outcome);
    // One at a time: what follows a history may use the kernel.
    before = before.then(() => onHistory?.(seed, outcome));
  };
  await Promise.all(
    Array.from({ length: processors }, async () => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_GENERATION };
      const worker = new Worker(new URL(import.meta.url), { workerData: work, resourceLimits });
      worker
        .on('message', follow)
        .on('error', reject)
        .on('exit', () => resolve());
      await promise;
    }),
  );
  await before;
  return result;
}

async function runSeeds({ first, most, end, keepsGoing, shrinking = 0, taken }: Work): Promise<void> {
  for (;;) {
    const number = Atomics.add(taken, 0, 1);
    if (number >= most || Date.now() >= end) return;
    const lines: string[] = [];
    const seed = first + number;
    const outcome = await runSeed(seed, { print: (line) => lines.push(line), shrinking });
    parentPort?.postMessage({ seed, outcome, lines } satisfies Done);
    if (outcome.failure !== undefined && keepsGoing !== true) Atomics.store(taken, 0, most);
  }
}

if (!isMainThread) await runSeeds(workerData as Work);
