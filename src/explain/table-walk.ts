/**
 * Walks a packet through a table of nftables mode as the kernel does, word by word, and tells its fates with their
 * probabilities. The real kernel is asked the same questions in test/netns.
 */

import type { FakeTable } from '../../test/helpers/fake-nft.ts';
import type { Expression, Field, Hook, Loaded, NftSet } from '../host/nftables-kernel.ts';
import { type Address, addressBytes, type Family, portBytes } from '../model/address.ts';
import { numberWord, protocolWord } from '../modes/nft-table/bytes.ts';
import { addressOf } from '../modes/nft-table/print.ts';
import { type Fate, fateOf, isStopped, merge, type Outcome, type State, stopped } from './fates.ts';
import type { Packet } from './rules-walk.ts';

export interface NftFacts {
  readonly family: Family;
  readonly localAddresses: ReadonlySet<string>;
  /** Memories that have the client. */
  readonly remembered: ReadonlySet<string>;
}

export function nftFates(table: FakeTable, packet: Packet, facts: NftFacts): Fate[] {
  return new Walk(table, packet, facts).fates();
}

/** What a rule has done so far: words as bytes, one character each. */
interface Run {
  readonly words: string[];
  readonly state: State;
}

type Ending = Extract<Expression, { readonly do: 'translate' | 'masquerade' | 'reject' | 'verdict' }>;

class Walk {
  readonly #table: FakeTable;
  readonly #packet: Packet;
  readonly #facts: NftFacts;

  constructor(table: FakeTable, packet: Packet, facts: NftFacts) {
    this.#table = table;
    this.#packet = packet;
    this.#facts = facts;
  }

  fates(): Fate[] {
    const { destination, port, device, state: known } = this.#packet;
    const start: State = { mark: 0, destination, port, dnat: undefined, masqueraded: false, probability: 1 };
    const isInvalid = known === 'INVALID';
    const entered = isInvalid
      ? [{ state: start, verdict: 'end' as const }]
      : this.#hook('nat', device === undefined ? 'output' : 'prerouting', start);
    const fates: Fate[] = [];
    for (const outcome of entered) {
      if (isStopped(outcome)) fates.push(stopped(outcome));
      else fates.push(...this.#delivered(outcome.state, isInvalid));
    }
    return merge(fates.filter((fate) => fate.probability > 0));
  }

  #delivered(state: State, isInvalid: boolean): Fate[] {
    const isLocal = this.#isLocal(state.destination);
    const hooks: Hook['hook'][] =
      this.#packet.device === undefined
        ? ['output', ...(isLocal ? (['input'] as const) : [])]
        : [isLocal ? 'input' : 'forward'];
    let going: Outcome[] = [{ state, verdict: 'end' }];
    for (const hook of hooks) {
      going = going.flatMap((outcome) => (isStopped(outcome) ? [outcome] : this.#hook('filter', hook, outcome.state)));
    }
    return going.flatMap((outcome) => {
      if (isStopped(outcome)) return [stopped(outcome)];
      if (isInvalid) return [fateOf(outcome.state)];
      return this.#hook('nat', 'postrouting', outcome.state).map((last) => fateOf(last.state));
    });
  }

  #hook(type: Hook['type'], name: Hook['hook'], state: State): Outcome[] {
    const chains = [...this.#table.chains].filter(([, { hook }]) => hook?.type === type && hook.hook === name);
    let going: Outcome[] = [{ state, verdict: 'end' }];
    for (const [chain] of chains)
      going = going.flatMap((one) => (isStopped(one) ? [one] : this.#chain(chain, one.state)));
    return going;
  }

  /** 'end' and 'return' mean that the caller goes on. */
  #chain(name: string, start: State): Outcome[] {
    const chain = this.#table.chains.get(name);
    if (chain === undefined) throw new Error(`there is no chain ${name}`);
    let going: State[] = [start];
    const done: Outcome[] = [];
    for (const { expressions } of chain.rules) {
      const next: State[] = [];
      for (const state of going) this.#rule(expressions, 0, { words: [], state }, { next, done });
      going = next;
      if (going.length === 0) break;
    }
    for (const state of going) done.push({ state, verdict: 'end' });
    return done;
  }

  /** From an expression on; each ends in `next` or `done`. */
  #rule(expressions: readonly Expression[], at: number, run: Run, into: { next: State[]; done: Outcome[] }): void {
    const { words, state } = run;
    for (let i = at; i < expressions.length; i++) {
      const expression = expressions[i] as Expression;
      const { next } = into;
      switch (expression.do) {
        case 'load':
          put(words, expression.to, this.#loaded(expression.what, state));
          break;
        case 'value':
          put(words, expression.to, expression.value);
          break;
        case 'mask':
          put(
            words,
            expression.at,
            masked(take(words, expression.at, expression.mask.length), expression.mask, expression.flip),
          );
          break;
        case 'compare': {
          const isEqual = take(words, expression.from, expression.value.length) === expression.value;
          if (isEqual !== (expression.is === 'equal')) {
            next.push(state);
            return;
          }
          break;
        }
        case 'random':
          for (let n = 0; n < expression.count; n++) {
            const chosen = [...words];
            put(chosen, expression.to, numberWord((expression.first + n) >>> 0));
            const probability = state.probability / expression.count;
            this.#rule(expressions, i + 1, { words: chosen, state: { ...state, probability } }, into);
          }
          return;
        case 'lookup': {
          const found = this.#lookup(expression.set, words, expression.from);
          if (found === undefined) {
            next.push(state);
            return;
          }
          if (expression.to === 'verdict') {
            this.#follow(found ?? '', state, into);
            return;
          }
          if (expression.to !== undefined) put(words, expression.to, found ?? '');
          break;
        }
        case 'remember':
          break;
        case 'set-mark':
          this.#rule(
            expressions,
            i + 1,
            { words, state: { ...state, mark: numberOf(take(words, expression.from, 4)) } },
            into,
          );
          return;
        default:
          this.#end(expression, run, into);
          return;
      }
    }
    into.next.push(state);
  }

  /** Of an expression behind which nothing of its rule is looked at. */
  #end(expression: Ending, { words, state }: Run, into: { next: State[]; done: Outcome[] }): void {
    const { done } = into;
    switch (expression.do) {
      case 'translate': {
        const address = addressOf(take(words, expression.address, this.#width()));
        const bytes = take(words, expression.port, 2);
        const port = bytes.charCodeAt(0) * 256 + bytes.charCodeAt(1);
        const dnat = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
        done.push({ state: { ...state, destination: address, port, dnat }, verdict: 'accept' });
        break;
      }
      case 'masquerade':
        done.push({ state: { ...state, masqueraded: true }, verdict: 'accept' });
        break;
      case 'reject':
        done.push({ state, verdict: 'reject' });
        break;
      case 'verdict':
        this.#take(expression.verdict, state, into);
        break;
    }
  }

  #follow(data: string, state: State, into: { next: State[]; done: Outcome[] }): void {
    if (data === 'drop') into.done.push({ state, verdict: 'drop' });
    else this.#take({ kind: 'goto', chain: data.replace(/^goto /, '') }, state, into);
  }

  #take(
    verdict: Extract<Expression, { do: 'verdict' }>['verdict'],
    state: State,
    { next, done }: { next: State[]; done: Outcome[] },
  ): void {
    if (!('chain' in verdict)) {
      done.push({ state, verdict: verdict.kind });
      return;
    }
    for (const outcome of this.#chain(verdict.chain, state)) {
      const falls = outcome.verdict === 'end' || outcome.verdict === 'return';
      if (!falls) done.push(outcome);
      else if (verdict.kind === 'goto') done.push({ state: outcome.state, verdict: 'return' });
      else next.push(outcome.state);
    }
  }

  #lookup(name: string, words: readonly string[], from: number): string | undefined {
    const found = this.#table.sets.get(name);
    if (found === undefined) throw new Error(`there is no set ${name}`);
    const key = take(words, from, this.#keyLength(found.set));
    if (found.set.isMemory === true) return this.#facts.remembered.has(name) ? '' : undefined;
    if (!found.set.hasRanges) return found.elements.get(key)?.data;
    for (const { key: first, end, data } of found.elements.values())
      if (this.#isWithin(found.set, key, { first, end })) return data;
    return undefined;
  }

  /** Field by field, as the kernel compares ranges of concatenations (nft_set_pipapo.c). */
  #isWithin({ key: fields }: NftSet, key: string, { first, end }: { first: string; end: string }): boolean {
    let at = 0;
    return fields.every((field) => {
      const [from, to] = [at, at + this.#size(field)];
      at = to;
      const part = key.slice(from, to);
      return first.slice(from, to) <= part && part <= end.slice(from, to);
    });
  }

  #keyLength({ key }: NftSet): number {
    return key.reduce((sum, field) => sum + this.#size(field), 0);
  }

  #size(field: Field): number {
    return field === 'address' ? this.#width() : 4;
  }

  #width(): number {
    return this.#facts.family === 'IPv4' ? 4 : 16;
  }

