/** From the configuration to the mode on this machine, and to the one that it takes over from. */
import { access } from 'node:fs/promises';
import { release } from 'node:os';
import type { Config } from '../config/config.ts';
import { realCommands } from '../host/commands.ts';
import { hasServiceDevice } from '../host/devices.ts';
import type { IptablesTools } from '../host/iptables-tools.ts';
import { checkScheduler, type IpvsKernel, openIpvsKernel } from '../host/ipvs-kernel.ts';
import { interfaceAddresses } from '../host/node-facts.ts';
import type { RulesLook } from '../host/rules-look.ts';
import { realSysctls } from '../host/sysctls.ts';
import { type Address, cidrContains, type Family } from '../model/address.ts';
import { sameData } from '../model/equal.ts';
import type { NodeView } from '../model/objects.ts';
import type { IsNodeAddress } from '../model/udp-flows.ts';
import { handover } from '../modes/handover.ts';
import { iptablesMode } from '../modes/iptables/index.ts';
import { ipvsMode } from '../modes/ipvs/index.ts';
import type { IpvsSettings } from '../modes/ipvs/settings.ts';
import type { Mode } from '../modes/mode.ts';
import type { FamilySettings } from '../modes/netfilter/settings.ts';
import { ipvsKernelSettings, ipvsNodePortFilter, ipvsSettings, nodePortFilter, settingsHere } from './settings.ts';

export interface ModeInput {
  readonly config: Config;
  /** The tools of each family, and who tells whether the rules that they wrote still stand. */
  readonly members: readonly { readonly tools: IptablesTools; readonly look: RulesLook }[];
  /** Own Node as it is now. */
  readonly node: () => NodeView | undefined;
  /** Try what can only be tried by writing. */
  readonly mayTry: boolean;
  /** Whether nf_conntrack_tcp_be_liberal will be set before rules are written. */
  readonly willBeLiberal: boolean;
  readonly signal: AbortSignal;
}

export interface ModeHere {
  readonly mode: Mode;
  readonly families: readonly Family[];
  /** Let go of the kernel. */
  close(): void;
  /** Whether the settings are still those that the Node and this machine's interfaces ask for. */
  readonly isCurrent: () => Promise<boolean>;
  /** Where the servers of health check ports listen: everywhere, or on these. */
  readonly listenAddresses: (family: Family) => Promise<readonly Address[]>;
  /** Which addresses take node ports now; made anew for each sweep of flows. */
  readonly nodeAddresses: (family: Family) => Promise<IsNodeAddress>;
}

/** Throws IpvsUnusable when the kernel lacks what the mode needs. */
export async function modeHere(input: ModeInput): Promise<ModeHere> {
  return input.config.mode === 'ipvs' ? await ipvsHere(input) : await iptablesHere(input);
}

async function iptablesHere(input: ModeInput): Promise<ModeHere> {
  const { config, members, node, willBeLiberal } = input;
  const settingsNow = (family: Family) => settingsHere({ config, node: node(), family, willBeLiberal });
  const families = await Promise.all(
    members.map(async (member) => ({
      ...member,
      settings: await settingsNow(member.tools.family),
      sysctls: realSysctls,
    })),
  );
  const mode = iptablesMode(families) as Mode;
  const leaving = (await hasServiceDevice()) ? await leavingIpvs(input) : undefined;
  return hereWith(leaving === undefined ? mode : handover(mode, leaving.mode), families, {
    close: () => leaving?.close(),
    settingsNow,
    filter: nodePortFilter,
    listen: ({ nodePortAddresses }) => Promise.resolve(nodePortAddresses),
  });
}

async function ipvsHere(input: ModeInput): Promise<ModeHere> {
  const { config, mayTry, signal } = input;
  const kernel = await openIpvsKernel(realCommands, signal);
  try {
    if (mayTry) await checkScheduler(kernel, config.ipvs.scheduler, signal);
  } catch (error) {
    kernel.close();
    throw error;
  }
  const options = await ipvsOptions(input, kernel);
  const wantedSettings = ipvsKernelSettings(config.ipvs, release());
  const mode = ipvsMode({ ...options, wantedSettings }) as Mode;
  return hereWith(mode, options.families, {
    close: () => kernel.close(),
    settingsNow: (family) => ipvsSettingsHere(input, family),
    filter: ipvsNodePortFilter,
    async listen({ family, nodePortCidrs }) {
      if (nodePortCidrs === 'all') return 'all';
      const interfaces = await interfaceAddresses(family);
      return interfaces.filter((address) => nodePortCidrs.some((cidr) => cidrContains(cidr, address)));
    },
  });
}

interface OfMode<S> {
  readonly close: () => void;
  readonly settingsNow: (family: Family) => Promise<S>;
  readonly filter: (settings: S, interfaces: readonly Address[]) => IsNodeAddress;
  readonly listen: (settings: S) => Promise<'all' | readonly Address[]>;
}

/** A mode with what it says of this machine. */
function hereWith<S extends FamilySettings>(
  mode: Mode,
  families: readonly { readonly settings: S; readonly look: RulesLook }[],
  { close, settingsNow, filter, listen }: OfMode<S>,
): ModeHere {
  const settings = new Map(families.map((one) => [one.settings.family, one.settings]));
  return {
    mode,
    families: [...settings.keys()],
    close() {
      for (const { look } of families) look.close();
      close();
    },
    async isCurrent() {
      for (const [family, before] of settings) if (!sameData(before, await settingsNow(family))) return false;
      return true;
    },
    async listenAddresses(family) {
      const of = settings.get(family);
      const addresses = of === undefined ? [] : await listen(of);
      return addresses === 'all' ? [(family === 'IPv4' ? '0.0.0.0' : '::') as Address] : addresses;
    },
    nodeAddresses: async (family) => {
      const of = settings.get(family);
      return of === undefined ? () => false : filter(of, await interfaceAddresses(family));
    },
  };
}

export interface LeavingIpvs {
  readonly mode: Mode;
  /** Let go of the kernel. */
  close(): void;
}

interface Tooled {
  readonly tools: IptablesTools;
}

interface LeavingInput extends Pick<ModeInput, 'config' | 'node' | 'signal'> {
  readonly members: readonly Tooled[];
}

/** What a proxy in IPVS mode left: it wants nothing more, and ends as its connections do. */
export async function leavingIpvs(input: LeavingInput): Promise<LeavingIpvs> {
  const kernel = await openIpvsKernel(realCommands, input.signal);
  const options = await ipvsOptions(input, kernel);
  const mode = ipvsMode({ ...options, wantedSettings: new Map(), isLeaving: true }) as Mode;
  return { mode, close: () => kernel.close() };
}

/** Whether this network namespace has anything of IPVS mode, or might. Loads nothing. */
export async function hasIpvsTraces(): Promise<boolean> {
  const isLoaded = await access('/proc/net/ip_vs').then(
    () => true,
    () => false,
  );
  return isLoaded || (await hasServiceDevice());
}

type OnMachine = Pick<ModeInput, 'config' | 'node'>;

async function ipvsSettingsHere({ config, node }: OnMachine, family: Family): Promise<IpvsSettings> {
  return ipvsSettings({ config, node: node(), family, interfaces: await interfaceAddresses(family) });
}

async function ipvsOptions<M extends Tooled>(
  { config, node, members }: OnMachine & { readonly members: readonly M[] },
  kernel: IpvsKernel,
) {
  const families = await Promise.all(
    members.map(async (member) => ({
      ...member,
      settings: await ipvsSettingsHere({ config, node }, member.tools.family),
    })),
  );
  return { families, node: config.ipvs, kernel, sysctls: realSysctls };
}
