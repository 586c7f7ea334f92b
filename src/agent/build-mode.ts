/** Builds the mode that the configuration asks for, with the predecessors that it takes over from. */

import { type Address, type Cidr, cidrContains, FAMILIES, type Family, isLoopback } from '../base/address.ts';
import { version } from '../config/program-version.ts';
import type { RecordedParts } from '../inspect/history/shapes.ts';
import type { RulesProbe } from '../kernel/chain-probe.ts';
import type { IptablesTools } from '../kernel/iptables-tools.ts';
import { checkScheduler, ipvsQuestions } from '../kernel/ipvs-open.ts';
import type { RulesetNotices } from '../kernel/ruleset-notices.ts';
import { RulesetRecord } from '../kernel/ruleset-record.ts';
import type { IsNodeAddress } from '../proxy/model/flow-leftovers.ts';
import { schedulerOf } from '../proxy/model/ipvs-scheduler.ts';
import type { ModeName } from '../proxy/model/modes.ts';
import { handover } from '../proxy/modes/handover.ts';
import { iptablesMode } from '../proxy/modes/iptables/index.ts';
import { ipvsMode } from '../proxy/modes/ipvs/index.ts';
import type { Mode } from '../proxy/modes/mode.ts';
import type { OwnWrites } from '../proxy/modes/netfilter/change-detection.ts';
import type { FamilySettings } from '../proxy/modes/netfilter/local-traffic.ts';
import { oneOfEverything } from '../proxy/modes/nftables/check.ts';
import { nftablesMode } from '../proxy/modes/nftables/index.ts';
import type { OnResized, OnSetKept } from '../proxy/modes/virtual-servers/apply.ts';
import {
  type ChangedFact,
  changedFacts,
  ipvsKernelSettings,
  ipvsNodePortFilter,
  ipvsOptions,
  nftablesSettings,
  nodePortFilter,
  type OnMachine,
  readIpvsSettings,
  readSettings,
} from './mode-settings.ts';
import type { Sign } from './other-proxies.ts';
import { closeOnError, type Machine, type OpenNftables } from './platform.ts';
import { lookForOthers, PROXY_TABLES, predecessorModes } from './predecessors.ts';

export interface ModeInput extends OnMachine {
  /** Ranges of cluster IPs; undefined: not known now. */
  readonly serviceCidrs: () => readonly Cidr[] | undefined;
  /** The families that the mode serves. */
  readonly families: readonly Family[];
  /** The mode of the agent's parts until now. They may still write, so their state counts as left where there is none yet. */
  readonly former?: ModeName | undefined;
  /**
   * The iptables tools of each family, and the probe for the rules that they wrote. nftables mode writes without them, but takes over
   * from modes that used them.
   */
  readonly members: readonly { readonly tools: IptablesTools; readonly probe: RulesProbe; readonly own?: OwnWrites }[];
  /** The transactions of nftables by all programs, for the probes. */
  readonly notices?: RulesetNotices | undefined;
  /** Allows test writes, which show whether the kernel can do the mode. */
  readonly mayTry: boolean;
  /** Receives the reason why the record of the last agent cannot be used. */
  readonly onRecordProblem?: (text: string) => void;
  /** Called when a set of IPVS mode became larger than kube-proxy's, or has its size again. */
  readonly onSetResized?: OnResized;
  /** Called when a set of IPVS mode is too large, or left over, and could not be changed. */
  readonly onSetKept?: OnSetKept;
  /** Tables of nftables of a predecessor become dormant, and stay until the takeover is confirmed. */
  readonly keepsTables?: boolean | undefined;
  /** True when nf_conntrack_tcp_be_liberal will be set before rules are written. */
  readonly willBeLiberal: boolean;
  /** Monotonic clock in milliseconds, for plans that depend on time. The process clock by default. */
  readonly now?: (() => number) | undefined;
  readonly signal: AbortSignal;
}

