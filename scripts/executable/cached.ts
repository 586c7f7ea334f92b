/**
 * Compiles a program for `boot.ts`: runs it, so that the functions that a start calls are compiled, and writes V8's compiled code.
 * V8 takes the code only with the same text, its own version and the same flags, so this runs with the flags of the executable.
 *
 *   node cached.mjs PROGRAM OUTPUT
 *
 * `cached.mjs` is the bundle of this file: with the executable's flags Node.js cannot strip types.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { Script } from 'node:vm';
import { nodeObject, serviceOf, sliceOf } from '../../test/bench/cluster.ts';
import { listBytes } from '../../test/helpers/cluster/api/api-protobuf.ts';
import type { Program } from './program.ts';
import { standingStill, standStill } from './standstill.ts';
import type { Answers, warmUp } from './warm-up.ts';

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
