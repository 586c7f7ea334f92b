/** Run a program where the kernel has IPVS: here, or in the virtual machine (machine/README.md). */
import { fileURLToPath } from 'node:url';
import { realCommands, startChild } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** What a line of results begins with: other programs write to the console as well. */
export type Mark = `@${string} `;

/** A kernel that machine/debian.sh has fetched. */
export interface OtherKernel {
  readonly release: string;
  /** The Node.js of its platform. */
  readonly node: string;
  /** The executable that tests start. */
  readonly program: string;
}

export interface RunThere<Result> extends Results<Result> {
  /** Arguments of Node.js. */
  readonly args: readonly string[];
  /** False for a program that any kernel can run: it runs here. */
  readonly needsIpvs?: boolean;
  /** In the virtual machine with this kernel, whatever this machine's can do. */
  readonly kernel?: OtherKernel;
  /** Ends it. */
  readonly signal?: AbortSignal;
  /** Of the machine, if it is one; the script's own number unless it is said. */
  readonly processors?: number;
}

export interface RunUnderSystemd<Result> extends Results<Result> {
  readonly command: readonly string[];
  readonly timeoutSeconds: number;
}

interface Results<Result> {
  readonly mark: Mark;
  /** Called for each line of results as it comes. */
  readonly onResult: (result: Result) => void;
}

interface Ended {
  readonly status: number | undefined;
  /** The last lines of all else that was said. */
  readonly said: readonly string[];
}

export interface Ran extends Ended {
  readonly isMachine: boolean;
}

const MAX_LINES = 60;

const MACHINE = here('./machine/machine.sh');

/** Whether this machine's kernel has IPVS. */
export async function isIpvsHere(): Promise<boolean> {
  const asked = await realCommands.run({ file: 'sh', args: [here('../../scripts/has-ipvs.sh')] }, NEVER);
  return asked.exitCode === 0;
}

/** Run Node.js with these arguments where the kernel has IPVS, or in the machine with another kernel. `KUBE_PROXY` and the executables of the tests go along. */
export async function runThere<Result>({
  args,
  needsIpvs = true,
  kernel,
  processors,
  mark,
  onResult,
  signal,
}: RunThere<Result>): Promise<Ran> {
  const isMachine = kernel !== undefined || (needsIpvs && !(await isIpvsHere()));
  const settings = [
    'env',
    ...(processors === undefined ? [] : [`SLICEWIRE_VM_CPUS=${processors}`]),
    ...(kernel === undefined ? [] : [`SLICEWIRE_VM_KERNEL=${kernel.release}`]),
  ];
  const program = kernel === undefined ? process.env.SLICEWIRE_PROGRAM : kernel.program;
  const { KUBE_PROXY, SLICEWIRE_FORMER } = process.env;
  const passedOn = { KUBE_PROXY, SLICEWIRE_FORMER, SLICEWIRE_PROGRAM: program };
  const given = Object.entries(passedOn).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const machine = isMachine ? [...settings, 'sh', MACHINE, 'run', 'env', ...given] : [];
  return {
    ...(await follow([...machine, kernel?.node ?? process.execPath, ...args], { mark, onResult }, signal)),
    isMachine,
  };
}

/** Run a program in the virtual machine, always, with systemd as the first process there. */
export function runUnderSystemd<Result>({
  command,
  timeoutSeconds,
  ...results
}: RunUnderSystemd<Result>): Promise<Ended> {
  return follow(['timeout', String(timeoutSeconds), 'sh', MACHINE, 'systemd', ...command], results);
}

async function follow<Result>(
  [file = '', ...args]: readonly string[],
  { mark, onResult }: Results<Result>,
  signal?: AbortSignal,
): Promise<Ended> {
  const said: string[] = [];
  const child = startChild({
    file,
    args,
    onLine: (line) => {
      const at = line.indexOf(mark);
      if (at < 0) said.push(line);
      else onResult(JSON.parse(line.slice(at + mark.length)) as Result);
    },
    onErrorLine: (line) => said.push(line),
  });
  const stop = () => void child.stop();
  signal?.addEventListener('abort', stop, { once: true });
  const status = await child.ended;
  signal?.removeEventListener('abort', stop);
  return { status, said: said.slice(-MAX_LINES) };
}