export interface ModeOnNode {
  readonly mode: Mode;
  readonly families: readonly Family[];
  /** The transactions of nftables by all programs, where the mode writes such. */
  readonly notices?: RulesetNotices | undefined;
  /** Settings and interface addresses that the mode was built with, for recordings. */
  readonly recorded: Pick<RecordedParts, 'settings' | 'interfaces'>;
  /** Close its sockets to the kernel. */
  close(): void;
  /** Facts of the Node, the cluster and this machine that changed since the mode was built. */
  readonly changes: (signal: AbortSignal) => Promise<readonly ChangedFact[]>;
  /** Addresses on which health check ports listen. The unspecified address listens everywhere. */
  readonly listenAddresses: (family: Family) => Promise<readonly Address[]>;
  /** Addresses that take node ports, read again for each sweep of flows because they may change. */
  readonly nodeAddresses: (family: Family) => Promise<IsNodeAddress>;
  /** Signs of other service proxies. Meaningful once nothing of a predecessor is left. */
  readonly otherProxies: (signal: AbortSignal) => Promise<readonly Sign[]>;
}

/** Its `close` closes the probes too. Throws IpvsUnusable or NftUnusable when the kernel lacks what the mode needs; the probes stay open then. */
export async function createMode(input: ModeInput): Promise<ModeOnNode> {
  const here = await BUILDERS[input.config.mode](input);
  const predecessors = await closeOnError(here, () => predecessorModes(input.config.mode, input));
  return {
    ...here,
    otherProxies: lookForOthers(input.config.mode, input),
    mode: predecessors.reduce((next, { mode }) => handover(next, mode), here.mode),
    close() {
      for (const { close } of predecessors) close();
      here.close();
      closeProbes(input);
    },
  };
}

const BUILDERS: Readonly<Record<ModeName, (input: ModeInput) => Promise<OwnMode>>> = {
  iptables: createIptables,
  ipvs: createIpvs,
  nftables: createNftables,
};

/** A mode with its settings and addresses, without its predecessors. `close` leaves the probes open. */
type OwnMode = Omit<ModeOnNode, 'otherProxies'>;

async function createIptables(input: ModeInput): Promise<OwnMode> {
  const { config, members, node, willBeLiberal, platform } = input;
  const settingsNow = (family: Family) => readSettings({ config, node: node(), family, willBeLiberal, platform });
  const families = await Promise.all(
    members.map(async (member) => ({
      ...member,
      keepsCounts: config.serviceMetrics,
      settings: await settingsNow(member.tools.family),
      sysctls: platform.kernel.settings,
    })),
  );
  return await modeOnNode(
    iptablesMode(families),
    families.map(({ settings }) => settings),
    {
      recorded: { mode: 'iptables', families: families.map(({ settings }) => settings) },
      notices: noticesFor(input),
      close: () => undefined,
      settingsNow,
      filter: nodePortFilter,
      listen: ({ nodePortAddresses }) => Promise.resolve(nodePortAddresses),
      addresses: platform.machine.addresses,
    },
  );
}

/** A takeover by another mode, which is not confirmed, made them dormant. Their first sync is the next thing to happen. */
function wakeTables(kernel: OpenNftables, families: readonly Family[]): void {
  const dormant = families.filter((family) => kernel.isDormant(family, PROXY_TABLES.ours));
  const changes = dormant.map((family) => ({ family, table: PROXY_TABLES.ours, to: 'awake' as const }));
  if (changes.length > 0) kernel.changeTables(changes);
}

/** Closes the sockets that were opened for the input. */
export function closeProbes({ members, notices }: Pick<ModeInput, 'members' | 'notices'>): void {
  for (const { probe } of members) probe.close();
  notices?.close();
}

/** The kernel sends no notices for tables of the legacy variant. */
function noticesFor({ members, notices }: ModeInput): RulesetNotices | undefined {
  return members.some(({ tools }) => tools.variant === 'nft') ? notices : undefined;
}

