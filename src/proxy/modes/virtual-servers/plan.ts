/**
 * From the difference of desired and believed state of one family to its writes, in stages. Pure.
 *
 * The kernel sees each message by itself. Between two of them a packet must meet the state of before the sync, or that of afterwards
 * (docs/ipvs.md has the exceptions; test/sim/prefixes/ walks packets between all writes). So the stages are:
 * 1. sets, in the size that their entries need;
 * 2. entries in the order of `ENTRY_ORDER`: masquerading and permissions are set before a packet can arrive;
 * 3. the rules that choose endpoints for pods and the node, and the entries by which packets enter them;
 * 4. masquerading of what was of policy Local, before endpoints of other nodes are added;
 * 5. virtual servers with their destinations;
 * 6. the chain for packets that the node sends from Service addresses, the removal of what is left behind addresses that come, then the
 *    addresses: now packets are for this node;
 * 7. the end of drops: there are endpoints now, and the detour by which pods avoid a drop goes with the rules;
 * 8. the other rules: those of another mode, if any, are replaced when the Services are complete, and stay if a write before was impossible;
 * 9. removals: destinations, servers, masquerading of what is of policy Local now, addresses, entries in the reverse order, rules, sets.
 *
 * Draining depends only on the seen state (docs/ipvs.md): a destination of TCP or SCTP to remove gets weight 0, and is removed when
 * it has no connections. Until then its server stays, with its address and its label, even if the Service is deleted.
 */
import type { Address, Family } from '../../../base/address.ts';
import type { KernelWrite, Server } from '../../../kernel/ipvs-kernel.ts';
import type { Phase, SkippedStep, Step, StepName } from '../../reconcile/step.ts';
import type { SetAside } from '../mode.ts';
import { type ChainKey, chainKey, IPVS_FILTER, isDetourChain, OUT_FILTER, SERVICES } from '../netfilter/names.ts';
import type { TablesPlan } from '../netfilter/plan.ts';
import { ENTRY_ORDER, LOCAL_SETS, type SetId, setName, spareName } from './sets.ts';
import { isSourceChain } from './source-chain.ts';
import type { ServersState } from './state.ts';
import {
  destinationText,
  drains,
  entryKey,
  type OwnedAddress,
  type OwnedDestination,
  type OwnedEntry,
  serverKey,
  serverKeyOfEntry,
  serverText,
} from './tracked-objects.ts';

export interface ServersPlan extends StagedWrites {
  readonly family: Family;
  readonly setAside: SetAside;
  /** The rules that must be installed before the first address. */
  readonly sourceTables: TablesPlan;
  /** The rules that must be installed before an entry leads to them; undefined where rules of another mode are in their place. */
  readonly detourTables: TablesPlan | undefined;
  /** All rules, as they are planned again when it is their turn. */
  readonly tables: TablesPlan;
  /**
   * The rules of this mode are not there, and no packet comes to the servers yet. Endpoints that an earlier agent left go before the rules lead
   * there.
   */
  readonly replacesRules: boolean;
  readonly steps: readonly Step[];
  /** After this plan, no object of ours remains in this family. */
  readonly removesAll: boolean;
  /** Removals that wait for a Service that is set aside. */
  readonly waiting: readonly SkippedStep[];
}

