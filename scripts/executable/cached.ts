/**
 * Compiles a program for `boot.ts`: runs it, so that the functions that a start calls are compiled, and writes V8's compiled code.
 * V8 takes the code only with the same text, its own version and the same flags, so this runs with the flags of the executable.
 *
 *   node cached.mjs PROGRAM OUTPUT
 *
 * `cached.mjs` is the bundle of this file: with the executable's flags Node.js cannot strip types.
 */

import { createHook } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';
import { Script } from 'node:vm';
import { nodeObject, serviceOf, sliceOf } from '../../test/bench/cluster.ts';
import { listBytes } from '../../test/helpers/cluster/api/api-protobuf.ts';
import type { Program } from './program.ts';
import type { Answers, warmUp } from './warm-up.ts';

/*
 * The surroundings of the warm-up do not depend on the machine: no time passes, a process ends as soon as it starts, and nothing is
 * printed. V8 writes functions in the order of their first calls. If that order followed a timer, a process or a file, it would follow the
 * load of the machine, and two builds would differ.
 */

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
function standingStill(load: (name: string) => unknown): (name: string) => unknown {
  return (name) =>
    name === 'node:child_process' ? { ...(load(name) as object), spawn: () => new EndedProcess() } : load(name);
}

/** From now on no time passes in this process, and nothing is printed. The result says which work waited for the machine nevertheless. */
function standStill(): () => ReadonlySet<string> {
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

const [program = '', output = ''] = process.argv.splice(2);
process.argv.push('version');
const script = new Script(readFileSync(program, 'latin1'), { filename: 'slicewire.js' });
const module: { exports: { readonly warmUp?: typeof warmUp } } = { exports: {} };
const run: Program = script.runInThisContext();
const given = answers();
const waited = standStill();
run(standingStill(process.getBuiltinModule), module, module.exports);
await module.exports.warmUp?.(given);
const [...outside] = waited();
if (outside.length > 0) {
  throw new Error(
    `the warm-up waits for ${outside.join(', ')}: the order of the compiled code would follow the machine's load`,
  );
}
writeFileSync(output, script.createCachedData());
process.exit(0);

/** A small cluster of each kind of Service of the benchmark. */
function answers(): Answers {
  const shape = { services: 40, endpoints: 3 };
  const numbers = Array.from({ length: shape.services }, (_, n) => n);
  const metadata = { resourceVersion: '1' };
  const list = (kind: string, apiVersion: string, objects: readonly object[]) =>
    Buffer.concat(listBytes({ kind, apiVersion, metadata }, objects as never));
  return {
    services: list(
      'ServiceList',
      'v1',
      numbers.map((n) => serviceOf(shape, n)),
    ),
    endpointslices: list(
      'EndpointSliceList',
      'discovery.k8s.io/v1',
      numbers.map((n) => sliceOf(shape, n, 0)),
    ),
    nodes: Buffer.from(JSON.stringify({ kind: 'NodeList', apiVersion: 'v1', metadata, items: [nodeObject()] })),
  };
}
