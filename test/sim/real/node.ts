/** A real kernel for comparisons: a network namespace of its own, with sockets of nftables and the tools of iptables. */
import { NetlinkSocket } from '../../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../../native/nfnetlink.ts';
import { decodeGeneration, generationRequest } from '../../../native/nftables.ts';
import { type Command, type CommandResult, realCommands } from '../../../src/kernel/commands.ts';
import { transportsIn } from '../../helpers/kernel/namespace-sockets.ts';

const NEVER = new AbortController().signal;
const LONGEST = 16 * 1024 * 1024;

export class RealNode {
  readonly #name: string;
  readonly #sockets = new Map<number, NetlinkSocket>();
  readonly #asking: NetlinkSocket;

  private constructor(name: string) {
    this.#name = name;
    this.#asking = this.#open();
  }

  static async make(name: string): Promise<RealNode> {
    await mustRun('ip', 'netns', 'add', name);
    return new RealNode(name);
  }

  /** Of the ruleset. */
  get generation(): number {
    return this.#asking.ask(generationRequest(), decodeGeneration) ?? 0;
  }

  /** For listings. */
  get asking(): NetlinkSocket {
    return this.#asking;
  }

  /** The socket that stands for this port of the simulated kernel. */
  socket(port: number): NetlinkSocket {
    const known = this.#sockets.get(port) ?? this.#open();
    this.#sockets.set(port, known);
    return known;
  }

  closeSocket(port: number): void {
    this.#sockets.get(port)?.close();
    this.#sockets.delete(port);
  }

  run({ file, args, input }: Command): Promise<CommandResult> {
    const inside = [`--net=/run/netns/${this.#name}`, file, ...args];
    return realCommands.run({ file: 'nsenter', args: inside, ...(input === undefined ? {} : { input }) }, NEVER);
  }

  async remove(): Promise<void> {
    this.#asking.close();
    for (const socket of this.#sockets.values()) socket.close();
    await mustRun('ip', 'netns', 'delete', this.#name);
  }

  #open(): NetlinkSocket {
    return new NetlinkSocket(transportsIn(this.#name)(NETLINK_NETFILTER, LONGEST));
  }
}

async function mustRun(file: string, ...args: string[]): Promise<void> {
  const { exitCode, stderr } = await realCommands.run({ file, args }, NEVER);
  if (exitCode !== 0) throw new Error(`${file} ${args.join(' ')}: ${stderr}`);
}
