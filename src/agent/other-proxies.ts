/**
 * Other service proxies beside this one. kube-proxy that still runs writes its rules again after the agent removed them, or over the
 * agent's own: in iptables mode when its canary is gone (kubernetes pkg/util/iptables, Monitor) and when a Service changes, in IPVS mode
 * every syncPeriod, in nftables mode when its table is gone. The log names it once. Its rules are removed again, so that none stay when it has
 * ended, but rarely, so that two programs do not undo each other's work all the time.
 */

import { causeOf } from '../base/cause.ts';
import { type Clock, sleep } from '../base/clock.ts';
import type { Mutex } from '../base/mutex.ts';
import { firstOf } from '../inspect/wire/format.ts';
import type { Drift } from '../proxy/model/drift.ts';
import type { Health } from '../serve/health.ts';
import type { Log } from '../telemetry/log.ts';
import type { NodeEvents } from './node-events.ts';

/** An object in the kernel that shows another proxy: this agent did not write it, or removed it before. */
export interface Sign {
  /** The program that probably writes it. */
  readonly who: string;
  readonly what: string;
  /** True when it stays until the next generation of the agent removes it. Otherwise the sync that found it repaired it. */
  readonly stays: boolean;
  /** It may be what a proxy left whose last connections have not ended. */
  readonly mayDrain?: boolean;
}

const MINUTE_MS = 60_000;
/** The wait before the first removal. Each further one waits twice as long. */
const FIRST_REMOVAL_MS = 5 * MINUTE_MS;
const MAX_WAIT_MS = 60 * MINUTE_MS;
/** Health has the note for this time after the last sign. */
const NOTE_DURATION_MS = 60 * MINUTE_MS;

export interface OtherProxiesOptions {
  readonly log: Pick<Log, 'warn' | 'info'>;
  readonly clock: Clock;
  readonly health: Pick<Health, 'beside'>;
  readonly events: Pick<NodeEvents, 'emitNode'>;
}

/** Remembers the signs of other proxies. It outlives the generations of the agent. */
export class OtherProxies {
  readonly #options: OtherProxiesOptions;
  /** The other proxies that the log has named since the last quiet time. */
  #logged: ReadonlySet<string> = new Set();
  #lastSeen: number | undefined;
  #wait = FIRST_REMOVAL_MS;
  /** The time at which the rules that stay are removed; undefined when there are none. */
  #removal: number | undefined;
  /** True once the rules of predecessors are removed: rules that are there now were written afterwards. */
  #isAlone = false;

  constructor(options: OtherProxiesOptions) {
    this.#options = options;
  }

  get isAlone(): boolean {
    return this.#isAlone;
  }

  /** Another generation of the agent takes over, and removes what is there. */
  renew(): void {
    this.#isAlone = false;
    this.#removal = undefined;
  }

  /** A sync wrote everything, and nothing of a predecessor is left. */
  alone(): void {
    this.#isAlone = true;
  }

  /** Takes the signs that a look at the kernel, or a sync, found now. Returns true when it is time to remove them. */
  found(signs: readonly Sign[]): boolean {
    const { clock, health } = this.#options;
    const now = clock.now();
    if (signs.length > 0) this.#report(signs, now);
    else if (this.#lastSeen !== undefined && now - this.#lastSeen >= NOTE_DURATION_MS) {
      this.#lastSeen = undefined;
      this.#logged = new Set();
      this.#wait = FIRST_REMOVAL_MS;
      health.beside(undefined);
    }
    if (!signs.some(({ stays }) => stays)) return false;
    this.#removal ??= now + this.#wait;
    if (now < this.#removal) return false;
    this.#removal = undefined;
    this.#wait = Math.min(2 * this.#wait, MAX_WAIT_MS);
    return true;
  }

  #report(signs: readonly Sign[], now: number): void {
    const { log, clock, health, events } = this.#options;
    this.#lastSeen = now;
    const who = [...new Set(signs.map((sign) => sign.who))];
    const what = firstOf(
      signs.map((sign) => sign.what),
      MAX_NAMED,
    );
    const text = `${who.join(' and ')} seems to run beside this agent: ${what}. ${FOLLOWS}: ${signs.some(({ stays }) => stays) ? REMOVES : REPAIRS}`;
    health.beside(`${text} (last seen at ${new Date(clock.wall()).toISOString()})`);
    if (who.every((one) => this.#logged.has(one))) return;
    this.#logged = new Set([...this.#logged, ...who]);
    log.warn({ who, found: signs.slice(0, MAX_NAMED).map((sign) => sign.what) }, text);
    events.emitNode({ type: 'Warning', reason: 'OtherServiceProxy', action: 'CheckKernel', note: text });
  }
}

const MAX_NAMED = 3;
const FOLLOWS =
  'Two proxies on a node undo the work of each other, and connections may reach endpoints that are gone. Stop the other one';
const REMOVES = 'the agent removes its rules within an hour, or at its next start';
const REPAIRS = 'until then the agent writes its own rules again each time';

const SERVICE_CHAIN = /^KUBE-(?:SVC|SVL|EXT|FW|SEP|XLB)-/;

/**
 * Finds chains that only another proxy writes. slicewire writes the same chains of Services in iptables mode, but knows its own. In IPVS mode
 * it has KUBE-IPVS-OUT-FILTER in another table (docs/ipvs.md).
 */
function isOfKubeProxy({ kind, table, name, difference }: Drift): boolean {
  if (kind !== 'chain' || difference.kind !== 'foreign') return false;
  return (table === 'nat' && SERVICE_CHAIN.test(name)) || (table === 'filter' && name === 'KUBE-IPVS-OUT-FILTER');
}

/** The signs in the drift that a sync reports (`SyncReport.drift`). */
export function signsIn(drift: readonly Drift[]): readonly Sign[] {
  return drift.filter(isOfKubeProxy).map(({ family, table, name }) => {
    return { who: 'kube-proxy', what: `it wrote the ${family} ${table} chain ${name}`, stays: false };
  });
}

export interface WatchOthersOptions {
  readonly clock: Clock;
  /** Held by a sync while it runs. */
  readonly mutex: Mutex;
  readonly look: (signal: AbortSignal) => Promise<readonly Sign[]>;
  /** Milliseconds between two looks. */
  readonly period: number;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly others: OtherProxies;
  /** Requests another generation, which removes the rules of the other proxy. */
  readonly onRemoval: () => void;
}

/** Look every period until the signal aborts. Never rejects. */
export async function watchOthers(options: WatchOthersOptions): Promise<void> {
  const { clock, mutex, look, period, log, signal, others, onRemoval } = options;
  const reported = new Set<string>();
  for (;;) {
    try {
      await sleep(clock, period, signal);
      if (!others.isAlone) continue;
      if (others.found(await mutex(() => look(signal)))) onRemoval();
    } catch (error) {
      if (signal.aborted) return;
      const cause = causeOf(error);
      if (!reported.has(cause)) log.warn(`cannot look for other service proxies on this node: ${cause}`);
      reported.add(cause);
    }
  }
}
