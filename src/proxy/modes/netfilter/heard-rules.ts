/** Follows the kernel's notices of what other programs do to the rules of one family, and reads only what they touched. */
import type { Drift } from '../../model/drift.ts';
import type { Heard } from '../mode.ts';
import type { FamilyRules } from './family-rules.ts';
import { type Jump, jumpKey } from './jumps.ts';
import { BUILT_IN, type ChainKey, splitChainKey } from './names.ts';
import { jumpsIn, readChain } from './observe.ts';
import type { Chain, Table } from './rules.ts';
import { chainDrift, differenceOf, jumpDrift } from './standing.ts';

/** Chains that are read one by one, with a process for each. Of more, ours count as gone, so that they are written anew. */
const MAX_CHAINS_READ = 16;

export class HeardRules {
  readonly #tables: FamilyRules;
  #isTouched = false;

  constructor(tables: FamilyRules) {
    this.#tables = tables;
  }

  /** See `KernelProbe.heard`. */
  async heard(): Promise<Heard> {
    const { isKnown, standing } = this.#tables;
    if (!isKnown || !(await standing.mayDiffer())) return { kind: 'nothing' };
    const found = await standing.foreign();
    if (found === undefined) return { kind: 'unknown' };
    if (found.touched.length === 0) return { kind: 'nothing', by: found.by };
    this.#isTouched = true;
    return { kind: 'something', by: found.by };
  }

  /** Read what was touched. Returns the changes of other programs; undefined where all must be read. Throws when a read fails. */
  async observe(signal: AbortSignal): Promise<readonly Drift[] | undefined> {
    const { isKnown, standing, trackers } = this.#tables;
    if (!this.#isTouched || !isKnown) return undefined;
    this.#isTouched = false;
    const found = await standing.foreign();
    if (found === undefined) return undefined;
    const builtIn = found.touched.filter((key) => BUILT_IN.has(splitChainKey(key).chain));
    const ours = found.touched.filter((key) => !builtIn.includes(key));
    // A chain that nobody wants is removed only as it is.
    if (ours.some((key) => !trackers.chains.desired.has(key))) return undefined;
    const drift: Drift[] = [];
    for (const key of builtIn) drift.push(...(await this.#readJumps(key, signal)));
    const areFew = found.touched.length <= MAX_CHAINS_READ;
    for (const key of ours) drift.push(...this.#correctChain(key, areFew ? await this.#read(key, signal) : undefined));
    standing.isAsBelieved(found.state);
    return drift;
  }

  async #read(key: ChainKey, signal: AbortSignal): Promise<Chain | undefined> {
    const rules = await this.#tables.options.tools.rules(splitChainKey(key), signal);
    return rules && readChain(rules);
  }

  #correctChain(key: ChainKey, seen: Chain | undefined): Drift[] {
    const { options, trackers } = this.#tables;
    const drift = trackers.chains.correct(new Map([[key, seen]]));
    return [...drift].map(([, former]) => chainDrift(options.tools.family, key, differenceOf(former, seen)));
  }

  async #readJumps(key: ChainKey, signal: AbortSignal): Promise<Drift[]> {
    const { options, trackers } = this.#tables;
    const { table, chain } = splitChainKey(key);
    const rules = (await options.tools.rules({ table, chain }, signal)) ?? [];
    const seen = new Map<string, Jump | undefined>();
    for (const [of, believed] of trackers.jumps.applied ?? [])
      if (isIn(believed, table, chain)) seen.set(of, undefined);
    const spec = { isOurs: options.isOurs, wantedJumps: trackers.jumps.desired };
    for (const entry of jumpsIn(table, chain, rules, spec)) seen.set(jumpKey(entry), entry);
    const drift = trackers.jumps.correct(seen);
    return [...drift].flatMap(([of, former]) => {
      const now = seen.get(of);
      const jump = now ?? former;
      return jump === undefined ? [] : [jumpDrift(options.tools.family, jump, now)];
    });
  }
}

function isIn(jump: Jump, table: Table, chain: string): boolean {
  return jump.table === table && jump.chain === chain;
}
