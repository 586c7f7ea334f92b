/** Puts the parts together: the one place that knows all of them. `run` and `plan` share it. */
import type { Config } from '../config/config.ts';
import { EXTERNAL_IPS_GATE, servesExternalIPs } from '../config/feature-gates.ts';
import { rulesProbe } from '../host/chain-probe.ts';
import { type Clock, realClock, unlessAborted } from '../host/clock.ts';
import { CommandNotStarted, realCommands } from '../host/commands.ts';
import { openFlowTable } from '../host/conntrack.ts';
import { backendOfKubelet, IptablesError, IptablesTools } from '../host/iptables-tools.ts';
import { hasLegacyTables, localFamilies, mayChangeNetwork } from '../host/node-facts.ts';
import { type Family, familyOf } from '../model/address.ts';
import { Flows } from '../model/flows.ts';
import type { Fault } from '../model/objects.ts';
import { ProxyModel } from '../model/proxy-model.ts';
import type { Mode } from '../modes/mode.ts';
import { FlowSweeper, type SweepReport } from '../sync/flow-sweeper.ts';
import { SyncLoop, type SyncParts } from '../sync/loop.ts';
import type { Log } from '../telemetry/log.ts';
import { CannotRun } from './cannot-run.ts';
import { tuneConntrack } from './conntrack-tuning.ts';
import { type ObjectFeed, waitForNode, waitForServiceCidrs } from './feed.ts';
import { firstOf, logSteps, stackLogger } from './log-lines.ts';
import { createMode, type ModeInput, type ModeOnNode } from './mode.ts';

export interface AgentOptions {
  readonly config: Config;
  readonly log: Log;
  /** Write the kernel's settings that are no mode's, and wait for the Node; `plan` does neither. */
  readonly isRun: boolean;
  /** Families that worked until now: one that does not any more is a reason to leave things as they are. */
  readonly mustHave?: readonly Family[];
  readonly signal: AbortSignal;
  readonly onFault: (fault: Fault) => void;
  /** ServicePorts that changed. */
  readonly onPorts?: SyncParts['onPorts'];
  readonly onSweep?: (report: SweepReport) => void;
}

export interface Agent {
  readonly feed: ObjectFeed;
  readonly loop: SyncLoop;
  readonly mode: Mode;
  readonly here: ModeOnNode;
  /** Deletes stale flows once rules were written. */
  readonly sweeper: FlowSweeper;
  readonly clock: Clock;
}

/** Check the machine, wait for the initial lists, and build what works. Nothing is written but kernel settings. */
export async function startAgent(feed: ObjectFeed, options: AgentOptions): Promise<Agent> {
  const { config, log, signal, onFault, onPorts, onSweep } = options;
  const { cache } = feed;
  const { families, tools } = await usableFamilies(config, signal, (text) => log.warn(text));
  const lost = (options.mustHave ?? []).filter((family) => !families.includes(family));
  if (lost.length > 0)
    throw new CannotRun(`${lost.join(', ')}: was served until now, and cannot be served on this node any more`);
  mustFit(config, families);
  const members = tools.map((tool) => ({
    tools: tool,
    probe: rulesProbe({ tools: tool, onProblem: (text) => log.warn(text) }),
  }));
  const here = await buildMode(feed, { families, members }, options).catch((error: unknown) => {
    for (const { probe } of members) probe.close();
    throw error;
  });
  const { mode } = here;
  emitExternalIPs(feed, options);
  const model = new ProxyModel(
    { nodeName: config.nodeName, zone: cache.node?.zone ?? '' },
    { servesExternalIPs: servesExternalIPs(config.featureGates) },
  );
  const flows = new Flows((at) => model.frontend(at));
  const loop = new SyncLoop({
    cache,
    model,
    flows,
    mode,
    clock: realClock,
    nodeName: config.nodeName,
    retry: config.syncPeriod,
    onFault,
    ...(onPorts === undefined ? {} : { onPorts }),
    onFirst: (services) => log.info({ services }, 'what others need first is in place; the rest follows'),
    onUnread: (cause) => log.error(`part of the kernel cannot be read: ${cause}`),
    onPlan: (plan) => logSteps(plan, log),
    onThrown: stackLogger(log),
  });
  const sweeper = buildSweeper({ config, log, flows, here, onSweep });
  return { feed, loop, mode, here, sweeper, clock: realClock };
}

/** Names that one line of the log has. */
const NAMES = 10;

/** Whose external IPs the feature gate leaves aside, in one line: who counted on them hears of it. */
function emitExternalIPs({ cache }: ObjectFeed, { config, log }: AgentOptions): void {
  if (servesExternalIPs(config.featureGates)) return;
  const keys: string[] = [];
  for (const { key, externalIPs } of cache.services()) if (externalIPs.length > 0) keys.push(key);
  if (keys.length === 0) return;
  const who = keys.length === 1 ? '1 Service' : `${keys.length} Services`;
  log.warn(
    { field: 'spec.externalIPs', count: keys.length },
    `the external IPs of ${who} are not served, since the feature gate ${EXTERNAL_IPS_GATE} is false: ${firstOf(keys.sort(), NAMES)}`,
  );
}

