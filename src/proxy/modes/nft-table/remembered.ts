/**
 * The record of the table that an agent before this one left: when no program has written since, and its digest is that of the desired
 * table, there is nothing to read. After each write of this agent the digest goes on record for the next one.
 */
import { breath } from '../../../base/clock.ts';
import type { LeftTable } from '../../../kernel/nftables-kernel.ts';
import type { TableRecord } from '../../../kernel/ruleset-record.ts';
import { TableDigest } from './digest.ts';
import type { DesiredSink } from './layout.ts';
import type { Transaction } from './plan.ts';
import type { TableState } from './state.ts';

export class RememberedTable implements DesiredSink {
  readonly #state: TableState;
  readonly #record: TableRecord | undefined;
  /** The digest of the applied state; undefined until it is computed. */
  #digest: TableDigest | undefined;
  /** Undefined until it is looked up. Null when nothing was left, or when it was not as desired. */
  #left: LeftTable | undefined | null;

  #hasWaited = false;
  /** Changes of the desired state so far. */
  #desiredChanges = 0;

  /** Without a record, desired objects are only passed on. */
  constructor(state: TableState, record: TableRecord | undefined) {
    this.#state = state;
    this.#record = record;
  }

  chain(...[name, chain]: Parameters<DesiredSink['chain']>): void {
    this.#desiredChanges += 1;
    this.#state.chain(name, chain);
  }

  set(...[name, set]: Parameters<DesiredSink['set']>): void {
    this.#desiredChanges += 1;
    this.#state.set(name, set);
  }

  element(...[set, key, entry]: Parameters<DesiredSink['element']>): void {
    this.#desiredChanges += 1;
    this.#state.element(set, key, entry);
  }

  isDesired(...[set, key]: Parameters<DesiredSink['isDesired']>): boolean {
    return this.#state.isDesired(set, key);
  }

  /** Whether the table is as an agent left it, which may be as it is desired. The answer stays until `adopt`, which looks again. */
  get mayBeAsLeft(): boolean {
    if (this.#state.isKnown) return false;
    if (this.#left === undefined) this.#left = this.#record?.left(this.#state.family) ?? null;
    return this.#left !== null;
  }

  /** Believe that the table is as desired, if an agent left it so; otherwise false, and it must be read. The desired state must be complete. */
  async adopt(): Promise<boolean> {
    const left = this.mayBeAsLeft ? this.#left : undefined;
    this.#left = null;
    if (left === undefined || left === null || this.#record === undefined) return false;
    const { chains, sets, elements } = this.#state;
    const changesBefore = this.#desiredChanges;
    const digest = await this.#digestOf({
      chains: chains.desired,
      sets: sets.desired,
      elements: [...elements].map(([set, { desired }]) => [set, desired.values()] as const),
    });
    if (digest.value !== left.digest || this.#desiredChanges !== changesBefore) return false;
    // The digest of the desired state takes time, and another program may have written meanwhile.
    if (this.#record.left(this.#state.family) === undefined) return false;
    this.#record.believe(this.#state.family, left);
    this.#state.observe('as desired');
    this.#digest = digest;
    return true;
  }

  /** Call it when the applied state changes otherwise than by `wrote`. */
  changes(): void {
    this.#digest = undefined;
  }

  /** Discard the believed state. */
  forget(): void {
    this.changes();
    this.#state.forget();
  }

  /** Record a successful transaction. */
  wrote(done: Transaction): void {
    this.#digestOfChanges(done);
    this.#state.wrote(done);
  }

  #digestOfChanges({ chains, sets, elements }: Transaction): void {
    const digest = this.#digest;
    if (digest === undefined) return;
    const { applied } = this.#state.chains;
    for (const [name, to] of chains) {
      const from = applied?.get(name);
      if (from !== undefined) digest.chain(name, from, -1);
      if (to !== undefined) digest.chain(name, to, 1);
    }
    for (const [name, to] of sets) {
      if (this.#state.sets.applied?.has(name) === true) digest.set(name, -1);
      if (to !== undefined) digest.set(name, 1);
    }
    for (const { set, from, to } of elements) {
      if (from !== undefined) digest.element(set, from, -1);
      if (to !== undefined) digest.element(set, to, 1);
    }
  }

  /** As `keep`, but the digest after the first writes of a process is left to the next `keep`, so that the first sync ends earlier. */
  async keepSoon(): Promise<void> {
    const isFirst = this.#digest === undefined && !this.#hasWaited;
    this.#hasWaited = true;
    if (!isFirst) await this.keep();
  }

  /** Put the table on record as it is believed to be. */
  async keep(): Promise<void> {
    const { family, isKnown, hasTable, chains, sets, elements } = this.#state;
    if (this.#record === undefined || !isKnown || !hasTable) return;
    this.#digest ??= await this.#digestOf({
      chains: chains.applied ?? new Map(),
      sets: sets.applied ?? new Map(),
      elements: [...elements].map(([set, { applied }]) => [set, applied?.values() ?? []] as const),
    });
    this.#record.keep(family, this.#digest.value);
  }

  async #digestOf(table: Parameters<TableDigest['addAll']>[0]): Promise<TableDigest> {
    const digest = new TableDigest(this.#record?.key ?? '');
    for (const _ of digest.addAll(table)) await breath();
    return digest;
  }
}
