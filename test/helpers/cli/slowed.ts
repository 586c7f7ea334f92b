/**
 * Runs a command as on a machine that is very busy: it runs for a moment, and stops for much longer.
 *
 *   node slowed.ts COMMAND [ARGUMENT…]
 */
import { spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';

/** Milliseconds. */
const RUNS = 2;
const STOPS = 30;

const [file = '', ...args] = process.argv.slice(2);
const child = spawn(file, args, { stdio: 'inherit' });
let hasEnded = false;
child.on('exit', (status) => {
  hasEnded = true;
  process.exitCode = status ?? 1;
});
while (!hasEnded) {
  await pause(RUNS);
  child.kill('SIGSTOP');
  await pause(STOPS);
  child.kill('SIGCONT');
}
