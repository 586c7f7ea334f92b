#!/usr/bin/env node
/** Parse the command line, run, set the exit status; nothing else. */
import { main } from './cli/program.ts';

const stop = new AbortController();
for (const name of ['SIGTERM', 'SIGINT'] as const) {
  process.once(name, () => stop.abort(new Error(`received ${name}`)));
}

process.exitCode = await main(process.argv.slice(2), stop.signal);