/** Wait for the initial lists and the Node, and build the mode that they ask for. What stands in the kernel is read meanwhile. */
async function buildMode(
  feed: ObjectFeed,
  { families, members }: Pick<ModeInput, 'families' | 'members'>,
  { config, log, signal, isRun }: AgentOptions,
): Promise<ModeOnNode> {
  if (config.mode !== 'nftables') {
    for (const { tools, probe } of members) tools.readAhead(() => probe.generation(), signal);
  }
  await unlessAborted(feed.synced, signal);
  const { cache } = feed;
  const facts = { services: cache.counts('services').total, slices: cache.counts('slices').total };
  log.info(facts, 'the initial lists are complete');
  await waitForNode(feed, { config, log, clock: realClock, signal, mayWait: isRun });
  if (config.mode === 'nftables') await waitForServiceCidrs(feed, { clock: realClock, signal });
  // Rules depend on these settings: whether they could be made is known before.
  if (isRun) await tuneConntrack(config, log);
  const willBeLiberal = !isRun && config.conntrack.tcpBeLiberal;
  return await createMode({
    config,
    families,
    members,
    node: feed.node,
    serviceCidrs: () => cache.serviceCidrs,
    mayTry: isRun,
    willBeLiberal,
    signal,
  });
}

export interface Usable {
  /** For which the mode can work. */
  readonly families: readonly Family[];
  /** Those of iptables that work here. */
  readonly tools: readonly IptablesTools[];
}

/** The families that this node has, and the tools of each, tried out; why one cannot be used is told. Throws CannotRun when the mode can work for none. */
export async function usableFamilies(
  config: Config,
  signal: AbortSignal,
  onProblem: (text: string) => void = () => undefined,
): Promise<Usable> {
  const { families, tools, problems } = await openTools(config, signal);
  if (config.mode === 'nftables') {
    // It writes by none, but takes over from proxies that did, perhaps with tools of their own.
    for (const problem of problems) onProblem(`what a proxy left in iptables cannot be seen, nor removed: ${problem}`);
    return { families, tools };
  }
  if (tools.length === 0) throw new CannotRun(`iptables does not work here: ${problems.join('; ')}`);
  for (const problem of problems) onProblem(`one family is not served: ${problem}`);
  return { families: tools.map(({ family }) => family), tools };
}

/** The families that this node has, the tools of iptables that work here, and why others do not. Throws CannotRun without the rights. */
export async function openTools(
  { iptablesBackend }: Config,
  signal: AbortSignal,
): Promise<Usable & { readonly problems: readonly string[] }> {
  if (!(await mayChangeNetwork())) {
    throw new CannotRun('slicewire needs the capability NET_ADMIN to read and write rules: run it as root');
  }
  const families = await localFamilies();
  const found = iptablesBackend === 'auto' ? await backendOfKubelet(realCommands, hasLegacyTables, signal) : undefined;
  const backend = found ?? iptablesBackend;
  const usable: IptablesTools[] = [];
  const problems: string[] = [];
  for (const family of families) {
    const tools = new IptablesTools(realCommands, family, backend);
    try {
      await tools.version(signal);
      if (await tools.hasChain({ table: 'nat', chain: 'POSTROUTING', wait: 1 }, signal)) usable.push(tools);
      else problems.push(`${family}: iptables cannot use the nat table (try: iptables -t nat -S POSTROUTING)`);
    } catch (error) {
      if (error instanceof CommandNotStarted) problems.push(`${error.message}; install the package iptables`);
      // A lock that is held now will be free again: the sync waits for it, and tells who has it.
      else if (error instanceof IptablesError && !error.isRefusal) usable.push(tools);
      else if (error instanceof IptablesError) problems.push(error.message);
      else throw error;
    }
  }
  return { families, tools: usable, problems };
}

/** Pods are told by CIDRs, and there is none of a family that this node has: nothing would be masqueraded as it should (docs/semantics.md 5.1). */
function mustFit({ detectLocal }: Config, families: readonly Family[]): void {
  if (detectLocal.kind !== 'cluster-cidr' || detectLocal.cidrs.length === 0) return;
  if (detectLocal.cidrs.some((cidr) => families.includes(familyOf(cidr)))) return;
  throw new CannotRun(
    `--cluster-cidr=${detectLocal.cidrs.join(',')} is of no family that works here (${families.join(', ')})`,
  );
}

interface SweeperInput {
  readonly config: Config;
  readonly log: Log;
  readonly flows: Flows;
  readonly here: ModeOnNode;
  readonly onSweep: ((report: SweepReport) => void) | undefined;
}

function buildSweeper({ config, log, flows, here, onSweep }: SweeperInput): FlowSweeper {
  return new FlowSweeper({
    flows,
    open: openFlowTable,
    clock: realClock,
    families: here.families,
    nodeAddresses: here.nodeAddresses,
    retry: config.syncPeriod,
    onSweep: (report) => {
      logSweep(report, log);
      onSweep?.(report);
    },
  });
}

function logSweep({ kinds, duration, outcome, cause }: SweepReport, log: Log): void {
  const milliseconds = Math.round(duration);
  if (outcome === 'failed') {
    const follows = 'flows that are stale stay until they time out or it succeeds';
    log.error({ milliseconds, cause }, `cannot look through the connections of the kernel: ${cause}; ${follows}`);
    return;
  }
  for (const [kind, { seen, deleted, owners }] of kinds) {
    const facts = { seen, deleted, services: [...owners].slice(0, 20), milliseconds };
    if (deleted > 0) log.info(facts, `deleted ${deleted} stale ${STALE[kind]}`);
    else log.debug(facts, `no stale ${STALE[kind]}`);
  }
}

const STALE = { udp: 'UDP flows', opening: 'connections that were never answered (TCP, SCTP)' } as const;
