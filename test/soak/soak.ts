/**
 * A soak: the agent on a node in network namespaces, a cluster that changes all the time, restarts, writes of other programs,
 * both modes in turn, and real packets all along. Everything that it makes is removed, whatever happens.
 */
import { rm } from 'node:fs/promises';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { foundOf } from './found.ts';
import { Judge } from './judge.ts';
import { startParts } from './parts.ts';
import type { SoakResult } from './result.ts';
import { type SoakOptions, SoakRun } from './run.ts';

/** Throws when the soak itself cannot go on. What it found, good or bad, is in the result. */
export async function soak(options: SoakOptions): Promise<SoakResult> {
  const kept: { stop(): Promise<void> }[] = [];
  let lab: Lab | undefined;
  try {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 2, signal: options.signal });
    const judge = new Judge();
    const parts = await startParts({
      ...options,
      lab,
      onMoved: (moved) => judge.moved(moved),
      onProbed: (probed) => judge.probed(probed),
      keep: (one) => kept.unshift(one),
    });
    const run = await SoakRun.of(options, { lab, judge, parts });
    kept.unshift({ stop: () => run.agent.remove() });
    return foundOf(run, await run.go());
  } finally {
    for (const one of kept) await one.stop();
    await lab?.remove();
    await rm(options.folder, { recursive: true, force: true });
  }
}
