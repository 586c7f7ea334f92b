/** `slicewire shadow`: watches kube-proxy on this node, and writes nothing. */
import { componentInfo } from '../agent/component-info.ts';
import { prepare } from '../agent/load-config.ts';
import { readPageFile } from '../agent/page-files.ts';
import { AGENT_FLAGS } from '../config/agent-flags.ts';
import type { Flags } from '../config/flags.ts';
import { collectSoon, growSparingly } from '../kernel/memory.ts';
import type { Hangups } from '../kernel/process.ts';
import { shadowFlags } from '../shadow/shadow-flags.ts';
import { runShadow } from '../shadow/shadow-process.ts';

/** Resolves with the exit status after the signal aborted. */
export async function shadowCommand(flags: Flags, signal: AbortSignal, hangups: Hangups): Promise<number> {
  growSparingly();
  collectSoon();
  const { config, log } = await prepare(flags, undefined, shadowFlags(flags));
  hangups.listen(() => log.info('SIGHUP: nothing to reload: a shadow looks at its file before each round'));
  const component = componentInfo(flags, AGENT_FLAGS);
  await runShadow({ flags, config, log, signal, component, readPage: readPageFile });
  return 0;
}