export function planServers(state: ServersState, setAside: SetAside): ServersPlan {
  const { family } = state.settings;
  const isAside = ({ step, owner }: { step: string; owner: string | undefined }) =>
    setAside.has(step) || (owner !== undefined && setAside.has(owner));
  const keep = <W extends { step: string; owner: string | undefined }>(writes: readonly W[]) =>
    setAside.size === 0 ? writes : writes.filter((one) => !isAside(one));
  // An object that was read has no owner: it may belong to a Service that is set aside.
  const remove = <W extends { step: string; owner: string | undefined }>(writes: readonly W[]) =>
    setAside.size === 0 ? writes : writes.filter((one) => one.owner !== undefined && !isAside(one));
  const tables = state.tables.plan(setAside);
  const isInstalled = state.tables.isWrittenBut(isDetourChain);
  const retirable = retirements(state);
  const retire = remove(retirable);
  const staying = new Staying(state, retire);
  const entries = entryWrites(state, staying, setAside);
  const added = keep(entries.added);
  const comes = Map.groupBy(added, (one) => additionStage(state, one, isInstalled));
  const early = earlyDrops(state);
  const goes = Map.groupBy(remove(entries.removed), (one) => removalStage(state, one, early));
  const sets = setWrites(state, added);
  const resizes = keep(sets.resizes);
  const goneSets = remove(sets.removed);
  const addresses = addressWrites(state, staying, setAside);
  const parts = {
    sets: keep(sets.added),
    resizes,
    entries: comes.get('entries') ?? [],
    detours: comes.get('detours') ?? [],
    masquerades: goes.get('masquerades') ?? [],
    lateDrops: comes.get('lateDrops') ?? [],
    servers: keep(serverWrites(state)),
    addresses: keep(addresses.added),
    goneAddresses: remove(addresses.removed),
    earlyDrops: goes.get('earlyDrops') ?? [],
    goneDrops: goes.get('goneDrops') ?? [],
    unmasqueraded: comes.get('unmasqueraded') ?? [],
    goneEntries: goes.get('goneEntries') ?? [],
    goneSets: [...goneSets, ...(resizes.length === 0 ? remove(sets.left) : [])],
    retire,
  };
  const steps = [...stepsOf(state, parts), ...tables.steps];
  return {
    family,
    setAside,
    ...parts,
    sourceTables: state.tables.plan(setAside, isSourceChain),
    detourTables: isInstalled ? state.tables.plan(setAside, isDetourChain) : undefined,
    tables,
    replacesRules: !isInstalled && !(hasRules(state, chainKey('filter', IPVS_FILTER)) && leavesToServers(state)),
    steps,
    removesAll: state.isEmptied && state.sets.applied?.size === goneSets.length,
    waiting: waitingRemovals(family, [...retirable, ...entries.removed, ...addresses.removed], setAside),
  };
}

interface Removal {
  readonly step: string;
  readonly owner: string | undefined;
  /** Those of a server, which may have gone from one Service to another. */
  readonly destinations?: readonly OwnedDestination[];
}

/** The removals that wait for a Service that is set aside: of an object that nobody knows, and of a former Service at a frontend of that Service. */
function waitingRemovals(family: Family, removals: readonly Removal[], setAside: SetAside): SkippedStep[] {
  const [first] = setAside;
  if (first === undefined) return [];
  return removals.flatMap(({ step, owner, destinations = [] }): SkippedStep[] => {
    if (setAside.has(step)) return [];
    if (owner === undefined) return [{ key: step, family, owner, blockedBy: first }];
    if (!setAside.has(owner)) return [];
    // Those that were read belong to the frontend.
    const others = new Set(destinations.flatMap((one) => one.owner ?? [])).difference(setAside);
    return [...others].map((other) => ({ key: step, family, owner: other, blockedBy: owner }));
  });
}

function addressStep(family: Family): string {
  return `${family} addresses of kube-ipvs0`;
}

function setStep(family: Family, id: SetId): string {
  return `${family} set ${setName(family, id)}`;
}

/** `IPv4 server TCP 10.96.0.10:80` */
function serverStep(family: Family, key: string): string {
  return `${family} server ${key}`;
}

/** Whether an unwanted destination has connections to wait for. */
function isDraining(state: ServersState, key: string): boolean {
  const applied = state.destinations.applied?.get(key);
  const isRetired = applied !== undefined && drains(applied.server) && applied.destination.weight === 0;
  return isRetired && state.connectionsOf(applied) > 0;
}

function retirements(state: ServersState): Retirement[] {
  const { family } = state.settings;
  const byServer = new Map<string, OwnedDestination[]>();
  for (const [key, one] of state.destinations.delta().remove) {
    if (isDraining(state, key)) continue;
    const server = serverKey(one.server);
    const list = byServer.get(server) ?? [];
    byServer.set(server, list);
    list.push(one);
  }
  const gone = state.servers.delta().remove;
  for (const key of gone.keys()) {
    if (byServer.has(key)) continue;
    if (![...state.index.destinationsOf(key)].some((destination) => isDraining(state, destination)))
      byServer.set(key, []);
  }
  const retired: Retirement[] = [];
  for (const [key, destinations] of byServer) {
    const server = state.servers.applied?.get(key);
    if (server === undefined) continue;
    const step = serverStep(family, key);
    // A frontend may have been read, or have gone from one Service to another.
    const { owner } = state.servers.desired.get(key) ?? server;
    retired.push({ server: server.server, step, owner, destinations, isServerGone: gone.has(key) });
  }
  return retired;
}

