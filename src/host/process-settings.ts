/** Settings of this process itself. */
import { writeFile } from 'node:fs/promises';

/** What the kernel ends first when memory is short: -1000 never, 1000 first. Throws when it may not be set. */
export async function setOomScore(score: number): Promise<void> {
  await writeFile('/proc/self/oom_score_adj', String(score));
}
