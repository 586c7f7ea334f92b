#!/usr/bin/env -S node --disable-sigusr1
import { end, endAtOnce } from './cli/ending.ts';
import { main } from './cli/program.ts';
/** Parse the command line, run, set the exit status; nothing else. */
import { restartWithoutNodeVariables } from './host/environment.ts';
import { Hangups } from './host/hangups.ts';

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

await end(await main(process.argv.slice(2), stop.signal, hangups));
