/**
 * Environment variables by which others could make Node.js write files, load code, print secrets or skip the check of certificates. The
 * executable restarts in the same process without them. It would be too late to delete them, because Node.js reads most of them at its
 * start. The build disables NODE_OPTIONS, OPENSSL_CONF and SIGUSR1 without a restart (scripts/build.ts). docs/configure.md lists all
 * variables, also those that stay.
 * https://nodejs.org/api/cli.html#environment-variables
 */
import { isSea } from 'node:sea';

/** The variables that are removed, each with its effect. */
export const REMOVED_VARIABLES: ReadonlyMap<string, string> = new Map([
  ['NODE_COMPILE_CACHE', 'loads compiled code from a folder, and writes it there'],
  ['NODE_DEBUG', 'prints requests to the API server, with their tokens'],
  ['NODE_DEBUG_NATIVE', 'prints internals of the runtime'],
  ['NODE_ICU_DATA', 'loads language data from a folder'],
  ['NODE_OPTIONS', 'sets options of the runtime, such as the debugger'],
  ['NODE_PATH', 'loads modules from other folders'],
  ['NODE_REDIRECT_WARNINGS', 'writes warnings to a file'],
  ['NODE_TLS_REJECT_UNAUTHORIZED', 'disables the check of certificates'],
  ['NODE_V8_COVERAGE', 'writes coverage files to a folder'],
  ['OPENSSL_CONF', 'loads libraries'],
  ['SSLKEYLOGFILE', 'writes the keys of connections to a file'],
]);

/**
 * Returns at once when none of the variables is set. Otherwise it replaces the process by a new one without them (execve(2)),
 * and does not return. A line on standard error names each. Run from source it does nothing: developers need the variables.
 */
export function restartWithoutNodeVariables(): void {
  if (!isSea()) return;
  const removed = [...REMOVED_VARIABLES].filter(([name]) => process.env[name] !== undefined);
  if (removed.length === 0) return;
  const { env, execPath, argv0, argv } = process;
  for (const [name, effect] of removed) {
    process.stderr.write(`slicewire: ${name} is ignored (it ${effect}): restarting without it\n`);
  }
  const kept = Object.entries(env).filter(([name]) => !REMOVED_VARIABLES.has(name));
  // The name may say that the process is a plugin of kubectl.
  process.execve?.(execPath, [argv0, ...argv.slice(2)], Object.fromEntries(kept));
}
