/**
 * Variables by which Node.js lets its surroundings write files, read code, print secrets or switch off the check of
 * certificates. The executable starts itself anew without them, in the same process, before it does anything: most of them
 * count from the first moment on, so that deleting them later changes nothing. What needs no such start is closed by the
 * build (scripts/build.ts): NODE_OPTIONS, OPENSSL_CONF, SIGUSR1. docs/operations.md has the whole list, and what stays open.
 * https://nodejs.org/api/cli.html#environment-variables
 */
import { isSea } from 'node:sea';

/** Each with what it would do. */
export const CLOSED: ReadonlyMap<string, string> = new Map([
  ['NODE_COMPILE_CACHE', 'has compiled code read from a folder, and written to it'],
  ['NODE_DEBUG', 'prints what is sent to the API server, tokens as well'],
  ['NODE_DEBUG_NATIVE', 'prints what the runtime does'],
  ['NODE_ICU_DATA', 'has data of languages read from a folder'],
  ['NODE_OPTIONS', 'sets options of the runtime, such as the debugger'],
  ['NODE_PATH', 'has modules read from other folders'],
  ['NODE_REDIRECT_WARNINGS', 'writes warnings to a file'],
  ['NODE_TLS_REJECT_UNAUTHORIZED', 'switches off the check of certificates'],
  ['NODE_V8_COVERAGE', 'writes files about what was executed to a folder'],
  ['OPENSSL_CONF', 'has libraries loaded'],
  ['SSLKEYLOGFILE', 'writes the keys of connections to a file'],
]);

/** Returns when the surroundings are as they should be; otherwise the program begins again, and this does not return. */
export function closeDoors(): void {
  // From its source it runs for its developers, who want NODE_OPTIONS and the others.
  if (!isSea()) return;
  const closed = [...CLOSED].filter(([name]) => process.env[name] !== undefined);
  if (closed.length === 0) return;
  const { env, execPath, argv } = process;
  for (const [name, does] of closed) {
    process.stderr.write(`slicewire: ${name} is not heeded (it ${does}): starting without it\n`);
  }
  const left = Object.entries(env).filter(([name]) => !CLOSED.has(name));
  process.execve?.(execPath, [execPath, ...argv.slice(2)], Object.fromEntries(left));
}
