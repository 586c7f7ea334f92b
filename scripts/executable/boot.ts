/**
 * The first code of the executable. It runs the program from compiled code that the build made of it (`cached.ts`), so that a start
 * compiles almost nothing. client-node, which few kubeconfigs need, and ws, which the plugin of kubectl needs, are compiled when they are asked for.
 */
import { getRawAsset } from 'node:sea';
import { Script } from 'node:vm';
import { ASSETS, LATE, type Program } from './program.ts';

const text = (asset: string) => Buffer.from(getRawAsset(asset)).toString('latin1');

const loaded = new Map<string, object>();

/** Node.js's modules, and the packages that are not in the program. */
function load(name: string): unknown {
  const asset = Object.hasOwn(LATE, name) ? LATE[name] : undefined;
  if (asset === undefined) return require(name);
  const module = loaded.get(name) ?? exportsOf(new Script(text(asset), { filename: `${asset}.js` }));
  loaded.set(name, module);
  return module;
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
  process.emitWarning('V8 refused the compiled code of the executable, so the start takes longer');
exportsOf(script);
