/** `slicewire cleanup`: removes the rules of slicewire and kube-proxy in every mode, and nothing else. */
import { realPlatform } from '../agent/platform.ts';
import { removeAll } from '../agent/predecessors.ts';
import type { Config } from '../config/config.ts';
import { CleanupIncomplete } from '../proxy/modes/mode.ts';

export interface CleanupOptions {
  readonly config: Config;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

/** Resolves with the exit status 0. Throws CleanupIncomplete when something could not be removed, after what may go without it was. */
export async function cleanupCommand({ config, signal, print }: CleanupOptions): Promise<number> {
  const { removed, problems } = await removeAll(config, signal, realPlatform);
  for (const line of removed) print(`- ${line}`);
  if (problems.length > 0) throw new CleanupIncomplete(problems.join('; '));
  print(
    removed.length === 0
      ? 'nothing to remove'
      : `${removed.length} ${removed.length === 1 ? 'object' : 'objects'} removed`,
  );
  return 0;
}
