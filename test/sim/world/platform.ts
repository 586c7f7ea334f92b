/** The world of a simulated process, in the place of the real one. */
import type { Reply } from '../../../src/agent/failover/suspicion.ts';
import type { Files, Platform } from '../../../src/agent/platform.ts';
import { type Address, endpointText } from '../../../src/base/address.ts';
import type { Connect } from '../../../src/cluster/api/transport.ts';
import type { SimProcess } from '../engine/process.ts';
import { NOBODY } from '../engine/time.ts';
import { fileFailure } from '../kernel/failures.ts';
import type { SimKernel } from '../kernel/kernel.ts';
import type { SimDisk } from './disk.ts';
import type { SimLoopback } from './loopback.ts';
import type { SimNames } from './names.ts';
import type { SimPorts } from './ports.ts';

export interface World {
  readonly kernel: SimKernel;
  readonly api: { connect(process: SimProcess): Connect };
  readonly files: { of(process: SimProcess): Omit<Files, 'recordings'> };
  readonly disk: SimDisk;
  readonly ports: SimPorts;
  readonly names: SimNames;
  readonly network: SimNetwork;
  readonly loopback: SimLoopback;
}

/** The machines behind the node. */
export interface SimNetwork {
  /** Whether nothing answers at an address. */
  isSilent(address: Address): boolean;
}

/** The world as a process sees it. Each of its calls is numbered, and may fail. */
export function simPlatform(
  process: SimProcess,
  { kernel, api, files, disk, ports, names, network, loopback }: World,
): Platform {
  return {
    commands: kernel.iptables.commands(process),
    machine: kernel.machine.facts(process),
    kernel: kernel.calls(process),
    files: { ...files.of(process), recordings: disk.of(process) },
    process: {
      listen: ports.listen(process),
      relay: loopback.of(process),
      names: names.of(process),
      probe: ({ address, port }, milliseconds) =>
        process.call<Reply>({
          what: `connect to ${endpointText(address, port)}`,
          effect: async () => {
            const isSilent = network.isSilent(address);
            await process.time.pause(isSilent ? milliseconds : 1, { owner: NOBODY });
            return isSilent ? 'silence' : 'answer';
          },
          fail: () => 'unknown',
          mayOutlive: true,
        }),
      datapath: {
        reach: () => Promise.resolve({ kind: 'failed', cause: 'simulated nodes have no such sockets' }),
        hasRoute: () => Promise.resolve(false),
        answer: () => Promise.reject(new Error('simulated nodes have no such sockets')),
        joinPod: () => Promise.reject(new Error('simulated nodes have no such sockets')),
      },
      setOomScore: (score) =>
        process.call({
          what: `set the OOM score to ${score}`,
          effect: () => undefined,
          fail: (variant) => {
            throw fileFailure('/proc/self/oom_score_adj', 'write', variant);
          },
        }),
      releaseMemory: () => undefined,
    },
    connect: api.connect(process),
  };
}
