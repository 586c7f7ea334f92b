#!/usr/bin/env -S node --disable-sigusr1 --liftoff-only
import { end, endAtOnce } from './cli/ending.ts';
import { main } from './cli/program.ts';
/** Parse the command line, run, set the exit status; nothing else. */
import { restartWithoutNodeVariables } from './kernel/environment.ts';
import { Hangups } from './kernel/process.ts';

/** Exit status of Node.js for a top-level await that never ends. */
const UNSETTLED = 13;

restartWithoutNodeVariables();

const stop = new AbortController();
for (const name of ['SIGTERM', 'SIGINT'] as const) {
  // Not `once`: execa ends the process itself when nobody else listens.
  process.on(name, () => {
    // The second signal: do not wait.
    if (stop.signal.aborted) void endAtOnce();
    else stop.abort(new Error(`received ${name}`));
  });
}

const hangups = new Hangups(() => stop.abort(new Error('received SIGHUP')));
process.on('SIGHUP', () => hangups.received());

// The status where nothing is left to do before the command ended. The executable is CommonJS, and has no top-level await.
process.exitCode = UNSETTLED;
void main(process.argv.slice(2), stop.signal, hangups).then(end);
