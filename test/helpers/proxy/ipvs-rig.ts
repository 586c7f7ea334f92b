/** IPVS mode over a kernel in memory. */

import { type Address, FAMILIES, type Family } from '../../../src/base/address.ts';
import type { ChainProbe } from '../../../src/kernel/chain-probe.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import { ipvsMode, ipvsPredecessor } from '../../../src/proxy/modes/ipvs/index.ts';
import type { IpvsSettings } from '../../../src/proxy/modes/ipvs/static-chains.ts';
import type { OnResized, OnSetKept } from '../../../src/proxy/modes/virtual-servers/apply.ts';
import type { IpvsNodeSettings } from '../../../src/proxy/modes/virtual-servers/node-parts.ts';
import type { Plan } from '../../../src/proxy/reconcile/step.ts';
import { FakeIptables } from '../kernel/fake-iptables.ts';
import { FakeIpvs } from '../kernel/fake-ipvs.ts';
import { DEFAULT_NODE_SETTINGS, defaultIpvsSettings } from './ipvs-settings.ts';
import { fakeSysctls, type GrowingClock, Rig } from './rig.ts';

export interface IpvsRigOptions {
  readonly settings?: (family: Family) => Partial<IpvsSettings>;
  readonly node?: Partial<IpvsNodeSettings>;
  readonly families?: readonly Family[];
  /** Uses these kernels, as a new agent does after a restart. */
  readonly kernel?: FakeIpvs;
  readonly iptables?: FakeIptables;
  readonly isPredecessor?: boolean;
  /** Milliseconds until refused Services are tried again; by default at every sync. */
  readonly retry?: number;
  readonly probe?: (family: Family) => ChainProbe;
  readonly servesExternalIPs?: boolean | undefined;
  readonly onPlan?: (plan: Plan) => void;
  readonly onResized?: OnResized;
  readonly onSetKept?: OnSetKept;
  readonly growing?: GrowingClock;
}

export interface IpvsRig {
  readonly kernel: FakeIpvs;
  readonly iptables: FakeIptables;
  readonly rig: Rig;
}

export const NODE_ADDRESSES: readonly string[] = ['192.168.77.2', '10.244.1.1', 'fd00:77::2', 'fd00:244:1::1'];

export function ipvsRig(options: IpvsRigOptions = {}): IpvsRig {
  const kernel = options.kernel ?? newKernel();
  const iptables = options.iptables ?? new FakeIptables();
  iptables.options = { ...iptables.options, hasSet: (name) => kernel.sets.has(name) };
  kernel.options = { ...kernel.options, isSetUsed: (name) => iptables.refersTo(name) };
  const { families = FAMILIES, settings, node, isPredecessor = false, retry = 0, onPlan = () => undefined } = options;
  const shared = {
    families: families.map((family) => ({
      settings: { ...defaultIpvsSettings(family), ...settings?.(family) },
      tools: new IptablesTools(iptables, family, 'auto'),
      probe: options.probe?.(family),
    })),
    kernel,
    sysctls: fakeSysctls(),
    onResized: options.onResized,
    onSetKept: options.onSetKept,
  };
  const mode = isPredecessor
    ? ipvsPredecessor(shared)
    : ipvsMode({
        ...shared,
        questions: kernel.questions,
        node: { ...DEFAULT_NODE_SETTINGS, ...node },
        wantedSettings: new Map(),
      });
  return {
    kernel,
    iptables,
    rig: new Rig({
      commands: iptables,
      mode,
      retry,
      servesExternalIPs: options.servesExternalIPs,
      onPlan,
      growing: options.growing,
    }),
  };
}

function newKernel(): FakeIpvs {
  const kernel = new FakeIpvs();
  for (const address of NODE_ADDRESSES) kernel.others.add(address as Address);
  return kernel;
}
