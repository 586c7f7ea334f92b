/** A mount whose server never answers, as NFS is when its server is gone. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('dead-mount.c', import.meta.url));

/** Why there can be none on this machine; undefined: there can. */
export const noDeadMount = existsSync('/dev/fuse') ? undefined : 'there is no /dev/fuse on this machine';

/** Mount it over a folder; the result takes it away again. */
export async function deadMount(folder: string): Promise<() => Promise<void>> {
  const build = await mkdtemp(join(tmpdir(), 'dead-mount-'));
  const program = join(build, 'dead-mount');
  const compiled = spawnSync('gcc', ['-o', program, SOURCE], { encoding: 'utf8' });
  if (compiled.status !== 0) throw new Error(`gcc: ${compiled.stderr}`);
  const child = spawn(program, [folder], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const [said] = await Promise.race([once(child.stdout, 'data'), ended]);
  await rm(build, { recursive: true });
  if (!String(said).startsWith('mounted')) throw new Error('the file system could not be mounted');
  return async () => {
    child.stdin.end();
    await ended;
  };
}
