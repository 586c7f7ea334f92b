/**
 * Cluster IPs that one Service takes over from another in one sync. Rules lead to a virtual server by its address (docs/ipvs.md, detours):
 * those of the former Service must not lead to the endpoints of the next one, nor those of the next one to the former endpoints
 * (invariant 5: unrefer before reuse). Pure.
 */
import type { KernelWrite } from '../../host/ipvs-kernel.ts';
import { type ChainKey, splitChainKey } from '../netfilter/names.ts';
import type { TablesPlan } from '../netfilter/plan.ts';
import type { Chain, Rule } from '../netfilter/rules.ts';
import { type OwnedDestination, serverKey } from './objects.ts';
import type { ServersState } from './state.ts';
import type { PlannedWrite, Retirement } from './writes.ts';

export interface Takeovers {
  /** Writes of servers to which no rule of another Service leads. */
  readonly servers: readonly PlannedWrite[];
  /** Rules that lead to the other servers go, or lead to their next ones. */
  readonly detach: TablesPlan | undefined;
  /** The writes of those servers. */
  readonly late: readonly PlannedWrite[];
  /** Of these servers new rules make use: endpoints of others go before. */
  readonly early: readonly Retirement[];
}

interface Input {
  readonly tables: TablesPlan;
  readonly servers: readonly PlannedWrite[];
  readonly retire: readonly Retirement[];
}

/** The cost follows the change: chains that stay are not looked at. */
export function takeovers({ tables: state }: ServersState, { tables, servers, retire }: Input): Takeovers {
  const { applied } = state.trackers.chains;
  const changed = [...tables.chains].filter(([key]) => splitChainKey(key).table === 'nat');
  const before = changed.map(([key]) => [key, applied?.get(key) ?? []] as const);
  const [old, next] = [leadingIn(before.map(([, chain]) => chain)), leadingIn(changed.map(([, chain]) => chain ?? []))];
  const [gone, come] = [without(old, next), without(next, old)];
  const [goneTo, comeTo] = [Map.groupBy(gone, ({ to }) => to), Map.groupBy(come, ({ to }) => to)];
  const taken = new Set<string>();
  for (const { write, owner } of servers) {
    const key = keyOf(write);
    if (key !== undefined && goneTo.get(key)?.some((one) => one.owner !== owner) === true) taken.add(key);
  }
  const rewrites = detaching(before, { gone, come, taken });
  const isTaken = ({ write }: PlannedWrite) => taken.has(keyOf(write) ?? '');
  return {
    servers: taken.size === 0 ? servers : servers.filter((one) => !isTaken(one)),
    detach: taken.size === 0 ? undefined : state.plan(new Set(), new Set(rewrites.keys()), rewrites),
    late: taken.size === 0 ? [] : servers.filter(isTaken),
    early: retire.filter(({ server, destinations }) => {
      const key = serverKey(server);
      // One that was only read may belong to a proxy whose rules are still installed, unless rules of ours led here.
      const isOthers = (one: OwnedDestination, owner: string | undefined) =>
        one.owner !== owner && (one.owner !== undefined || taken.has(key));
      return comeTo.get(key)?.some(({ owner }) => destinations.some((one) => isOthers(one, owner))) === true;
    }),
  };
}

function keyOf(write: KernelWrite): string | undefined {
  return 'server' in write ? serverKey(write.server) : undefined;
}

/** A rule that leads to a virtual server. */
interface Leading {
  readonly rule: Rule;
  /** Which packets it leads there. */
  readonly match: string;
  /** The server's key. */
  readonly to: string;
  readonly owner: string | undefined;
}

const LEADING = /^(.* -p (\w+) .*) -j DNAT --to-destination (\S+)$/;

function leadingIn(chains: readonly Chain[]): Map<string, Leading> {
  const found = new Map<string, Leading>();
  for (const rule of chains.flat()) {
    const [, match, protocol, to] = LEADING.exec(rule.text) ?? [];
    if (match === undefined || protocol === undefined) continue;
    found.set(rule.text, { rule, match, to: `${protocol.toUpperCase()} ${to}`, owner: rule.owner });
  }
  return found;
}

function without(these: ReadonlyMap<string, Leading>, those: ReadonlyMap<string, Leading>): Leading[] {
  return [...these].filter(([text]) => !those.has(text)).map(([, one]) => one);
}

interface Detached {
  readonly gone: readonly Leading[];
  readonly come: readonly Leading[];
  readonly taken: ReadonlySet<string>;
}

/** Each rule that leads to a taken server leads to its next one, where that is complete, or goes. All other rules stay. */
function detaching(
  before: readonly (readonly [ChainKey, Chain])[],
  { gone, come, taken }: Detached,
): Map<ChainKey, { readonly from: Chain; readonly to: Chain }> {
  const next = new Map(come.filter(({ to }) => !taken.has(to)).map(({ match, rule }) => [match, rule]));
  const going = new Map(gone.filter(({ to }) => taken.has(to)).map(({ rule, match }) => [rule.text, next.get(match)]));
  const update = new Map<ChainKey, { readonly from: Chain; readonly to: Chain }>();
  for (const [key, from] of before) {
    if (!from.some(({ text }) => going.has(text))) continue;
    const to = from.flatMap((rule) => (going.has(rule.text) ? (going.get(rule.text) ?? []) : rule));
    update.set(key, { from, to });
  }
  return update;
}