  #loaded(what: Loaded, state: State): string {
    const { protocol, source, device, state: known } = this.#packet;
    switch (what) {
      case 'source address':
        return addressBytes(source);
      case 'destination address':
        return addressBytes(state.destination);
      case 'protocol':
        return protocolWord(protocol);
      case 'destination port':
        return `${portBytes(state.port)}\0\0`;
      case 'mark':
        return numberWord(state.mark);
      case 'input interface':
        return (device ?? '').padEnd(16, '\0');
      case 'connection state':
        return numberWord(known === 'INVALID' ? 1 : 8);
      case 'connection status':
        return numberWord(state.dnat === undefined ? 0 : 32);
      case 'kind of source address':
        return numberWord(this.#isLocal(source) ? 2 : 1);
      case 'kind of destination address':
        return numberWord(this.#isLocal(state.destination) ? 2 : 1);
    }
  }

  #isLocal(address: Address): boolean {
    return this.#facts.localAddresses.has(address) || address.startsWith('127.') || address === '::1';
  }
}

/** Bytes into words, from one on. */
function put(words: string[], at: number, bytes: string): void {
  for (let i = 0; i * 4 < bytes.length; i++) words[at + i] = bytes.slice(i * 4, i * 4 + 4).padEnd(4, '\0');
}

function take(words: readonly string[], at: number, length: number): string {
  let bytes = '';
  for (let i = at; bytes.length < length; i++) {
    const word = words[i];
    if (word === undefined) throw new Error(`word ${i} is read, and nothing was written there`);
    bytes += word;
  }
  return bytes.slice(0, length);
}

function masked(bytes: string, mask: string, flip: string): string {
  const byte = (text: string, i: number) => text.charCodeAt(i);
  return [...bytes].map((_, i) => String.fromCharCode((byte(bytes, i) & byte(mask, i)) ^ byte(flip, i))).join('');
}

function numberOf(bytes: string): number {
  return [0, 1, 2, 3].reduce((sum, i) => sum + bytes.charCodeAt(i) * 256 ** i, 0);
}
