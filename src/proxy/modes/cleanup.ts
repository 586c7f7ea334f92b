/** Remove the objects of a mode, part by part. */
import { causeOf } from '../../base/cause.ts';
import { CleanupIncomplete } from './mode.ts';

export interface CleanupPart {
  /** The name of the part in messages. */
  readonly name: string;
  /** Returns what was removed, in words. */
  readonly remove: () => Promise<readonly string[]>;
}

/** Returns what was removed. A part that fails does not stop the others; at the end CleanupIncomplete names it. */
export async function cleanUp(parts: readonly CleanupPart[], signal: AbortSignal): Promise<readonly string[]> {
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
  if (problems.length > 0) throw new CleanupIncomplete(`some objects could not be removed: ${problems.join('; ')}`);
  return removed;
}
