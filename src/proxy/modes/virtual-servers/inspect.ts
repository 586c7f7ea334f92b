/** Answers to questions about one family in IPVS mode: views, and the differences from the desired state. */

import { type Address, parseAddress } from '../../../base/address.ts';
import type { IpvsQuestions, IpvsReader } from '../../../kernel/ipvs-kernel.ts';
import { comparison, type Unlike } from '../../reconcile/compare.ts';
import type { FamilyInspection, Focus } from '../inspection.ts';
import { readRules } from '../netfilter/family-rules.ts';
import {
  believedRules,
  comparedRules,
  desiredRules,
  lastWriterOf,
  rememberedInLists,
  rulesNow,
} from '../netfilter/inspect.ts';
import type { ServersView } from '../view.ts';
import { observeServers } from './observe.ts';
import { believedServers, desiredServers, ownerOf, seenServers } from './servers-view.ts';
import { setName } from './sets.ts';
import type { ServersState } from './state.ts';
import {
  destinationKey,
  destinationText,
  type ObservedServers,
  sameDestination,
  sameServer,
  sameSet,
  serverKey,
  serverKeyOfEntry,
  serverText,
} from './tracked-objects.ts';

export interface ServersInspectionOptions {
  readonly state: ServersState;
  readonly questions: IpvsQuestions;
}

export function serversInspection({ state, questions }: ServersInspectionOptions): FamilyInspection {
  const { tables } = state;
  const { family } = state.settings;
  return {
    get writes() {
      return state.writes + tables.options.tools.writes;
    },
    believed() {
      const [rules, servers] = [believedRules(tables), believedServers(state)];
      return rules === undefined || servers === undefined ? undefined : { family, rules, servers };
    },
    desired: () => ({ family, rules: desiredRules(tables), servers: desiredServers(state) }),
    // The kernel gives no notice when another program changes a virtual server.
    isCertain: () => Promise.resolve(false),
    async read(signal, focus) {
      const rules = await rulesNow(tables, signal);
      return { family, rules, servers: await questions.ask((kernel) => readServers(kernel, state, focus)) };
    },
    async compared(signal) {
      const rules = await readRules(tables, signal);
      const { seen } = await questions.ask((kernel) => observeServers(kernel, state));
      return (function* () {
        yield* comparedRules(tables, rules);
        yield* comparedServers(state, seen);
      })();
    },
    async remembered({ lists, destinations }, client) {
      const inKernel = await rememberedBy(questions, destinations, client);
      return lists.length === 0
        ? inKernel
        : new Map([...inKernel, ...(await rememberedInLists(tables, lists, client))]);
    },
    lastWriter: () => lastWriterOf(tables),
  };
}

async function rememberedBy(
  questions: IpvsQuestions,
  destinations: readonly string[],
  client: Address,
): Promise<ReadonlyMap<string, number>> {
  const seconds = new Map<string, number>();
  if (destinations.length === 0) return seconds;
  for (const { server, destination, seconds: left } of await questions.ask((kernel) => kernel.templates(client))) {
    const key = destinationKey(server, destination);
    if (destinations.includes(key)) seconds.set(key, left);
  }
  return seconds;
}

/** With a focus, the destinations of that server and of all servers of its Service are read: rules may lead from one to another. */
async function readServers(kernel: IpvsReader, state: ServersState, focus: Focus | undefined): Promise<ServersView> {
  const isRead = focus === undefined ? () => true : isOf(state, serverKey(focus));
  const { seen } = await observeServers(kernel, state, isRead);
  return seenServers(state, seen, isRead);
}

function isOf(state: ServersState, focus: string): (server: string) => boolean {
  const owner = ownerOf(state, focus);
  return (server) => server === focus || (owner !== undefined && ownerOf(state, server) === owner);
}

/** One value for each set, entry, server, destination and address; undefined when it is as desired. */
function* comparedServers(state: ServersState, seen: ObservedServers): Generator<Unlike | undefined> {
  const { family } = state.settings;
  const owned = (_: unknown, wanted?: Owned, found?: Owned) => wanted?.owner ?? found?.owner;
  yield* comparison({
    tracker: state.sets,
    found: seen.sets,
    same: sameSet,
    nameOf: (id) => `set ${setName(family, id)}`,
    linesOf: ({ type }) => [type],
    ownerOf: () => undefined,
  });
  yield* comparison({
    tracker: state.entries,
    found: seen.entries,
    same: () => true,
    nameOf: (_, { set, entry }) => `${setName(family, set)} ${entry}`,
    linesOf: ({ entry }) => [entry],
    ownerOf: (key, wanted, found) => owned(key, wanted, found) ?? state.entries.applied?.get(key)?.owner,
    waits: (key) => isEntryWaiting(state, key),
  });
  yield* comparison({
    tracker: state.servers,
    found: seen.servers,
    same: sameServer,
    nameOf: (key) => `server ${key}`,
    linesOf: (server) => [serverText(server)],
    ownerOf: (key) => ownerOf(state, key),
    waits: (key) => hasDraining(state, key),
  });
  yield* comparison({
    tracker: state.destinations,
    found: seen.destinations,
    same: sameDestination,
    nameOf: (key) => `destination ${key}`,
    linesOf: (one) => [destinationText(one)],
    ownerOf: (key, wanted, found) =>
      owned(key, wanted, found) ??
      state.destinations.applied?.get(key)?.owner ??
      (found && ownerOf(state, serverKey(found.server))),
    waits: (key) => isDraining(state, key),
  });
  yield* comparison({
    tracker: state.addresses,
    found: seen.addresses,
    same: () => true,
    nameOf: (address) => `address ${address}`,
    linesOf: ({ address }) => [address],
    ownerOf: (key, wanted, found) => owned(key, wanted, found) ?? state.addresses.applied?.get(key)?.owner,
    waits: (address) => isAddressWaiting(state, address),
  });
}

/** The label of a server is removed with the server, and the entry of an address with the address. */
function isEntryWaiting(state: ServersState, key: string): boolean {
  const found = state.entries.applied?.get(key);
  if (found?.set === 'KUBE-IPVS-SERVERS') return hasDraining(state, serverKeyOfEntry(found.entry));
  const address = found?.set === 'KUBE-IPVS-IPS' ? parseAddress(found.entry) : undefined;
  return address !== undefined && isAddressWaiting(state, address);
}

function isAddressWaiting(state: ServersState, address: Address): boolean {
  return [...state.index.serversAt(address)].some((server) => hasDraining(state, server));
}

/** Whether a server has draining destinations. It is removed with the last of them. */
function hasDraining(state: ServersState, server: string): boolean {
  return [...state.index.destinationsOf(server)].some((one) => isDraining(state, one));
}

interface Owned {
  readonly owner: string | undefined;
}

/** A destination of weight 0 that is no longer desired gets no new connections, and is removed when its last one ends. */
function isDraining({ destinations }: ServersState, key: string): boolean {
  return !destinations.desired.has(key) && destinations.applied?.get(key)?.destination.weight === 0;
}
