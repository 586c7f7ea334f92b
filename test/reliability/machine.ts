/** The machine that a runner measures on, for docs/reliability.md: of its kernel the version, without the name of the build. */
import { cpus, release, totalmem } from 'node:os';

export function machineText(): string {
  return `${cpus().length} processors, ${Math.round(totalmem() / 2 ** 30)} GB, Linux ${release().replace(/-.*/, '')}`;
}