async function createNftables({
  config,
  families,
  node,
  serviceCidrs,
  willBeLiberal,
  mayTry,
  onRecordProblem = () => undefined,
  platform,
  now = () => performance.now(),
}: ModeInput): Promise<OwnMode> {
  const settingsNow = (family: Family) =>
    nftablesSettings({ config, node: node(), serviceCidrs: serviceCidrs(), family, willBeLiberal, platform });
  const kernel = platform.kernel.openNftables();
  return await closeOnError(kernel, async () => {
    const settings = await Promise.all(families.map(settingsNow));
    if (mayTry) for (const one of settings) kernel.check(one.family, oneOfEverything(one));
    if (mayTry) wakeTables(kernel, families);
    const options = {
      file: platform.kernel.record,
      labels: kernel.seen,
      version: version(),
      onProblem: onRecordProblem,
    };
    // `plan` shows the kernel as it is, so it reads it and uses no record.
    const record = mayTry ? new RulesetRecord(options) : undefined;
    return await modeOnNode(nftablesMode({ families: settings, kernel, now, record }), settings, {
      recorded: {
        mode: 'nftables',
        families: settings.map((one) => ({ ...one, serviceCidrs: one.serviceCidrs ?? null })),
      },
      notices: kernel.notices,
      close: () => kernel.close(),
      settingsNow,
      filter: nodePortFilter,
      listen: ({ nodePortAddresses }) => Promise.resolve(nodePortAddresses),
      addresses: platform.machine.addresses,
    });
  });
}

async function createIpvs(input: ModeInput): Promise<OwnMode> {
  const { config, mayTry, signal, platform } = input;
  const kernel = await platform.kernel.openIpvs(signal);
  return await closeOnError(kernel, async () => {
    if (mayTry) await checkScheduler(kernel, schedulerOf(config.ipvs.scheduler).name, signal);
    const options = await ipvsOptions(input, kernel);
    const families = options.families.map(({ settings }) => settings);
    const wantedSettings = ipvsKernelSettings(config.ipvs, platform.machine.kernelRelease);
    const questions = ipvsQuestions(() => platform.kernel.openIpvs(signal));
    const members = options.families.map((member) => ({ ...member, keepsCounts: config.serviceMetrics }));
    const { onSetResized: onResized, onSetKept } = input;
    const mode = ipvsMode({ ...options, families: members, questions, wantedSettings, onResized, onSetKept });
    return await modeOnNode(mode, families, {
      recorded: { mode: 'ipvs', families, node: config.ipvs, kernelSettings: [...wantedSettings] },
      notices: noticesFor(input),
      close: () => kernel.close(),
      settingsNow: (family) => readIpvsSettings(input, family),
      filter: ipvsNodePortFilter,
      addresses: platform.machine.addresses,
      async listen({ family, nodePortCidrs }) {
        if (nodePortCidrs === 'all') return 'all';
        const interfaces = await platform.machine.addresses(family);
        return interfaces.filter((address) => nodePortCidrs.some((cidr) => cidrContains(cidr, address)));
      },
    });
  });
}

interface ModeParts<S> {
  readonly recorded: RecordedParts['settings'];
  readonly notices?: RulesetNotices | undefined;
  readonly close: () => void;
  readonly settingsNow: (family: Family) => Promise<S>;
  readonly filter: (settings: S, interfaces: readonly Address[]) => IsNodeAddress;
  readonly listen: (settings: S) => Promise<'all' | readonly Address[]>;
  readonly addresses: Machine['addresses'];
}

/** A mode with its settings and addresses on this machine. */
async function modeOnNode<S extends FamilySettings>(
  mode: Mode,
  families: readonly S[],
  { recorded, notices, close, settingsNow, filter, listen, addresses }: ModeParts<S>,
): Promise<OwnMode> {
  const settings = new Map(families.map((one) => [one.family, one]));
  const interfaces = (await Promise.all(FAMILIES.map(addresses))).flat();
  return {
    mode,
    families: [...settings.keys()],
    notices,
    recorded: { settings: recorded, interfaces: interfaces.filter((address) => !isLoopback(address)) },
    close,
    async changes() {
      const changed: ChangedFact[] = [];
      for (const [family, before] of settings) changed.push(...changedFacts(before, await settingsNow(family)));
      return changed;
    },
    async listenAddresses(family) {
      const of = settings.get(family);
      const addresses = of === undefined ? [] : await listen(of);
      return addresses === 'all' ? [(family === 'IPv4' ? '0.0.0.0' : '::') as Address] : addresses;
    },
    nodeAddresses: async (family) => {
      const of = settings.get(family);
      return of === undefined ? () => false : filter(of, await addresses(family));
    },
  };
}
