/** Established SCTP associations through a Service, over the kernel's own sockets, for kernels that have them. */
import { fileURLToPath } from 'node:url';
import { type Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { type Child, realCommands, startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const SOCKETS = fileURLToPath(new URL('../helpers/cli/lab/sctp-sockets.ts', import.meta.url));
const DIAMETER = '10.96.0.38';
const PORT = 3868;
const POD_PORT = 3869;
/** Milliseconds: the machine may be emulated, and the kernel forgets an association some seconds after its end. */
export const PATIENCE = 300_000;

/** A Service before these pods, each of which answers with its number. */
export function diameter(...pods: readonly number[]): object[] {
  const ports = [{ name: '', port: POD_PORT, protocol: 'SCTP' }];
  return [
    service({
      name: 'diameter',
      spec: { clusterIP: DIAMETER, ports: [{ port: PORT, targetPort: POD_PORT, protocol: 'SCTP' }] },
    }),
    slice({ name: 'diameter-1', service: 'diameter', ports, endpoints: pods.map((n) => podAddress(n).v4) }),
  ];
}

/** Servers at pods 1 and 2, and clients at pod 3. */
export class SctpPeers {
  readonly #lab: Lab;
  readonly #running: Child[] = [];

  /** The lab has three pods. */
  static async serve(lab: Lab): Promise<SctpPeers> {
    await realCommands.run({ file: 'modprobe', args: ['sctp'] }, NEVER);
    const peers = new SctpPeers(lab);
    for (const n of [1, 2]) {
      const serving = peers.#program(`pod-${n}`, 'serve', podAddress(n).v4, String(POD_PORT), String(n));
      await serving.line();
    }
    return peers;
  }

  private constructor(lab: Lab) {
    this.#lab = lab;
  }

  async stop(): Promise<void> {
    for (const child of this.#running) await child.stop();
  }

  /** Associations of a client; `ask` resolves with the number of the pod that answers on each. */
  async associations(count: number) {
    const client = this.#program('pod-3', 'hold', DIAMETER, String(PORT), String(count));
    const first = JSON.parse(await client.line()) as string[];
    const ask = async () => {
      client.child.send('again');
      return JSON.parse(await client.line()) as string[];
    };
    return { first, ask, end: () => client.child.stop() };
  }

  /** A program over SCTP sockets, and its lines as they come. */
  #program(at: string, ...args: string[]) {
    const lines: string[] = [];
    let taken = 0;
    const inside = this.#lab.inside(at, process.execPath, [SOCKETS, ...args]);
    const onLine = (line: string) => void lines.push(line);
    const child = startChild({ ...inside, onLine, onErrorLine: onLine });
    this.#running.push(child);
    return {
      child,
      async line(): Promise<string> {
        await until(`a line of ${args.join(' ')}`, () => lines.length > taken, PATIENCE);
        taken += 1;
        return lines[taken - 1] ?? '';
      },
    };
  }
}
