/** The virtual servers and rules of one family in IPVS mode. The base class desires nothing. */
import { type Address, familyOf } from '../../../base/address.ts';
import { causeOf } from '../../../base/cause.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { IpvsKernel, KernelWrite } from '../../../kernel/ipvs-kernel.ts';
import type { GoneEndpoint } from '../../model/gone-endpoints.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { NOTHING_TO_DO } from '../../reconcile/step.ts';
import type { FamilyPlan, FamilyReport, SeenFamily } from '../families.ts';
import {
  type CleanupPart,
  type EnlargedSet,
  type Heard,
  type IsServed,
  NOTHING_SET_ASIDE,
  ServersLeft,
  type SetAside,
} from '../mode.ts';
import { FamilyRules } from '../netfilter/family-rules.ts';
import { cleanupTables, RulesFamily } from '../netfilter/rules-family.ts';
import { applyServers } from './apply.ts';
import type { IpvsNode } from './node-parts.ts';
import { type HostAddresses, observeServers } from './observe.ts';
import { planServers } from './plan.ts';
import { setName, setSpec, spareName } from './sets.ts';
import { isOursOrSource, isSource, SOURCE_JUMP, SOURCE_SET, sourceChain } from './source-chain.ts';
import { type ServersSettings, ServersState } from './state.ts';
import { entryKey, type ObservedServers, type OwnedServer, serverKey, serverText } from './tracked-objects.ts';

export class ServersFamily extends RulesFamily {
  readonly state: ServersState;
  readonly #kernel: IpvsKernel;
  readonly #node: IpvsNode;
  /** The servers of other programs at the last reading. One of them may be ours by now, if a new Service wants it. */
  #foreign: ReadonlySet<string> = new Set();
  /** Addresses of the node's other devices at the last reading, and whether they were others at the last probe. */
  #host: ReadonlySet<Address> = new Set();
  #isHostChanged = false;

  constructor(settings: ServersSettings, tables: FamilyRules, node: IpvsNode) {
    super(tables);
    this.#kernel = node.kernel;
    this.#node = node;
    this.state = new ServersState(settings, tables);
  }

  override get isKnown(): boolean {
    return this.state.isKnown;
  }

  override get isEmpty(): boolean {
    return this.state.isEmptied;
  }

  /** Connections of draining destinations have not ended yet, or a set should be resized now that entries were removed. */
  get isWaiting(): boolean {
    return this.state.isKnown && (this.state.drainingServers().length > 0 || this.state.needsResize);
  }

  override get rendered(): number {
    return this.state.rendered;
  }

  override get compared(): number {
    return this.state.compared;
  }