/** The servers and addresses that will still exist after this plan, as far as can be known before. */
class Staying {
  readonly #state: ServersState;
  readonly #gone: ReadonlySet<string>;

  constructor(state: ServersState, retire: readonly Retirement[]) {
    this.#state = state;
    const going = retire.filter(({ isServerGone, server }) => {
      const others = [...state.index.destinationsOf(serverKey(server))];
      return isServerGone && !others.some((key) => isDraining(state, key));
    });
    this.#gone = new Set(going.map(({ server }) => serverKey(server)));
  }

  server(key: string): boolean {
    return this.#state.servers.applied?.has(key) === true && !this.#gone.has(key);
  }

  /** Only a server to remove holds an address: a wanted one asks for the address itself, or has it on another device. */
  address(address: Address): boolean {
    const { desired } = this.#state.servers;
    return [...this.#state.index.serversAt(address)].some((key) => this.server(key) && !desired.has(key));
  }
}

interface Writes {
  readonly added: readonly PlannedWrite[];
  readonly removed: readonly PlannedWrite[];
}

interface SetWrites extends Writes {
  readonly resizes: readonly PlannedResize[];
  /** The removal of a set that an agent left behind when it ended while it resized another one. A resize begins with it. */
  readonly left: readonly PlannedWrite[];
}

/** `entries` are those that will be added. */
function setWrites(state: ServersState, entries: readonly PlannedWrite[]): SetWrites {
  const { family } = state.settings;
  const { create, update, remove } = state.sets.delta();
  const planned = (id: SetId, write: KernelWrite): PlannedWrite => ({
    write,
    step: setStep(family, id),
    owner: undefined,
    line: () => setName(family, id),
  });
  const more = new Map<string, number>();
  for (const { step } of entries) more.set(step, (more.get(step) ?? 0) + 1);
  const moreIn = (id: SetId) => more.get(setStep(family, id)) ?? 0;
  const sizeOf = (id: SetId) => state.sizes.wanted(id, moreIn(id));
  const resize = (id: SetId): PlannedResize[] => {
    const change = state.resizeOf(id, moreIn(id));
    if (change === undefined) return [];
    const { from, to } = change;
    return [{ id, from, to, step: setStep(family, id), owner: undefined, line: () => `maxelem ${to}, was ${from}` }];
  };
  // A set of another type cannot become ours: the kernel refuses to create it, and the report has the refusal.
  const wanted = [...create, ...[...update].map(([id, { to }]) => [id, to] as const)];
  return {
    added: wanted.map(([id, set]) => planned(id, { kind: 'add-set', set: { ...set, maxelem: sizeOf(id) } })),
    resizes: [...state.sets.desired.keys()].flatMap(resize),
    left: state.isSpareRemovable ? [spareRemoval(family)] : [],
    // Sets are removed last: rules refer to them, and one of them lists our servers.
    removed: state.isEmptied ? [...remove].map(([id, { name }]) => planned(id, { kind: 'remove-set', set: name })) : [],
  };
}

function spareRemoval(family: Family): PlannedWrite {
  const set = spareName(family);
  return { write: { kind: 'remove-set', set }, step: `${family} set ${set}`, owner: undefined, line: () => set };
}

function entryWrites(
  state: ServersState,
  staying: Staying,
  setAside: SetAside,
): { readonly added: readonly PlannedEntry[]; readonly removed: readonly PlannedEntry[] } {
  const { family } = state.settings;
  const { create, remove } = state.entries.delta();
  const planned = (kind: 'add-entry' | 'remove-entry', { set, entry, owner }: OwnedEntry): PlannedWrite => ({
    write: { kind, set: setName(family, set), entry },
    step: setStep(family, set),
    owner,
    line: () => entry,
  });
  const inOrder = (all: Iterable<OwnedEntry>, order: readonly SetId[]) => {
    const bySet = Map.groupBy(all, ({ set }) => set);
    return order.flatMap((set) => bySet.get(set) ?? []);
  };
  return {
    added: inOrder(create.values(), ENTRY_ORDER).map((one) => ({
      ...planned('add-entry', { ...one, owner: addedFor(one, setAside) }),
      entry: one,
    })),
    removed: inOrder(remove.values(), ENTRY_ORDER.toReversed())
      // Entries of a removed set are removed with it.
      .filter((one) => state.sets.desired.has(one.set) && !isHeld(one, staying))
      .map((one) => ({ ...planned('remove-entry', { ...one, owner: one.owner ?? ownerNow(state, one) }), entry: one })),
  };
}

/** Packets to a server whose frontend has no endpoint that may take them are dropped: all of them, and those that the node sends. */
const DROP: SetId = 'KUBE-IPVS-DROP';
const OUT_DROP: SetId = 'KUBE-IPVS-OUT-DROP';

/** The key of the entry that would have the frontend masqueraded, where this entry excepts it. */
function masqueradingKey({ set, entry }: OwnedEntry): string | undefined {
  const masquerading = LOCAL_SETS.get(set);
  return masquerading && entryKey(masquerading, entry);
}

/** The Service to which an entry belongs that was read: that of its frontend now, so that it is written with the rest of that Service. */
function ownerNow({ entries, servers }: ServersState, one: OwnedEntry): string | undefined {
  const masquerading = masqueradingKey(one);
  if (masquerading !== undefined) return entries.desired.get(masquerading)?.owner;
  return OF_SERVERS.has(one.set) ? servers.desired.get(serverKeyOfEntry(one.entry))?.owner : undefined;
}

/** Whether the kernel has, or may have, such a rule in this chain. */
function hasRule({ tables }: ServersState, chain: ChainKey, isSuch: (text: string) => boolean): boolean {
  const chains = tables.trackers.chains.applied;
  return chains === undefined || (chains.get(chain) ?? []).some(({ text }) => isSuch(text));
}

/** Whether the kernel has, or may have, any rule in this chain. */
function hasRules(state: ServersState, chain: ChainKey): boolean {
  return hasRule(state, chain, () => true);
}

/**
 * Whether the table nat leaves packets to the servers, also because another program deleted or flushed its chain. A torn write of iptables mode
 * replaced it, and left the table filter as it was: the tables are written one after another.
 */
function leavesToServers(state: ServersState): boolean {
  return standsInNat(state) || !hasRules(state, chainKey('nat', SERVICES));
}

/** Whether the table nat has, or may have, the rules of this mode. */
function standsInNat(state: ServersState): boolean {
  return hasRule(state, chainKey('nat', SERVICES), (text) => text.includes('--match-set '));
}

/** The chains whose rules drop the packets that these sets name. kube-proxy has the first one, too, without such a rule. */
const DROPPING: ReadonlyMap<SetId, ChainKey> = new Map([
  [DROP, chainKey('filter', IPVS_FILTER)],
  [OUT_DROP, chainKey('mangle', OUT_FILTER)],
]);

/**
 * The sets of drops that end before the rules are written. Where no rule leads to a drop, another mode may have served the frontend since an agent
 * left it. Where the rules of this mode stand in the table nat, the detour by which pods avoid a drop goes with the rules. Where they are gone,
 * masquerading comes back with them first. Packets of the node meet their drops before the table nat.
 */
function earlyDrops(state: ServersState): ReadonlySet<SetId> {
  const isLedTo = (id: SetId, chain: ChainKey) => {
    const match = `--match-set ${setName(state.settings.family, id)} `;
    return (id === OUT_DROP || leavesToServers(state)) && hasRule(state, chain, (text) => text.includes(match));
  };
  const isEarly = (id: SetId, chain: ChainKey) => (id === DROP && standsInNat(state)) || !isLedTo(id, chain);
  return new Set([...DROPPING].filter(([id, chain]) => isEarly(id, chain)).map(([id]) => id));
}

/** Sets whose entries stop packets to a server, or lead them past it. */
const OF_SERVERS: ReadonlySet<SetId> = new Set([DROP, OUT_DROP, 'KUBE-IPVS-DETOUR']);

/**
 * A drop follows the detour by which pods and the node avoid it, so it waits for rules that are not installed yet.
 *
 * Packets from outside that reach an endpoint of another node are masqueraded as long as they may: its answers would pass this node by. So a
 * frontend of policy Cluster that becomes one of policy Local loses its other endpoints before its masquerading ends.
 */
function additionStage({ entries }: ServersState, { entry: one }: PlannedEntry, isInstalled: boolean) {
  if (one.set === DROP) return isInstalled ? 'detours' : 'lateDrops';
  if (one.set === 'KUBE-IPVS-DETOUR') return 'detours';
  const masquerading = masqueradingKey(one);
  return masquerading !== undefined && entries.applied?.has(masquerading) === true ? 'unmasqueraded' : 'entries';
}

/** A frontend of policy Local that becomes one of policy Cluster is masqueraded before it gets endpoints of other nodes. `early`: see `earlyDrops`. */
function removalStage({ entries, servers }: ServersState, { entry: one }: PlannedEntry, early: ReadonlySet<SetId>) {
  // That of a server that goes follows it, or its drain.
  if (DROPPING.has(one.set) && servers.desired.has(serverKeyOfEntry(one.entry))) {
    if (early.has(one.set)) return 'earlyDrops';
    if (one.set === DROP) return 'goneDrops';
  }
  const masquerading = masqueradingKey(one);
  return masquerading !== undefined && entries.desired.has(masquerading) ? 'masquerades' : 'goneEntries';
}

/** The label of a server, and the guard of an address, are removed after the server or address. */
export function isHeld(
  { set, entry }: OwnedEntry,
  staying: { server(key: string): boolean; address(address: Address): boolean },
): boolean {
  if (set === 'KUBE-IPVS-SERVERS') return staying.server(serverKeyOfEntry(entry));
  return set === 'KUBE-IPVS-IPS' && staying.address(entry as Address);
}

/** The Service for which an object is added: of several, one that the kernel has not refused, so that the others do not wait. */
function addedFor({ owner, owners = [] }: OwnedEntry | OwnedAddress, setAside: SetAside): string | undefined {
  return owners.find((one) => !setAside.has(one)) ?? owner;
}

function addressWrites(state: ServersState, staying: Staying, setAside: SetAside): Writes {
  const step = addressStep(state.settings.family);
  const { create, remove } = state.addresses.delta();
  const planned = (kind: 'add-address' | 'remove-address', { address, owner }: OwnedAddress): PlannedWrite => ({
    write: { kind, address },
    step,
    owner,
    line: () => address,
  });
  return {
    added: [...create.values()].map((one) => planned('add-address', { ...one, owner: addedFor(one, setAside) })),
    removed: [...remove.values()]
      .filter(({ address }) => !staying.address(address))
      .map((one) => planned('remove-address', one)),
  };
}

/** Servers before their destinations. */
function serverWrites(state: ServersState): PlannedWrite[] {
  const { family } = state.settings;
  const writes: PlannedWrite[] = [];
  const servers = state.servers.delta();
  const changed = [...servers.update].map(([key, { to }]) => ['change-server', key, to] as const);
  const added = [...servers.create].map(([key, to]) => ['add-server', key, to] as const);
  for (const [kind, key, to] of [...added, ...changed]) {
    const { server, owner } = to;
    const verb = kind === 'add-server' ? '-A' : '-E';
    writes.push({
      write: { kind, server },
      step: serverStep(family, key),
      owner,
      line: () => `${verb} ${serverText(to)}`,
    });
  }
  const { create, update } = state.destinations.delta();
  const addedDestinations = [...create.values()].map((to) => ['add-destination', to] as const);
  const changedDestinations = [...update.values()].map(({ to }) => ['change-destination', to] as const);
  for (const [kind, to] of [...addedDestinations, ...changedDestinations]) {
    const { server, destination, owner } = to;
    const verb = kind === 'add-destination' ? '-a' : '-e';
    const step = serverStep(family, serverKey(server));
    writes.push({ write: { kind, server, destination }, step, owner, line: () => `${verb} ${destinationText(to)}` });
  }
  return writes;
}

/** The writes to one kernel object. */
interface StepDraft {
  readonly phase: Phase;
  readonly added: (PlannedWrite | PlannedResize)[];
  readonly removed: (() => string)[];
  owner: string | undefined;
  isNew: boolean;
  isGone: boolean;
}

const SETS: Phase = 'create addresses and sets';
const SERVERS: Phase = 'create servers, destinations, chains and rules';

/** The writes of a plan as steps: one step for each kernel object. */
function stepsOf(state: ServersState, parts: StagedWrites): Step[] {
  const drafts = new Map<string, StepDraft>();
  const draft = (key: string, phase: Phase): StepDraft => {
    const known = drafts.get(key);
    if (known !== undefined) return known;
    const made: StepDraft = { phase, added: [], removed: [], owner: undefined, isNew: false, isGone: false };
    drafts.set(key, made);
    return made;
  };
  for (const { step } of parts.sets) draft(step, SETS).isNew = true;
  for (const planned of [
    ...parts.resizes,
    ...parts.entries,
    ...parts.detours,
    ...parts.lateDrops,
    ...parts.unmasqueraded,
  ])
    draft(planned.step, SETS).added.push(planned);
  for (const planned of parts.servers) {
    const server = draft(planned.step, SERVERS);
    server.added.push(planned);
    server.owner ??= planned.owner;
    if (planned.write.kind === 'add-server') server.isNew = true;
  }
  for (const planned of parts.addresses) draft(planned.step, SETS).added.push(planned);
  for (const one of parts.retire) {
    const server = draft(one.step, 'remove destinations and servers');
    server.owner ??= one.owner;
    server.isGone = one.isServerGone;
    for (const gone of one.destinations) server.removed.push(() => `-d ${destinationText(gone)}`);
    const known = state.servers.applied?.get(serverKey(one.server));
    if (one.isServerGone && known !== undefined) server.removed.push(() => `-D ${serverText(known)}`);
  }
  const gone = 'remove sets, chains and addresses';
  for (const planned of [
    ...parts.masquerades,
    ...parts.earlyDrops,
    ...parts.goneDrops,
    ...parts.goneAddresses,
    ...parts.goneEntries,
  ])
    draft(planned.step, gone).removed.push(planned.line);
  for (const { step } of parts.goneSets) draft(step, gone).isGone = true;
  const { family } = state.settings;
  return [...drafts].map(([key, made]) => toStep({ key, family, kind: 'virtual servers' }, made));
}

function toStep(name: StepName, { phase, added, removed, owner, isNew, isGone }: StepDraft): Step {
  return {
    ...name,
    action: isNew ? 'create' : isGone ? 'remove' : 'update',
    phase,
    owner,
    concerns: () => new Set(added.map((planned) => planned.owner).filter((owner) => owner !== undefined)),
    lines: () => [...added.map(({ line }) => `+ ${line()}`), ...removed.map((line) => `- ${line()}`)],
  };
}

// The writes of a plan.

/** One write, with its step and owner. */
export interface PlannedWrite {
  readonly write: KernelWrite;
  /** Key of its step. */
  readonly step: string;
  readonly owner: string | undefined;
  readonly line: () => string;
}

/** A write of an entry. An entry that labels or guards an object is not removed before the object. */
interface PlannedEntry extends PlannedWrite {
  readonly entry: OwnedEntry;
}

/** Destinations to remove, and their server if it is no longer wanted. */
export interface Retirement {
  readonly server: Server;
  readonly step: string;
  readonly owner: string | undefined;
  readonly destinations: readonly OwnedDestination[];
  readonly isServerGone: boolean;
}

/** A set that gets another maxelem, with its entries. */
export interface PlannedResize {
  readonly id: SetId;
  readonly from: number;
  readonly to: number;
  readonly step: string;
  readonly owner: undefined;
  readonly line: () => string;
}

/** The writes by stage. */
interface StagedWrites {
  readonly sets: readonly PlannedWrite[];
  readonly resizes: readonly PlannedResize[];
  readonly entries: readonly PlannedWrite[];
  /** Entries by which packets enter the rules that choose endpoints, and those of drops. */
  readonly detours: readonly PlannedWrite[];
  /** Removals that let frontends be masqueraded. */
  readonly masquerades: readonly PlannedWrite[];
  /** Additions of drops that wait for the rules. */
  readonly lateDrops: readonly PlannedWrite[];
  readonly servers: readonly PlannedWrite[];
  readonly addresses: readonly PlannedWrite[];
  readonly retire: readonly Retirement[];
  /** Removals of drops before the rules are written, and after that. */
  readonly earlyDrops: readonly PlannedWrite[];
  readonly goneDrops: readonly PlannedWrite[];
  /** Additions of entries, by which frontends are not masqueraded any more. */
  readonly unmasqueraded: readonly PlannedWrite[];
  readonly goneAddresses: readonly PlannedWrite[];
  readonly goneEntries: readonly PlannedEntry[];
  readonly goneSets: readonly PlannedWrite[];
}
