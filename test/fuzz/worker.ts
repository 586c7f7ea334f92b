/** The thread in which a target runs: one that hangs or runs out of memory ends alone. */
import { parentPort, workerData } from 'node:worker_threads';
import { runTarget } from './engine.ts';
import type { Done, Job } from './job.ts';
import { targetNamed } from './targets/index.ts';

const { target: name, progress, known, ...job } = workerData as Job;
const port = parentPort;
if (port === null) throw new Error('this file must run as a worker thread');
const target = await targetNamed(name);
const ran = await runTarget(target, {
  ...job,
  known: new Set(known),
  onFinding: (finding) => port.postMessage({ kind: 'finding', finding }),
  onInput: (index) => Atomics.store(progress, 0, index),
});
await target.close?.();
port.postMessage({ kind: 'done', ran } satisfies Done);
