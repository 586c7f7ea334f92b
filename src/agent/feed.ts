/** The feed of objects: a source and the cache of its objects. It outlives reloads that keep the source. */

import { FAMILIES } from '../base/address.ts';
import { type Clock, realClock, sleep } from '../base/clock.ts';
import { PROTOBUF } from '../cluster/api/protobuf/kind.ts';
import { Cache, type OnChanged } from '../cluster/cache/cache.ts';
import { kubernetesSource } from '../cluster/source/kubernetes.ts';
import type { NodeReader } from '../cluster/source/manifests/node-guard.ts';
import { manifestsSource } from '../cluster/source/manifests/source.ts';
import type { Config } from '../config/config.ts';
import { streamsLists } from '../config/feature-gates.ts';
import { userAgent } from '../config/program-version.ts';
import type { RecorderHooks, Tap } from '../inspect/history/recorder.ts';
import type { ListeningSocket } from '../kernel/listeners.ts';
import { ChangeLedger, type ReceivedChange } from '../proxy/ledger/change-ledger.ts';
import type { Source, SourceEvent, SourceKind, SourcePod, WatchStatus } from '../proxy/model/events.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { Fault, NodeView, ServiceKey } from '../proxy/model/objects.ts';
import type { Ramp } from '../proxy/model/ramps.ts';
import type { Log } from '../telemetry/log.ts';
import { CannotRun } from './cannot-run.ts';
import type { Platform } from './platform.ts';
import { RampRecord } from './ramp-record.ts';

export interface ObjectFeedOptions {
  readonly config: Config;
  readonly log: Log;
  /** The API server is told whose requests these are. */
  readonly program?: 'agent' | 'shadow';
  /** Follow changes; otherwise read once. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** Records the changes. */
  readonly recorder?: RecorderHooks | undefined;
  /** Receives each new fault of an object. */
  readonly onFault: (fault: Fault) => void;
  readonly platform: Platform;
  /** Leave a record of the endpoints whose weights grow for the next agent: only the agent itself does. */
  readonly recordsRamps?: boolean;
}

export interface ObjectFeed {
  readonly cache: Cache;
  /** Records the changes of the source. */
  readonly tap: Tap | undefined;
  /** Follows each change until it is in the kernel. */
  readonly ledger: ChangeLedger;
  /** The initial lists are complete (invariant 1); rejects when they cannot be. */
  readonly synced: Promise<void>;
  /** The own Node, or its last state when it was deleted, which stays in force (docs/semantics.md 9.2). */
  readonly node: () => NodeView | undefined;
  /** Ends with the signal; rejects when the source cannot go on. */
  readonly source: Promise<void>;
  readonly watches: () => readonly WatchStatus[];
  readonly cannotFollow: (of: SourceKind) => boolean;
  /** `Source.pod`. */
  pod(key: string, signal: AbortSignal): Promise<SourcePod | undefined>;
  /** Takes an object of the agent's own, as if the source had it. */
  place(event: SourceEvent): void;
  /** `OwnNode.suspect`, in the history too. */
  suspect(nodes: readonly string[], services: Iterable<ServiceKey>): void;
  /** Sets the one callback for events that changed something. */
  onChange(call: () => void): void;
}

/** Start the source and take its events into a new cache. */
export function startFeed(options: ObjectFeedOptions): ObjectFeed {
  const { recorder, platform, recordsRamps = false, signal } = options;
  const ramps = new RampRecord(platform.kernel.ramps, options.log);
  const left = ramps.read();
  const cache: Cache = new Cache({
    clock: realClock,
    onSteps: () => intake.stepped(),
    onChange: () => (recordsRamps ? ramps.save(cache.growing.ramps) : undefined),
  });
  const numbers = recorder === undefined ? {} : { numbers: recorder.numbers };
  const ledger = new ChangeLedger({ clock: realClock, hasChanges: () => cache.hasChanges, ...numbers });
  const tap = recorder?.tap(cache, ledger);
  const intake = new CacheIntake({ cache, tap, ledger, left }, options);
  signal.addEventListener('abort', () => cache.stopGrowing(), { once: true });
  const source = buildSource(options);
  const running = source.run(intake.emit, options.signal);
  const synced = Promise.race([intake.synced, running.then(() => intake.mustBeSynced())]);
  synced.catch(() => undefined);
  let lastNode: NodeView | undefined;
  const node = () => {
    lastNode = cache.node ?? lastNode;
    return lastNode;
  };
  return {
    cache,
    tap,
    ledger,
    node,
    synced,
    source: running,
    watches: () => source.watches?.() ?? [],
    cannotFollow: (of) => source.cannotFollow?.(of) ?? false,
    pod: (key, until) => source.pod(key, until),
    place: intake.emit,
    suspect: intake.suspect,
    onChange: (call) => intake.onChange(call),
  };
}

