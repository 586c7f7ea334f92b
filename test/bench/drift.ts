/**
 * Drift: from the commit of another program that deletes one rule or one element, or many, to the commit of the agent that repairs it. The
 * floor is the bare tool that writes exactly what is missing, from its start to its commit. `node test/bench/drift.ts` measures it alone.
 */
import { fileURLToPath } from 'node:url';
import { Lab } from '../../src/cli/lab/lab.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { type Aim, median, ms, quantile, size, table } from './text.ts';
import { NEVER } from './trial.ts';

export interface DriftOptions {
  readonly mode: 'nftables' | 'iptables';
  readonly services: number;
  readonly endpoints: number;
  readonly tries: number;
}

export interface DriftResult extends DriftOptions {
  /** Milliseconds of each try. */
  readonly times: readonly number[];
  readonly floor: readonly number[];
  /** Of commands that delete many. */
  readonly many: readonly {
    readonly command: string;
    readonly times: readonly number[];
    readonly floor: readonly number[];
  }[];
}

export const DRIFT_SHAPES: readonly DriftOptions[] = (['nftables', 'iptables'] as const).map((mode) => {
  return { mode, services: 10_000, endpoints: 5, tries: 100 };
});
/** Milliseconds; the tools of iptables take longer. */
const AIMS = { nftables: 100, iptables: 300 };
const INSIDE = fileURLToPath(new URL('./drift-inside.ts', import.meta.url));

export async function measureDrift(options: DriftOptions): Promise<DriftResult> {
  const { mode, services, endpoints, tries } = options;
  const lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
  try {
    const args = [INSIDE, mode, `${services}`, `${endpoints}`, `${tries}`];
    const { exitCode, stdout, stderr } = await shellCommands.run(lab.inside('node', process.execPath, args), NEVER);
    if (exitCode !== 0) throw new Error(stderr);
    return { ...options, ...(JSON.parse(stdout) as Pick<DriftResult, 'times' | 'floor' | 'many'>) };
  } finally {
    await lab.remove();
  }
}

export function driftAims(all: readonly DriftResult[]): Aim[] {
  return all.map((result) => {
    const found = quantile(result.times, 0.99);
    return {
      what: `from another program's commit to repaired, 99 of 100 (${result.mode} mode)`,
      at: size(result),
      aim: ms(AIMS[result.mode]),
      found: ms(found),
      beside: `the bare tool ${ms(quantile(result.floor, 0.99))}`,
      isReached: found < AIMS[result.mode],
    };
  });
}

export function driftSection(all: readonly DriftResult[]): string {
  const rows = all.map((result) => [
    result.mode,
    size(result),
    ...[0.5, 0.99, 1].map((q) => ms(quantile(result.times, q), 1)),
    `${ms(median(result.floor), 1)}`,
    `${ms(quantile(result.floor, 0.99), 1)}`,
  ]);
  const many = all.flatMap((result) =>
    result.many.map(({ command, times, floor }) => [
      ...[result.mode, size(result), `\`${command}\``],
      ...[median(times), Math.max(...times), median(floor), Math.max(...floor)].map((time) => ms(time)),
    ]),
  );
  return `## Drift

Another program deletes one element or one rule; the kernel's notice tells the agent, which reads what was touched and writes it again.
The time is from its commit to the agent's, of ${all[0]?.tries ?? 0} tries.
Floor: the bare tool (\`nft\`, \`iptables-restore\`) writes exactly what is missing, from its start to its commit.

${table(['mode', 'N × E', 'median', '99 of 100', 'longest', 'floor, median', 'floor, longest'], rows)}

Commands that delete many: from their commit to the end of the agent's sync, of three tries.
Floor: the bare tool writes again what the command deleted, all at once, and decides nothing.

${table(['mode', 'N × E', 'command', 'median', 'longest', 'floor, median', 'floor, longest'], many)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [mode = 'nftables', services = '10000', tries = '20'] = process.argv.slice(2);
  const options = {
    mode: mode === 'iptables' ? mode : 'nftables',
    services: Number(services),
    endpoints: 5,
    tries: Number(tries),
  } as const;
  process.stdout.write(`${driftSection([await measureDrift(options)])}\n`);
}
