/**
 * Surroundings for the warm-up in which nothing depends on the machine: no time passes, a process ends as soon as it starts, and nothing
 * is printed. V8 writes functions in the order in which they were first called. Where that order followed a timer, a process or a file,
 * it would follow the load of the machine, and two builds would differ.
 */
import { createHook } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { Readable, Writable } from 'node:stream';

/** A timer with the methods that the program calls. It never fires. */
const NEVER_DUE = { ref: () => NEVER_DUE, unref: () => NEVER_DUE, hasRef: () => false, refresh: () => NEVER_DUE };

/**
 * Work that may begin in the warm-up, by Node.js's names (the documentation of `async_hooks`): that of this thread alone. A signal's handler
 * only listens, and the histogram of the event loop's delay calls nothing.
 */
const OWN_WORK = new Set([
  'PROMISE',
  'TickObject',
  'Immediate',
  'Microtask',
  'AsyncGenerator',
  'STREAM_END_OF_STREAM',
  'SIGNALWRAP',
  'ELDHISTOGRAM',
  'RANDOMBYTESREQUEST',
]);

/** A process that printed nothing and ended with status 0. Its events come in the order of one that ends by itself. */
class EndedProcess extends EventEmitter {
  readonly pid = 1;
  readonly stdin = null;
  readonly stdout = Readable.from([]);
  readonly stderr = Readable.from([]);
  readonly stdio = [this.stdin, this.stdout, this.stderr];
  readonly exitCode = 0;
  readonly signalCode = null;

  constructor() {
    super();
    setImmediate(() => {
      this.emit('spawn');
      this.emit('exit', this.exitCode, this.signalCode);
      setImmediate(() => this.emit('close', this.exitCode, this.signalCode));
    });
  }

  kill(): boolean {
    return false;
  }
}

/** `require` with processes that end at once. */
export function standingStill(load: (name: string) => unknown): (name: string) => unknown {
  return (name) =>
    name === 'node:child_process' ? { ...(load(name) as object), spawn: () => new EndedProcess() } : load(name);
}

/** From now on no time passes in this process, and nothing is printed. The result says which work waited for the machine nevertheless. */
export function standStill(): () => ReadonlySet<string> {
  performance.now = () => 0;
  const moment = Date.now();
  Date.now = () => moment;
  Object.assign(globalThis, { setTimeout: () => NEVER_DUE, setInterval: () => NEVER_DUE });
  for (const name of ['stdout', 'stderr'] as const) {
    Object.defineProperty(process, name, { value: new Writable({ write: (_chunk, _encoding, done) => done() }) });
  }
  const waited = new Set<string>();
  createHook({
    init(_id, type) {
      if (!OWN_WORK.has(type)) waited.add(type);
    },
  }).enable();
  return () => waited;
}
