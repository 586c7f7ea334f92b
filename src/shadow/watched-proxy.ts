/**
 * kube-proxy as a shadow watches it, in each of its modes: its rules, and the moments at which it wrote. Rules of nftables mode are read where a
 * packet passes; those of the other modes can only be read as a whole. Nothing is written.
 */

import type { Agent } from '../agent/agent.ts';
import { closeOnError, realPlatform } from '../agent/platform.ts';
import { PROXY_TABLES } from '../agent/predecessors.ts';
import { type KubeProxyRules, kubeProxyRules, lookedUpRules } from '../agent/questions/kube-proxy-rules.ts';
import { openTools } from '../agent/usable-families.ts';
import { endpointText, FAMILIES } from '../base/address.ts';
import { realClock } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { Shadow } from '../inspect/wire/shadow.ts';
import { isNoServer } from '../kernel/failures.ts';
import type { IpvsReader, SeenDestination } from '../kernel/ipvs-kernel.ts';
import { type NftNetlink, openNftables } from '../kernel/nftables-netlink.ts';
import { RulesetJournal } from '../kernel/ruleset-journal.ts';
import { isUntouched, type RulesetNotices, type TouchedTable, tableKey, touchedIn } from '../kernel/ruleset-notices.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { ServicePort } from '../proxy/model/service-port.ts';
import { serviceChains } from '../proxy/modes/netfilter/balancer.ts';
import { SERVICES } from '../proxy/modes/netfilter/names.ts';
import type { FamilyView } from '../proxy/modes/view.ts';
import type { Programming } from './programming.ts';

/** The Service ports that a change added, changed or removed. */
export type ChangedPorts = ReadonlyMap<ServiceKey, readonly ServicePort[]>;

export interface WatchedProxy {
  readonly sight: Shadow['latency']['sight'];
  /** The time until a change is written can be measured. */
  readonly measures: boolean;
  /** Milliseconds between two calls of `look` while changes wait; undefined where `onCommit` tells when. */
  readonly pause: number | undefined;
  /** Tells `programming` of the commits since the last call. */
  look(programming: Programming, changed: ChangedPorts): Promise<void>;
  /** A walk through the rules costs little, so the change of one Service can be looked for in them. */
  readonly isCheap: boolean;
  /** Throws WrongQuestion where kube-proxy has no rules any more, and the errors of reading the kernel. */
  rules(signal: AbortSignal): Promise<KubeProxyRules>;
  /**
   * Whether any program has written since the last call, so that the objects that were read do not belong together. False for rules that were
   * read as a whole. `isRound`: all Services are compared, so that everything is read again.
   */
  renew(isRound?: boolean): boolean;
  close(): void;
}

export interface WatchedInput {
  readonly config: Config;
  readonly agent: Agent;
  /** Called soon after a commit to any rules. */
  readonly onCommit: () => void;
  readonly signal: AbortSignal;
}

/** Throws NftUnusable, IpvsUnusable. */
export async function watchProxy(input: WatchedInput): Promise<WatchedProxy> {
  const { rulesBy, balancesBy } = MODES[input.config.mode];
  if (rulesBy === 'nftables') return await watchTables(input);
  return balancesBy === 'virtual servers' ? await watchServers(input) : await watchChains(input);
}

/** The tables of nftables mode. A commit has a change when packets of the Service go where its objects say. */
async function watchTables({ onCommit }: WatchedInput): Promise<WatchedProxy> {
  const kernel: NftNetlink = openNftables();
  const tables = await closeOnError(kernel, () =>
    Promise.resolve(FAMILIES.map((family) => ({ family, table: kernel.lookUp(family, PROXY_TABLES.kubeProxy) }))),
  );
  const commits = new Commits(kernel.notices, onCommit);
  const keys = FAMILIES.map((family) => tableKey(family, PROXY_TABLES.kubeProxy));
  return {
    sight: 'rules compared',
    measures: true,
    pause: undefined,
    isCheap: true,
    look(programming, changed) {
      for (const commit of commits.take(keys)) {
        // Each family has a table and commits of its own.
        const isOf = ({ family }: ServicePort) =>
          commit.touched?.has(tableKey(family, PROXY_TABLES.kubeProxy)) !== false;
        programming.committed(commit.at, (service) => changed.get(service)?.some(isOf) !== false);
      }
      return Promise.resolve();
    },
    rules: () => Promise.resolve().then(() => lookedUpRules(kernel, tables)),
    renew: (isRound) => tables.map(({ table }) => table.renew(isRound)).some(Boolean),
    close() {
      commits.close();
      kernel.close();
    },
  };
}

