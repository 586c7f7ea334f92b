/** The API server of the benchmark (`server.ts`), seen from its parent. */
import { fileURLToPath } from 'node:url';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import type { RealServer } from '../helpers/cluster/api/real-api-server.ts';
import type { ClusterShape } from './cluster.ts';
import { InsideProcess } from './inside.ts';
import type { Churn, ServerAnswer, ServerCommand, SliceChange } from './server-protocol.ts';

const PROGRAM = fileURLToPath(new URL('./server.ts', import.meta.url));
const REAL_PROGRAM = fileURLToPath(new URL('./real-server.ts', import.meta.url));

/** The API server of `server.ts`. */
export const MADE_UP = 'made up';

let real: RealServer | undefined;

/** Every API server that is started from now on is the real one instead of the made-up one; undefined: the made-up one. */
export function useRealServer(paths: RealServer | undefined): void {
  real = paths;
}

/** `made up`, or the versions of the real one. */
export async function serverVersion(): Promise<string> {
  if (real === undefined) return MADE_UP;
  const said = async (file: string) => {
    const { stdout, stderr } = await realCommands.run({ file, args: ['--version'] }, new AbortController().signal);
    return /\d+\.\d+\.\d+/.exec(stdout || stderr)?.[0] ?? 'of unknown version';
  };
  return `kube-apiserver ${await said(real.kubeApiserver)}, etcd ${await said(real.etcd)}`;
}

export class ServerProcess {
  readonly #process: InsideProcess<ServerCommand, ServerAnswer, never>;
  /** Path of a kubeconfig that leads to it, from within its namespace. */
  readonly kubeconfig: string;

  /** Resolves when it has all objects and listens on the loopback of the namespace. Stop it with `stop()`. */
  static async start(lab: Lab, shape: ClusterShape, namespace = 'node'): Promise<ServerProcess> {
    const args = [JSON.stringify(shape), ...(real === undefined ? [] : [JSON.stringify(real)])];
    const program = real === undefined ? PROGRAM : REAL_PROGRAM;
    const inside = new InsideProcess<ServerCommand, ServerAnswer, never>({ lab, namespace, program, args });
    try {
      return new ServerProcess(inside, (await inside.ask({ kind: 'ready' })).kubeconfig);
    } catch (error) {
      await inside.stop();
      throw error;
    }
  }

  private constructor(inside: InsideProcess<ServerCommand, ServerAnswer, never>, kubeconfig: string) {
    this.#process = inside;
    this.kubeconfig = kubeconfig;
  }

  /** Replace the last endpoint of the n-th Service by one that it never had: `lastAddress(shape, n, { turn })`. */
  async put(n: number, turn: number): Promise<SliceChange> {
    const [change] = (await this.#process.ask({ kind: 'put', n, turn })).changes;
    if (change === undefined) throw new Error('nothing was changed');
    return change;
  }

  /**
   * Change one endpoint of one Service after another (`churnStep`), evenly in time. Resolves after the last. Where a
   * Service has its turn again before the agent wrote the last one, that one's address is never in the kernel.
   */
  async churn(churn: Churn): Promise<readonly SliceChange[]> {
    return (await this.#process.ask({ kind: 'churn', ...churn })).changes;
  }

  async stop(): Promise<void> {
    await this.#process.stop();
  }
}
