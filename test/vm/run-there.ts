/** Run a program where the kernel has IPVS: here, or in the virtual machine (machine/README.md). */
import { fileURLToPath } from 'node:url';
import { startChild } from '../../src/host/child.ts';
import { realCommands } from '../../src/host/commands.ts';
import { NEVER } from '../helpers/rig.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** What a line of results begins with: other programs write to the console as well. */
export type Mark = `@${string} `;

export interface RunThere<Told> {
  /** Arguments of Node.js. */
  readonly args: readonly string[];
  readonly mark: Mark;
  /** Called for each line of results as it comes. */
  readonly tell: (told: Told) => void;
}

export interface Ran {
  readonly status: number | undefined;
  /** The last lines of all else that was said. */
  readonly said: readonly string[];
  readonly isMachine: boolean;
}

const MOST_LINES = 60;

export async function runThere<Told>({ args, mark, tell }: RunThere<Told>): Promise<Ran> {
  const asked = await realCommands.run({ file: 'sh', args: [here('../../scripts/has-ipvs.sh')] }, NEVER);
  const isMachine = asked.exitCode !== 0;
  const machine = isMachine ? ['sh', here('./machine/machine.sh'), 'run'] : [];
  const [file = '', ...rest] = [...machine, process.execPath, ...args];
  const said: string[] = [];
  const child = startChild({
    file,
    args: rest,
    onLine: (line) => {
      const at = line.indexOf(mark);
      if (at < 0) said.push(line);
      else tell(JSON.parse(line.slice(at + mark.length)) as Told);
    },
    onErrorLine: (line) => said.push(line),
  });
  return { status: await child.ended, said: said.slice(-MOST_LINES), isMachine };
}