  override async observe(signal: AbortSignal): Promise<SeenFamily> {
    try {
      const tables = await this.tables.observe(signal);
      const { seen, host, foreign } = await observeServers(this.#kernel, this.state);
      const drift = [...tables.drift, ...this.state.driftFrom(without(seen, this.#foreign), this.family)];
      this.#foreign = foreign;
      this.#host = host.all;
      this.#isHostChanged = false;
      this.onHost(host);
      this.state.observe(seen);
      return { drift, udpFrontends: udpFrontendsIn(seen) };
    } catch (error) {
      this.state.forget();
      throw error;
    }
  }

  end(gone: readonly GoneEndpoint[]): void {
    this.state.end(gone);
  }

  /** Read the connections of draining destinations again: they end by themselves. */
  async refresh(signal: AbortSignal): Promise<void> {
    for (const server of this.state.drainingServers()) {
      signal.throwIfAborted();
      this.state.sawConnections(server, await this.#kernel.destinations(server));
    }
  }

  override plan(setAside: SetAside): FamilyPlan {
    const plan = planServers(this.state, setAside);
    return {
      steps: plan.steps,
      removesAll: plan.removesAll,
      apply: (signal) => {
        const { kernel, onResized, onSetKept } = this.#node;
        return applyServers({ plan, state: this.state, kernel, onResized, onSetKept, signal });
      },
    };
  }

  forget(): void {
    this.state.forget();
  }

  /** The kernel sends no notices of servers, so they are read with the rules. */
  override async heard(): Promise<Heard> {
    const heard = await super.heard();
    return heard.kind === 'something' ? { ...heard, kind: 'unknown' } : heard;
  }

  override async isInstalled(signal: AbortSignal): Promise<boolean> {
    const { servers, addresses } = this.state;
    if (servers.applied?.keys().every((key) => this.#node.hasServer(key)) === false) return false;
    const { ours, others } = await this.#kernel.addresses(this.family);
    this.#isHostChanged = new Set(others).symmetricDifference(this.#host).size > 0;
    const installed = new Set(ours);
    if (addresses.applied?.keys().every((address) => installed.has(address)) === false) return false;
    return await super.isInstalled(signal);
  }

  /** Servers of node ports follow the addresses of the node. */
  override async mayDiffer(): Promise<boolean> {
    return this.#isHostChanged || (await super.mayDiffer());
  }

  override async differs(signal: AbortSignal): Promise<boolean | undefined> {
    return this.#isHostChanged || (await super.differs(signal));
  }

  enlargedSets(): readonly EnlargedSet[] {
    return this.isKnown ? this.state.enlargedSets() : [];
  }

  override removal(signal: AbortSignal): CleanupPart {
    const { tools } = this.tables.options;
    return {
      name: this.family,
      remove: async () => {
        const { seen } = await observeServers(this.#kernel, this.state).catch((error) => {
          throw new ServersLeft(causeOf(error));
        });
        return await cleanupServers({ tools, kernel: this.#kernel, seen, signal });
      },
    };
  }

  /** Called with the addresses of the node's other devices after each reading. */
  protected onHost(_host: HostAddresses): void {}
}

/** The virtual servers of a predecessor: connections end in their own time, and the rules of the new mode are not touched. */
export class PredecessorServers extends ServersFamily {
  constructor(
    settings: ServersSettings,
    options: Pick<FamilyRules['options'], 'tools' | 'probe' | 'own'>,
    node: IpvsNode,
  ) {
    super(settings, new FamilyRules({ ...options, isOurs: isSource, jumps: [] }), node);
  }

  override get isWaiting(): boolean {
    return super.isWaiting || this.state.isSpareRemovable || !(this.isKnown && this.state.sets.applied?.size === 0);
  }

  override async observe(signal: AbortSignal): Promise<SeenFamily> {
    const seen = await super.observe(signal);
    this.#keepSource();
    return seen;
  }

  override async refresh(signal: AbortSignal): Promise<void> {
    this.#keepSource();
    await super.refresh(signal);
  }

  /** The servers of other frontends are desired for the time of one plan, with all that belongs to them, so that it removes the rest. */
  async retire(isServed: IsServed, signal: AbortSignal): Promise<FamilyReport> {
    const { state } = this;
    const served = new Set<string>();
    for (const [key, { server }] of state.servers.applied ?? []) if (isServed(server)) served.add(key);
    if (served.size === state.servers.applied?.size) return NOTHING_TO_DO;
    state.hold(served);
    try {
      return await this.plan(NOTHING_SET_ASIDE).apply(signal);
    } finally {
      state.release();
    }
  }

  /** While addresses of ours exist, packets that the node sends from them are masqueraded. */
  #keepSource(): void {
    const { state, family } = this;
    const addresses = state.addresses.applied ?? new Map<Address, unknown>();
    const isNeeded = addresses.size > 0;
    for (const [key, chain] of sourceChain(family)) this.tables.desire(key, isNeeded ? chain : undefined);
    this.tables.desireJump(SOURCE_JUMP, isNeeded);
    // An older kube-proxy has no such set.
    const isMade = isNeeded && (state.sets.applied?.has(SOURCE_SET) !== true || state.sets.desired.has(SOURCE_SET));
    state.sets.desire(SOURCE_SET, isMade ? setSpec(family, SOURCE_SET) : undefined);
    for (const [key, { entry }] of [...state.entries.desired])
      if (!isMade || !addresses.has(entry as Address)) state.entries.desire(key, undefined);
    if (!isMade) return;
    for (const address of addresses.keys()) {
      const one = { set: SOURCE_SET, entry: address, owner: undefined };
      state.entries.desire(entryKey(SOURCE_SET, address), one);
    }
  }
}

/** The reading without these servers and their destinations. */
function without(seen: ObservedServers, keys: ReadonlySet<string>): ObservedServers {
  if (keys.size === 0) return seen;
  const servers = new Map([...seen.servers].filter(([key]) => !keys.has(key)));
  const destinations = new Map([...seen.destinations].filter(([, { server }]) => !keys.has(serverKey(server))));
  return { ...seen, servers, destinations };
}

function udpFrontendsIn({ servers }: ObservedServers): UdpFrontend[] {
  const found: UdpFrontend[] = [];
  for (const { server } of servers.values()) {
    const { protocol, address, port } = server;
    if (protocol === 'UDP') found.push({ family: familyOf(address), address, port });
  }
  return found;
}

// Remove our objects of one family at once, without waiting for connections. Objects of other programs stay (k8s#55857).

interface CleanupParts {
  readonly tools: IptablesTools;
  readonly kernel: IpvsKernel;
  readonly seen: ObservedServers;
  readonly signal: AbortSignal;
}

/**
 * Returns a line for each removed object. When a part fails, the rest is removed before it throws. Where servers are left, all else stays:
 * addresses and sets tell the next cleanup whose they are, and packets would reach them without the rules before them.
 */
async function cleanupServers({ tools, kernel, seen, signal }: CleanupParts): Promise<string[]> {
  const { family } = tools;
  const removed: string[] = [];
  const problems: string[] = [];
  const remove = async (items: readonly { readonly write: KernelWrite; readonly line: string }[]) => {
    const outcomes = await kernel.write(
      items.map(({ write }) => write),
      signal,
    );
    for (const [i, { line }] of items.entries()) {
      const error = outcomes[i];
      if (error === undefined) removed.push(`${family} ${line}`);
      else if (error.failure !== 'missing') problems.push(`${line}: ${error.message}`);
    }
  };
  await remove([...seen.servers.values()].map(serverRemoval));
  if (problems.length > 0) throw new ServersLeft(problems.join('; '));
  await remove(
    [...seen.addresses.keys()].map((address) => ({
      write: { kind: 'remove-address', address },
      line: `address ${address}`,
    })),
  );
  // Rules refer to sets, so sets are removed after them.
  removed.push(...(await cleanupTables(tools, isOursOrSource, signal)));
  await remove(
    [...seen.sets.keys().map((id) => setName(family, id)), ...(seen.hasSpare ? [spareName(family)] : [])].map((set) => {
      return { write: { kind: 'remove-set', set }, line: `set ${set}` };
    }),
  );
  if (problems.length > 0) throw new Error(problems.join('; '));
  return removed;
}

function serverRemoval(one: OwnedServer): { write: KernelWrite; line: string } {
  return { write: { kind: 'remove-server', server: one.server }, line: `server ${serverText(one)}` };
}
