/** IPVS mode in a namespace of the lab, on the real kernel. */
import { release } from 'node:os';
import { ipvsKernelSettings } from '../../src/agent/mode-settings.ts';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { type CommandRunner, realCommands } from '../../src/kernel/commands.ts';
import { IptablesTools } from '../../src/kernel/iptables-tools.ts';
import type { IpvsKernel } from '../../src/kernel/ipvs-kernel.ts';
import { ipvsQuestions, openIpvsKernel } from '../../src/kernel/ipvs-open.ts';
import type { Sysctls } from '../../src/kernel/sysctls.ts';
import { ipvsMode, ipvsPredecessor } from '../../src/proxy/modes/ipvs/index.ts';
import type { IpvsSettings } from '../../src/proxy/modes/ipvs/static-chains.ts';
import type { Mode } from '../../src/proxy/modes/mode.ts';
import type { IpvsNodeSettings } from '../../src/proxy/modes/virtual-servers/node-parts.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { DEFAULT_NODE_SETTINGS, defaultIpvsSettings } from '../helpers/proxy/ipvs-settings.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

export interface IpvsInOptions {
  readonly settings?: (family: Family) => Partial<IpvsSettings>;
  readonly node?: Partial<IpvsNodeSettings>;
  readonly isPredecessor?: boolean;
  readonly families?: readonly Family[];
  /** Instead of those of the namespace. */
  readonly commands?: CommandRunner;
  /** Kernel settings; those of the namespace by default, each with a process of its own. */
  readonly sysctls?: Sysctls;
  readonly servesExternalIPs?: boolean | undefined;
}

/** Write the kernel settings of the mode once, and hold them for right from then on. */
export async function settledSysctls(lab: Lab): Promise<Sysctls> {
  const wanted = ipvsKernelSettings(PLAIN, release());
  for (const [name, value] of wanted) await sysctlsIn(lab, 'node').write(name, value);
  return { read: (name) => Promise.resolve(wanted.get(name)), write: () => Promise.reject(new Error('settled')) };
}

const PLAIN = { ...DEFAULT_NODE_SETTINGS, scheduler: 'rr', excludeCidrs: [], strictArp: false } as const;

export async function kernelIn(lab: Lab, name: string): Promise<IpvsKernel & { close(): void }> {
  return await openIpvsKernel(realCommands, NEVER, { openTransport: transportsIn(lab.namespace(name)) });
}

/** The mode over a kernel that was opened. */
export function modeIn(lab: Lab, kernel: IpvsKernel, options: IpvsInOptions = {}): Mode {
  const { settings, node, isPredecessor = false, families = FAMILIES, sysctls, commands } = options;
  const nodeSettings = { ...PLAIN, ...node };
  const shared = {
    families: families.map((family) => ({
      settings: { ...defaultIpvsSettings(family), ...settings?.(family) },
      tools: new IptablesTools(commands ?? commandsIn(lab, 'node'), family, 'auto'),
    })),
    kernel,
    sysctls: sysctls ?? sysctlsIn(lab, 'node'),
  };
  if (isPredecessor) return ipvsPredecessor(shared);
  const wantedSettings = ipvsKernelSettings(nodeSettings, release());
  const questions = ipvsQuestions(() => kernelIn(lab, 'node'));
  return ipvsMode({ ...shared, questions, node: nodeSettings, wantedSettings });
}

export function rigIn(lab: Lab, kernel: IpvsKernel, options: IpvsInOptions = {}): Rig {
  const { servesExternalIPs } = options;
  return new Rig({ commands: commandsIn(lab, 'node'), mode: modeIn(lab, kernel, options), servesExternalIPs });
}