type Before = Parameters<OnChanged>[0];

interface IntakeTargets extends Pick<ObjectFeed, 'cache' | 'tap' | 'ledger'> {
  /** Endpoints whose weights grew when an earlier agent ended. */
  readonly left: readonly Ramp[];
}

/** Takes events into the cache, and passes on the faults of their objects. */
class CacheIntake {
  readonly synced: Promise<void>;
  readonly #cache: Cache;
  readonly #tap: Tap | undefined;
  readonly #ledger: ChangeLedger;
  #left: readonly Ramp[];
  readonly #onFault: (fault: Fault) => void;
  readonly #signal: AbortSignal;
  #resolve: () => void = () => undefined;
  #onChange: () => void = () => undefined;

  constructor(
    { cache, tap, ledger, left }: IntakeTargets,
    { onFault, signal }: Pick<ObjectFeedOptions, 'onFault' | 'signal'>,
  ) {
    this.#cache = cache;
    this.#tap = tap;
    this.#ledger = ledger;
    this.#left = left;
    this.#onFault = onFault;
    this.#signal = signal;
    this.synced = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  readonly emit = (event: SourceEvent): void => {
    // A stopped source may be in the middle of a page: ignore the rest of it.
    if (this.#signal.aborted) return;
    if (event.kind === 'reached') {
      this.#ledger.reached(event.of, event.resourceVersion);
      return;
    }
    const faults = this.#cache.take(event, (before, version) => this.#changed(event, before, version));
    for (const fault of faults) this.#onFault(fault);
    if (event.kind === 'synced' && this.#cache.isSynced) {
      this.#cache.restoreRamps(this.#left);
      this.#left = [];
      this.#resolve();
    }
    if (this.#cache.hasChanges) this.#onChange();
  };

  /** Weights grew. */
  stepped(): void {
    if (!this.#signal.aborted) this.#onChange();
  }

  readonly suspect = (nodes: readonly string[], services: Iterable<ServiceKey>): void => {
    const before = this.#cache.node;
    this.#cache.own.suspect(nodes, services);
    const { node } = this.#cache;
    if (node !== before && node !== undefined)
      this.#changed({ kind: 'node', key: node.name, node, faults: [] }, before, '');
    if (this.#cache.hasChanges) this.#onChange();
  };

  onChange(call: () => void): void {
    this.#onChange = call;
  }

  /** `version` belongs to the object before the change. */
  #changed(event: SourceEvent, before: Before, version: string): void {
    // The view of the Node has the suspects, which no source has.
    const seen = event.kind === 'node' ? { ...event, node: this.#cache.node } : event;
    noteChange({ ledger: this.#ledger, tap: this.#tap }, seen, before, version);
  }

  mustBeSynced(): void {
    if (!this.#cache.isSynced)
      throw new CannotRun(
        `the source ended before the initial lists were complete: ${this.#cache.waitingFor.join(', ')} are missing`,
      );
  }
}

/** Notes the change of an object in the ledger, and in the history where there is one. `before` and `version` belong to the former object. */
export function noteChange(
  { ledger, tap }: Pick<ObjectFeed, 'ledger' | 'tap'>,
  event: SourceEvent,
  before: Before,
  version: string,
): void {
  const change = changeOf(event, before, version);
  const number = change && ledger.changed(change);
  if (number !== undefined) tap?.event(event, before, number);
}

/** undefined for events that are no change of an object. */
function changeOf(event: SourceEvent, before: Before, version: string): ReceivedChange | undefined {
  if (event.kind === 'service') {
    const { key, service } = event;
    return { of: 'services', key, service: key, before: version, isGone: service === undefined };
  }
  if (event.kind === 'slice') {
    const { key, slice, triggeredAt } = event;
    const former = before !== undefined && 'service' in before ? before.service : '';
    const isGone = slice === undefined;
    return { of: 'slices', key, service: slice?.service ?? former, before: version, isGone, triggeredAt };
  }
  if (event.kind !== 'node') return undefined;
  return { of: 'node', key: event.key, service: '', before: '', isGone: event.node === undefined };
}

function buildSource({ config, log, program = 'agent', follow, platform }: ObjectFeedOptions): Source {
  const { nodeName } = config;
  if (config.source.kind === 'manifests') {
    const { path, nodePorts, allowsNodeAddressPorts } = config.source;
    const node = allowsNodeAddressPorts ? {} : { node: nodeReader(config, platform) };
    const warn = (text: string) => log.warn(text);
    const { documents, watch } = platform.files;
    const files = { documents, watchFolder: watch };
    return manifestsSource({ path, nodeName, clock: realClock, once: !follow, warn, nodePorts, ...files, ...node });
  }
  const hasServiceCidrs = MODES[config.mode].usesServiceCidrs;
  const readsProtobuf = config.source.contentType === PROTOBUF;
  const reads = { hasServiceCidrs, readsProtobuf, streamsLists: streamsLists(config.featureGates) };
  const about = { nodeName, ...reads, userAgent: userAgent(program) };
  return kubernetesSource({ ...config.source, ...about, clock: realClock, log, connect: platform.connect });
}

/** The ports of this node that Services of manifests must not take: those that programs listen on, and the agent's own. */
function nodeReader({ serve: { healthz, metrics } }: Config, { machine }: Platform): NodeReader {
  const own = [healthz, metrics].flatMap((at): ListeningSocket[] =>
    at === undefined ? [] : [{ protocol: 'TCP', address: at.address, port: at.port }],
  );
  return {
    addresses: async () => (await Promise.all(FAMILIES.map(machine.addresses))).flat(),
    listeners: async () => [...own, ...(await machine.listeners())],
  };
}

/** The wait for facts of the Node (docs/semantics.md 9.1, 9.3). */
const NODE_POLL_MS = 1000;
const ADDRESSES_TIMEOUT_MS = 30_000;
const POD_CIDRS_TIMEOUT_MS = 300_000;

/** The wait for the ServiceCIDRs. */
const SERVICE_CIDRS_POLL_MS = 20;
const SERVICE_CIDRS_TIMEOUT_MS = 3000;

/**
 * Wait at most 3 s until the ServiceCIDRs are known, or cannot be followed. Services can do without them, but a mode that is built with
 * them need not be built again.
 */
export async function waitForServiceCidrs(
  { cache, cannotFollow }: ObjectFeed,
  { clock, signal }: Pick<NodeWait, 'clock' | 'signal'>,
): Promise<void> {
  const isSettled = () => cache.serviceCidrs !== undefined || cannotFollow('servicecidrs');
  for (const until = clock.now() + SERVICE_CIDRS_TIMEOUT_MS; !isSettled() && clock.now() < until; ) {
    await sleep(clock, SERVICE_CIDRS_POLL_MS, signal);
  }
}

export interface NodeWait {
  readonly config: Config;
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Wait for facts that the Node lacks; otherwise only check them. */
  readonly mayWait: boolean;
}

/**
 * Wait for the facts of the own Node that rules need (docs/semantics.md 9.1, 9.3). Where node ports are on the primary address alone, it
 * waits 30 s for the addresses, and then uses those of the interfaces. Where pod CIDRs recognise local pods, it waits 5 minutes for them,
 * and then throws CannotRun. Other facts are followed when they come.
 */
export async function waitForNode(
  { node }: ObjectFeed,
  { config, log, clock, signal, mayWait }: NodeWait,
): Promise<void> {
  const { nodeName, source, detectLocal, nodePortAddresses } = config;
  const wait = async (isThere: () => boolean, timeout: number) => {
    const until = clock.now() + (mayWait ? timeout : 0);
    while (!isThere() && clock.now() < until) await sleep(clock, NODE_POLL_MS, signal);
    return isThere();
  };
  const addressesTimeout = nodePortAddresses.primary !== false ? ADDRESSES_TIMEOUT_MS : 0;
  if (source.kind === 'kubernetes' && !(await wait(() => (node()?.addresses.length ?? 0) > 0, addressesTimeout))) {
    const problem =
      node() === undefined
        ? 'the cluster has no such Node (--hostname-override sets another name)'
        : 'its status has no addresses';
    log.warn({ node: nodeName }, `Node ${nodeName}: ${problem}; using the addresses of this machine's interfaces`);
  }
  if (detectLocal.kind !== 'node-cidr') return;
  if (await wait(() => (node()?.podCIDRs.length ?? 0) > 0, POD_CIDRS_TIMEOUT_MS)) return;
  throw new CannotRun(
    `Node ${nodeName}: spec.podCIDRs is empty, and --detect-local-mode=NodeCIDR needs it; check the controller that allocates pod CIDRs`,
  );
}