/**
 * The chains of iptables mode. A commit has a change when it names a chain of the Service: reading the rules takes too long. The kernel tells
 * nothing of the legacy variant.
 */
async function watchChains(input: WatchedInput): Promise<WatchedProxy> {
  const { config, onCommit, signal } = input;
  const { tools } = await openTools(config, signal);
  const isTold = tools.every(({ variant }) => variant === 'nft');
  const journal = new RulesetJournal();
  const commits = new Commits(journal, onCommit);
  const keys = FAMILIES.map((family) => tableKey(family, 'nat'));
  return {
    sight: isTold ? 'chains named' : 'not told',
    measures: isTold,
    pause: undefined,
    look(programming, changed) {
      for (const commit of commits.take(keys)) {
        // The touched chains are not known by name.
        if (isAll(commit)) for (const service of [...programming.measured()]) programming.leaveOut(service);
        else {
          programming.committed(commit.at, (service) => isNamed(changed.get(service) ?? [], commit));
          for (const service of [...programming.candidates()]) programming.written(service);
        }
      }
      return Promise.resolve();
    },
    ...readAsWhole(input),
    close() {
      commits.close();
      journal.close();
    },
  };
}

function readAsWhole({ config, agent, signal }: WatchedInput): Pick<WatchedProxy, 'isCheap' | 'rules' | 'renew'> {
  const { inspection } = agent.mode;
  return {
    isCheap: false,
    rules: (until) => kubeProxyRules({ config, inspection, signal: AbortSignal.any([signal, until]) }),
    renew: () => false,
  };
}

const KINDS = ['SVC', 'SVL', 'EXT', 'FW'] as const;

/** A Service without an endpoint has no chain of its own: its refusal is in the chain that each sync writes anew. */
function isNamed(ports: readonly ServicePort[], { touched }: HeardCommit): boolean {
  const hasChains = ports.some(({ hasAny }) => hasAny);
  return ports.some(({ id, protocol, family, hasAny }) => {
    // Each family has a table and commits of its own, and the same names of chains.
    const chains = touched?.get(tableKey(family, 'nat'))?.chains;
    if (chains?.has(SERVICES) !== true || (hasChains && !hasAny)) return false;
    const name = serviceChains(id, protocol);
    return !hasAny || KINDS.some((kind) => chains.has(name(kind)));
  });
}

const POLL_MS = 100;
/** Services whose servers one poll asks for. */
const MAX_POLLED = 20;

/** The virtual servers of IPVS mode, of which the kernel tells no changes. */
async function watchServers(input: WatchedInput): Promise<WatchedProxy> {
  const { agent, signal } = input;
  const kernel = await realPlatform.kernel.openIpvs(signal);
  /** The changes that the servers were seen to lack, by the time of their receipt: only these can be timed. */
  const lacking = new Map<ServiceKey, number>();
  return {
    sight: 'servers polled',
    measures: true,
    pause: POLL_MS,
    async look(programming, changed) {
      const desired = agent.mode.inspection.desired();
      const services = [...programming.measured()];
      // More than these cannot be asked for in time.
      for (const service of services.slice(MAX_POLLED)) programming.leaveOut(service);
      for (const service of services.slice(0, MAX_POLLED)) {
        const receivedAt = programming.receivedAt(service);
        if (receivedAt === undefined) continue;
        if (!programming.isAwaited(service, realClock.now())) programming.leaveOut(service);
        else if (!(await hasServers(kernel, desired, changed.get(service) ?? []))) lacking.set(service, receivedAt);
        else if (lacking.get(service) !== receivedAt) programming.leaveOut(service);
        else {
          programming.committed(realClock.now(), (one) => one === service);
          programming.written(service);
        }
      }
      for (const service of lacking.keys()) if (programming.receivedAt(service) === undefined) lacking.delete(service);
    },
    ...readAsWhole(input),
    close: () => kernel.close(),
  };
}

