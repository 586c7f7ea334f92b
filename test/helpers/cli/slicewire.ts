/**
 * slicewire as tests start it: the executable that SLICEWIRE_PROGRAM names, which a tier of tests builds once (scripts/test-run.ts), or else
 * its sources. The executable starts in half of the time.
 */
import { fileURLToPath } from 'node:url';
import { AgentProcess } from '../../../src/cli/lab/agent-process.ts';
import type { Lab } from '../../../src/cli/lab/lab.ts';
import { REMOVED_VARIABLES } from '../../../src/kernel/environment.ts';
import { SOURCE_OPTIONS } from '../../../src/kernel/process.ts';

const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));

/** A program, and the arguments that come before all others. */
export type Program = readonly [file: string, ...args: string[]];

/** The executable starts itself once more where it finds one of these; those of the tests are for their own processes. A test may start slicewire with an empty PATH. */
const NOT_PASSED_ON = [...REMOVED_VARIABLES.keys()].flatMap((name) => ['-u', name]);

/** The sources, with more options of Node.js. */
export function fromSources(...options: readonly string[]): Program {
  return [process.execPath, ...SOURCE_OPTIONS, ...options, MAIN];
}

/** An executable of slicewire, such as one of another version. */
export function executable(file: string): Program {
  return ['/usr/bin/env', ...NOT_PASSED_ON, file];
}

export const SLICEWIRE: Program = process.env.SLICEWIRE_PROGRAM
  ? executable(process.env.SLICEWIRE_PROGRAM)
  : fromSources();

/** The same for `startChild`. */
export function slicewire(...args: readonly string[]): { file: string; args: string[] } {
  const [file, ...before] = SLICEWIRE;
  return { file, args: [...before, ...args] };
}

/** `slicewire ARGS` as a process in the namespace of the node, or in that of another host. */
export function startAgent(lab: Pick<Lab, 'inside'>, own: readonly string[], at?: string): AgentProcess {
  const { file, args } = slicewire(...own);
  return new AgentProcess(lab, args, file, at);
}
