/** Settings of this process. */
import { writeFile } from 'node:fs/promises';

/** Sets the OOM-killer score: -1000 protects the process, 1000 makes it the first to be killed (proc_pid_oom_score_adj(5)). Rejects without permission. */
export async function setOomScore(score: number): Promise<void> {
  await writeFile('/proc/self/oom_score_adj', String(score));
}
