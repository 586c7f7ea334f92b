/** Removing what was written, part by part. */
import { causeOf } from '../model/cause.ts';
import { CleanupIncomplete } from './mode.ts';

export interface Part {
  /** As people are told of it. */
  readonly name: string;
  /** Returns what was removed, in words. */
  readonly remove: () => Promise<readonly string[]>;
}

/** Returns what was removed. What cannot be does not keep the rest: it is told in the end, by CleanupIncomplete. */
export async function cleanUp(parts: readonly Part[], signal: AbortSignal): Promise<readonly string[]> {
  const removed: string[] = [];
  const problems: string[] = [];
  for (const { name, remove } of parts) {
    try {
      removed.push(...(await remove()));
    } catch (error) {
      if (signal.aborted) throw error;
      problems.push(`${name}: ${causeOf(error)}`);
    }
  }
  if (problems.length > 0) throw new CleanupIncomplete(`not all could be removed: ${problems.join('; ')}`);
  return removed;
}
