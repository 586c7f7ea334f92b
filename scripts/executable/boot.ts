/**
 * The first code of the executable. It runs the program from compiled code that the build made of it (`cached.ts`), so that a start
 * compiles almost nothing. client-node, which few kubeconfigs need, is compiled when it is asked for.
 */
import { getRawAsset } from 'node:sea';
import { Script } from 'node:vm';
import { ASSETS, CLIENT_NODE, type Program } from './program.ts';

const text = (asset: string) => Buffer.from(getRawAsset(asset)).toString('latin1');

let clientNode: object | undefined;

/** Node.js's modules, and the one package that is not in the program. */
function load(name: string): unknown {
  if (name !== CLIENT_NODE) return require(name);
  clientNode ??= exportsOf(new Script(text(ASSETS.clientNode), { filename: 'client-node.js' }));
  return clientNode;
}

function exportsOf(script: Script): object {
  const program: Program = script.runInThisContext();
  const module = { exports: {} };
  program(load, module, module.exports);
  return module.exports;
}

const cachedData = Buffer.from(getRawAsset(ASSETS.compiled));
const script = new Script(text(ASSETS.program), { filename: 'slicewire.js', cachedData });
if (script.cachedDataRejected === true)
  process.emitWarning('the compiled code in the executable is of no use: the start takes longer');
exportsOf(script);