/** Whether the servers of these ports have the desired endpoints. Node ports are left out: they follow the other addresses. */
async function hasServers(
  kernel: Pick<IpvsReader, 'destinations'>,
  desired: readonly FamilyView[],
  ports: readonly ServicePort[],
): Promise<boolean> {
  for (const { family, protocol, frontends } of ports) {
    const view = desired.find((one) => one.family === family)?.servers;
    for (const { address, port } of frontends) {
      if (address === undefined) continue;
      const id = { protocol, address, port };
      const wanted = view?.server(id)?.destinations ?? [];
      const found = await kernel.destinations(id).catch(noServer);
      if (textOf(wanted) !== textOf(found)) return false;
    }
  }
  return true;
}

function noServer(error: unknown): readonly SeenDestination[] {
  if (isNoServer(error)) return [];
  throw error;
}

function textOf(destinations: readonly Pick<SeenDestination, 'address' | 'port' | 'weight'>[]): string {
  const taken = destinations.filter(({ weight }) => weight > 0);
  return taken
    .map(({ address, port }) => endpointText(address, port))
    .sort()
    .join(' ');
}

/** The objects of some tables that one commit touched. */
interface HeardCommit {
  /** When it was heard of, by the clock that never goes backwards. */
  readonly at: number;
  /** By `tableKey`, those that it touched; undefined where messages about it were lost. */
  readonly touched: ReadonlyMap<string, TouchedTable> | undefined;
}

/** The commits of all programs, one after another. */
class Commits {
  readonly #notices: RulesetNotices;
  readonly #stop: () => void;
  #generation: number | undefined;
  /** The times of hearing, each with the last generation that was heard then. */
  #heard: { readonly generation: number; readonly at: number }[] = [];

  constructor(notices: RulesetNotices, onCommit: () => void) {
    this.#notices = notices;
    this.#stop = notices.onCommit(() => {
      const generation = notices.last?.generation;
      if (generation !== undefined) this.#heard.push({ generation, at: realClock.now() });
      onCommit();
    });
    notices.listen();
    this.#generation = notices.last?.generation;
  }

  /** The commits since the last call that touched one of these tables. */
  take(tables: readonly string[]): readonly HeardCommit[] {
    const { last } = this.#notices;
    const [heard, from] = [this.#heard, this.#generation];
    this.#heard = [];
    if (last === undefined || last.generation === from) return [];
    this.#generation = last.generation;
    const commits = from === undefined ? [last] : this.#notices.between(from, last.generation);
    const now = realClock.now();
    if (commits === undefined) return [{ at: heard.at(-1)?.at ?? now, touched: undefined }];
    let next = 0;
    return commits.flatMap((commit): HeardCommit[] => {
      // After lost messages a time of hearing may belong to an older commit.
      while (isBefore(heard[next]?.generation, commit.generation)) next += 1;
      const at = heard[next]?.at ?? now;
      const touched = new Map<string, TouchedTable>();
      for (const table of tables) {
        const of = touchedIn([commit], table);
        if (of === undefined) return [{ at, touched: undefined }];
        if (!isUntouched(of)) touched.set(table, of);
      }
      return touched.size === 0 ? [] : [{ at, touched }];
    });
  }

  close(): void {
    this.#stop();
  }
}

/** By the numbers of generations, which begin anew after 2^32. */
function isBefore(generation: number | undefined, other: number): boolean {
  return generation !== undefined && ((other - generation) | 0) > 0;
}

/** Too much was touched to be named, or messages were lost. */
function isAll({ touched }: HeardCommit): boolean {
  return touched === undefined || [...touched.values()].some(({ isWhole }) => isWhole);
}
