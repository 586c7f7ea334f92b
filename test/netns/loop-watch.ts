/**
 * Loaded into a process of floods.test.ts before its program (`--import`): how long its event loop is held. Each line of the file
 * LOOP_HOLDS is the processor's time in milliseconds that the main thread took between two rounds of the loop, where it is long. Time in which
 * the kernel ran other processes is not in it.
 */
import { appendFileSync } from 'node:fs';

/** Milliseconds: shorter ones are not written. */
const MIN_HOLD_MS = 5;
const { LOOP_HOLDS = '' } = process.env;

const taken = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
let before = taken();
setInterval(() => {
  const held = taken() - before;
  if (held > MIN_HOLD_MS) appendFileSync(LOOP_HOLDS, `${held.toFixed(1)}\n`);
  // Without the time of the line itself.
  before = taken();
}, 2).unref();
