/** Loaded before the simulator (`node --import`): puts one mutant into the code while it is loaded. */
import { registerHooks } from 'node:module';
import { MUTANTS } from './list.ts';

const name = process.env.SIM_MUTANT ?? '';
const mutant = MUTANTS.find((one) => one.name === name);
if (mutant === undefined) throw new Error(`SIM_MUTANT=${name}: there is no such mutant`);
const { file, from, to } = mutant;
const target = new URL(`../../../${file}`, import.meta.url).href;

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (url !== target) return loaded;
    const parts = String(loaded.source).split(from);
    if (parts.length !== 2) throw new Error(`${file} has the code of ${name} ${parts.length - 1} times`);
    return { ...loaded, source: parts.join(to) };
  },
});
