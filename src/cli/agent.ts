/** Puts the parts together: the one place that knows all of them. `run` and `plan` share it. */
import { Cache } from '../cache/cache.ts';
import type { Config } from '../config/config.ts';
import { type Clock, realClock } from '../host/clock.ts';
import { CommandNotStarted, realCommands } from '../host/commands.ts';
import { openFlowTable } from '../host/conntrack.ts';
import { IptablesError, IptablesTools } from '../host/iptables-tools.ts';
import { hasFamily, mayChangeNetwork } from '../host/node-facts.ts';
import { FAMILIES } from '../model/address.ts';
import type { Source, SourceEvent } from '../model/events.ts';
import { type Fault, faultText } from '../model/objects.ts';
import { ProxyModel } from '../model/proxy-model.ts';
import { UdpFlows } from '../model/udp-flows.ts';
import type { Mode } from '../modes/mode.ts';
import { kubernetesSource } from '../source/kubernetes/index.ts';
import { manifestsSource } from '../source/manifests/index.ts';
import { FlowSweeper, type SweepReport } from '../sync/flow-sweeper.ts';
import { SyncLoop } from '../sync/loop.ts';
import type { Log } from '../telemetry/log.ts';
import { type ModeHere, modeHere } from './modes.ts';
import { tuneConntrack } from './tune.ts';

/** The agent cannot work on this machine or with what it was given: one line says why. */
export class CannotRun extends Error {
  readonly code = 'CANNOT_RUN';
}

export interface AgentOptions {
  readonly config: Config;
  readonly log: Log;
  /** Follow changes, rather than read once. */
  readonly follow: boolean;
  /** Write the kernel's settings that are no mode's; `plan` only tells them. */
  readonly writesSettings: boolean;
  readonly signal: AbortSignal;
}

export interface Agent {
  readonly cache: Cache;
  readonly loop: SyncLoop;
  readonly mode: Mode;
  /** Deletes stale UDP flows once rules were written. */
  readonly sweeper: FlowSweeper;
  readonly clock: Clock;
  /** Ends with the signal; rejects when the source cannot go on. */
  readonly source: Promise<void>;
  /** Called after each event that changed something. */
  onChange(call: () => void): void;
}

/** Check the machine, start the source, wait for its initial lists, and build the mode. Nothing is written. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { config, log, signal } = options;
  const tools = await usableFamilies(config, signal);
  const cache = new Cache();
  const intake = new Intake(cache, log);
  const source = buildSource(options).run(intake.emit, signal);
  await Promise.race([intake.synced, source.then(() => intake.mustBeSynced())]);
  const model = new ProxyModel({ nodeName: config.nodeName, zone: cache.node?.zone ?? '' });
  // Rules depend on these settings: whether they could be made is known before.
  if (options.writesSettings) await tuneConntrack(config, log);
  mustHavePodCidrs(config, cache);
  const mayTry = options.writesSettings;
  const willBeLiberal = !options.writesSettings && config.conntrack.tcpBeLiberal;
  const here = await modeHere({ config, tools, node: cache.node, mayTry, willBeLiberal, signal });
  const { mode } = here;
  const flows = new UdpFlows();
  const onFault = (fault: Fault) => tellFault(fault, log);
  const onUnread = (cause: string) => log.error(`part of the kernel cannot be read: ${cause}`);
  const loop = new SyncLoop({
    cache,
    model,
    flows,
    mode,
    clock: realClock,
    nodeName: config.nodeName,
    retry: config.syncPeriod,
    onFault,
    onUnread,
  });
  const sweeper = buildSweeper({ config, log, flows, here });
  return { cache, loop, mode, sweeper, clock: realClock, source, onChange: (call) => intake.onChange(call) };
}

/** Takes events into the cache and tells the log what is wrong with them. */
class Intake {
  readonly synced: Promise<void>;
  readonly #cache: Cache;
  readonly #log: Log;
  #resolve: () => void = () => undefined;
  #onChange: () => void = () => undefined;

  constructor(cache: Cache, log: Log) {
    this.#cache = cache;
    this.#log = log;
    this.synced = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  readonly emit = (event: SourceEvent): void => {
    for (const fault of this.#cache.take(event)) tellFault(fault, this.#log);
    if (event.kind === 'synced' && this.#cache.isSynced) this.#resolve();
    if (this.#cache.hasChanges) this.#onChange();
  };

  onChange(call: () => void): void {
    this.#onChange = call;
  }

  mustBeSynced(): void {
    if (!this.#cache.isSynced) throw new CannotRun(`stopped while waiting for ${this.#cache.waitingFor.join(', ')}`);
  }
}

function buildSource({ config, log, follow }: AgentOptions): Source {
  const { nodeName } = config;
  if (config.source.kind === 'manifests') {
    return manifestsSource({ path: config.source.path, nodeName, clock: realClock, once: !follow });
  }
  return kubernetesSource({ ...config.source, nodeName, clock: realClock, log });
}

/** The tools of each family that this node has, tried out. Throws CannotRun when there is none. */
export async function usableFamilies(config: Config, signal: AbortSignal): Promise<IptablesTools[]> {
  if (!(await mayChangeNetwork())) {
    throw new CannotRun('slicewire needs the capability NET_ADMIN to read and write rules: run it as root');
  }
  const usable: IptablesTools[] = [];
  const problems: string[] = [];
  for (const family of FAMILIES) {
    if (!(await hasFamily(family))) continue;
    const tools = new IptablesTools(realCommands, family, config.iptablesBackend);
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
  if (usable.length === 0) throw new CannotRun(`iptables does not work here: ${problems.join('; ')}`);
  return usable;
}

/** A mistake is a warning; what merely has no effect on this node is not. */
function tellFault(fault: Fault, log: Log): void {
  log[fault.effect === 'no effect here' ? 'info' : 'warn']({ fault }, faultText(fault));
}

function mustHavePodCidrs({ detectLocal, nodeName }: Config, { node }: Cache): void {
  if (detectLocal.kind === 'node-cidr' && (node?.podCIDRs ?? []).length === 0) {
    throw new CannotRun(`--detect-local-mode=NodeCIDR needs spec.podCIDRs of the Node ${nodeName}, which has none yet`);
  }
}

interface SweeperInput {
  readonly config: Config;
  readonly log: Log;
  readonly flows: UdpFlows;
  readonly here: ModeHere;
}

function buildSweeper({ config, log, flows, here }: SweeperInput): FlowSweeper {
  return new FlowSweeper({
    flows,
    open: openFlowTable,
    clock: realClock,
    families: here.families,
    nodeAddresses: here.nodeAddresses,
    retry: config.syncPeriod,
    onSweep: (report) => tellSweep(report, log),
  });
}

function tellSweep({ seen, deleted, owners, duration, outcome, cause }: SweepReport, log: Log): void {
  const facts = { seen, deleted, services: [...owners].slice(0, 20), milliseconds: Math.round(duration) };
  if (outcome === 'failed') {
    const follows = 'flows that are stale stay until they time out or it succeeds';
    log.error({ ...facts, cause }, `cannot look through the UDP flows of the kernel: ${cause}; ${follows}`);
  } else if (deleted > 0) log.info(facts, `deleted ${deleted} stale UDP flows`);
  else log.debug(facts, 'no stale UDP flows');
}
