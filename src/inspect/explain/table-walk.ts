/**
 * Walks a packet through a table of nftables mode as the kernel does, word by word. test/netns sends the same
 * packets through the real kernel.
 */
import { addressBytes, addressWidth, endpointText, type Family, portBytes, portOf } from '../../base/address.ts';
import { jenkinsNumber } from '../../base/jenkins.ts';
import type { Expression, Hook, PacketField, ReadExpression } from '../../kernel/nftables-kernel.ts';
import { numberWord, protocolWord } from '../../proxy/modes/nft-table/element-bytes.ts';
import { addressOf } from '../../proxy/modes/nft-table/print.ts';
import type { CalledChain, TableView } from '../../proxy/modes/view.ts';
import {
  type ChainVerdict,
  concluded,
  effectOf,
  type FoundElement,
  likely,
  masked,
  merged,
  numberOf,
  onlyNumber,
  passedBy,
  type Run,
  readRegister,
  SetLookup,
  verdictIn,
  writeRegister,
} from './nft-run.ts';
import {
  type Effect,
  type Fate,
  fateOf,
  isFallen,
  isLocal,
  isStopped,
  mergedFates,
  type NodeOfPacket,
  type Packet,
  type PacketState,
  startOf,
  stepped,
  stopped,
  translated,
  uncertain,
  type WalkOutcome,
  type WalkStep,
} from './packet.ts';

export interface TableWalkInput {
  readonly family: Family;
  readonly table: TableView;
  readonly packet: Packet;
  readonly facts: NodeOfPacket;
  /** Collect the memories that rules looked into, and sentences about rules that were not interpreted. */
  readonly memories: Set<string>;
  readonly unknown: Set<string>;
}

interface RuleEndings {
  /** Packets that go on with the next rule. */
  readonly next: PacketState[];
  /** Packets that have left the chain. */
  readonly done: WalkOutcome[];
}

export class TableWalk {
  readonly #input: TableWalkInput;
  readonly #name: string;
  readonly #lookup: SetLookup;
  readonly #hooks = new Map<string, readonly CalledChain[]>();

  constructor(input: TableWalkInput) {
    this.#input = input;
    this.#name = `${input.family === 'IPv4' ? 'ip' : 'ip6'} ${input.table.name}`;
    this.#lookup = new SetLookup(input);
  }

  /** Yields between portions of work, which are short. */
  *fates(): Generator<undefined, Fate[]> {
    const { packet } = this.#input;
    const entered = this.#hook(packet.device === undefined ? 'output' : 'prerouting', startOf(packet));
    const fates: Fate[] = [];
    for (const one of entered) {
      fates.push(...(isStopped(one) ? [stopped(one)] : this.#delivered(one.state)));
      yield;
    }
    return mergedFates(fates);
  }

  /** A packet on its way after its first hook. */
  #delivered(state: PacketState): Fate[] {
    const { packet } = this.#input;
    const isHere = isLocal(state.destination, this.#around());
    const isSent = packet.device === undefined;
    const start: WalkOutcome = { state, verdict: 'end' };
    const passed = isSent && !isHere ? [start] : this.#hook(isHere ? 'input' : 'forward', state);
    return passed.flatMap((outcome) => {
      if (isStopped(outcome)) return [stopped(outcome)];
      // A packet that has arrived at this node is not sent on.
      if (packet.state === 'INVALID' || (isHere && !isSent)) return [fateOf(outcome.state)];
      return this.#hook('postrouting', outcome.state).map((last) =>
        isStopped(last) ? stopped(last) : fateOf(last.state),
      );
    });
  }

  #around() {
    return { facts: this.#input.facts, servers: undefined };
  }

  #hook(name: Hook['hook'], state: PacketState): WalkOutcome[] {
    let going: WalkOutcome[] = [{ state, verdict: 'end' }];
    for (const { name: chain, type } of this.#called(name)) {
      // Packets that conntrack finds invalid are not translated.
      if (type === 'nat' && this.#input.packet.state === 'INVALID') continue;
      going = going.flatMap((one) => (isStopped(one) ? [one] : (this.#chain(chain, one.state) ?? [one])));
    }
    return going;
  }

  /** The hooks are the same for all packets of a walk. */
  #called(hook: Hook['hook']): readonly CalledChain[] {
    const known = this.#hooks.get(hook);
    if (known !== undefined) return known;
    const chains = this.#input.table.called(hook);
    this.#hooks.set(hook, chains);
    return chains;
  }

  /** All outcomes of a chain; 'end' and 'return' mean that the caller goes on. undefined when there is no such chain. */
  #chain(chain: string, start: PacketState): WalkOutcome[] | undefined {
    const rules = this.#input.table.chain(chain);
    if (rules === undefined) return undefined;
    let going: PacketState[] = [start];
    const done: WalkOutcome[] = [];
    for (const { text, expressions } of rules) {
      const next: PacketState[] = [];
      for (const state of going) {
        const run = { chain, text, expressions, words: [], state, before: state, owner: undefined };
        this.#run(run, 0, { next, done });
      }
      going = next;
      if (going.length === 0) break;
    }
    for (const state of going) done.push({ state, verdict: 'end' });
    return done;
  }

  /** A rule from an expression on. */
  #run(run: Run, from: number, endings: RuleEndings): void {
    for (let i = from; i < run.expressions.length; i++) {
      const expression = run.expressions[i];
      if (expression === undefined) break;
      switch (expression.do) {
        case 'load':
          writeRegister(run.words, expression.to, loaded(expression.what, run.state, this.#input));
          break;
        case 'load-part':
          writeRegister(
            run.words,
            expression.to,
            loaded(expression.what, run.state, this.#input).slice(0, expression.bytes),
          );
          break;
        case 'value':
          writeRegister(run.words, expression.to, expression.value);
          break;
        case 'mask': {
          const { at, mask, flip } = expression;
          writeRegister(run.words, at, masked(readRegister(run.words, at, mask.length), mask, flip));
          break;
        }
        case 'compare': {
          const isEqual = readRegister(run.words, expression.from, expression.value.length) === expression.value;
          if (isEqual === (expression.is === 'equal')) break;
          endings.next.push(passedBy(run));
          return;
        }
        case 'count':
          break;
        // A packet of the question is within the limits of its Service (docs/traffic.md); the reasons of the answer name them.
        case 'over-rate':
        case 'over-connections':
          endings.next.push(passedBy(run));
          return;
        case 'random':
          this.#draw(run, i, expression, endings);
          return;
        case 'hash':
          this.#hash(run, i, expression, endings);
          return;
        default:
          this.#act(run, i, expression, endings);
          return;
      }
    }
    endings.next.push(concluded(run));
  }

  /** Goes on once for each number, or once for the only number that the next expression lets pass. */
  #draw(run: Run, at: number, { count, first, to }: Extract<Expression, { do: 'random' }>, endings: RuleEndings): void {
    const passing = onlyNumber(run.expressions[at + 1], to);
    const next: PacketState[] = [];
    const numbers = passing === undefined ? [...Array(count).keys()] : [passing - first].filter((n) => n < count);
    const drawn = numbers
      .filter((n) => n >= 0)
      .map((number) => {
        const words = [...run.words];
        writeRegister(words, to, numberWord((first + number) >>> 0));
        return { number, words };
      });
    for (const [{ number, words }, alike] of this.#alike(drawn, run.expressions[at + 1])) {
      const share = alike / count;
      const chosen = stepped(run.state, { ...this.#step(run, { kind: 'choose', number, of: count }), share });
      const state = likely(count === 1 ? run.state : chosen, share);
      this.#run({ ...run, words, state, before: likely(run.before, share) }, at + 1, { next, done: endings.done });
    }
    const rest = passing === undefined ? 0 : 1 - numbers.length / count;
    if (rest > 0) next.push(likely(passedBy(run), rest));
    endings.next.push(...merged(next));
  }

  /** Numbers that find the same value in the map that follows, such as the slots of an endpoint, go the same way: one of them, and how many they are. */
  #alike<D extends { readonly words: readonly string[] }>(
    drawn: readonly D[],
    then: ReadExpression | undefined,
  ): readonly (readonly [D, number])[] {
    if (then?.do !== 'lookup' || then.to === undefined || then.to === 'verdict') return drawn.map((one) => [one, 1]);
    const groups = Map.groupBy(drawn, ({ words }) => {
      const found = this.#lookup.find(then.set, words, then.from);
      return typeof found === 'object' ? found.data : String(found);
    });
    return [...groups.values()].flatMap((group) => group.slice(0, 1).map((one) => [one, group.length] as const));
  }

  /** The client's address alone decides, or its port as well, which is unknown: each client has another one. */
  #hash(run: Run, at: number, expression: Extract<Expression, { do: 'hash' }>, endings: RuleEndings): void {
    const { from, bytes, count, first, seed, to } = expression;
    if (bytes > addressWidth(this.#input.family) / 8) {
      this.#draw(run, at, { do: 'random', count, first, to }, endings);
      return;
    }
    const number = jenkinsNumber(readRegister(run.words, from, bytes), count, seed);
    const words = [...run.words];
    writeRegister(words, to, numberWord((first + number) >>> 0));
    const state = stepped(run.state, this.#step(run, { kind: 'choose', number, of: count }));
    this.#run({ ...run, words, state }, at + 1, endings);
  }

  /** An expression that does something to the packet. */
  #act(run: Run, at: number, expression: ReadExpression, endings: RuleEndings): void {
    const { next, done } = endings;
    const { state, words } = run;
    const after = (effect: Effect, changed = state) => stepped(changed, this.#step(run, effect));
    switch (expression.do) {
      case 'lookup':
        this.#find(run, at, expression, endings);
        break;
      case 'lookup-absence':
        this.#miss(run, at, expression, endings);
        break;
      case 'remember':
        this.#run({ ...run, state: after({ kind: 'remember', memory: expression.set }) }, at + 1, endings);
        break;
      case 'set-mark': {
        const mark = numberOf(readRegister(words, expression.from, 4));
        // Cleared on the way to the masquerading that is a step itself.
        const marked = { ...state, mark };
        this.#run({ ...run, state: mark === 0 ? marked : after({ kind: 'mark', mark }, marked) }, at + 1, endings);
        break;
      }
      case 'translate': {
        const address = addressOf(readRegister(words, expression.address, this.#input.family === 'IPv4' ? 4 : 16));
        const port = portOf(readRegister(words, expression.port, 2));
        const to = endpointText(address, port);
        done.push({ state: after({ kind: 'translate', to }, translated(state, to, address, port)), verdict: 'accept' });
        break;
      }
      case 'masquerade':
        done.push({ state: after({ kind: 'masquerade' }, { ...state, masqueraded: true }), verdict: 'accept' });
        break;
      case 'reject':
      case 'reset tcp':
        done.push({ state: after({ kind: 'reject' }), verdict: 'reject' });
        break;
      case 'verdict':
        this.#decide(run, expression.verdict, this.#step(run, effectOf(expression.verdict)), endings);
        break;
      case 'unknown':
        this.#note(run, `has the expression \`${expression.name}\`, which is not interpreted`, 'it did not match');
        next.push(passedBy(run));
        break;
    }
  }

  #find(run: Run, at: number, { set, from, to }: Extract<Expression, { do: 'lookup' }>, endings: RuleEndings): void {
    const found = this.#lookup.find(set, run.words, from);
    if (found === undefined) {
      endings.next.push(passedBy(run));
      return;
    }
    if (found === 'no set') {
      this.#note(run, `looks into the set \`${set}\`, which was not read`, 'it were empty');
      endings.next.push(passedBy(run));
      return;
    }
    const { data, owner } = found;
    if (to === 'verdict') {
      const verdict = verdictIn(data);
      if (verdict === undefined) {
        this.#note(run, `finds the verdict \`${data}\`, which is not interpreted`, 'it did not match');
        endings.next.push(passedBy(run));
        return;
      }
      this.#decide({ ...run, owner }, verdict, this.#elementStep(set, found, effectOf(verdict)), endings);
      return;
    }
    if (to !== undefined) writeRegister(run.words, to, data);
    const value = this.#lookup.valueText(set, data);
    const state = stepped(run.state, this.#elementStep(set, found, { kind: 'lookup', found: value }));
    this.#run({ ...run, state, owner: owner ?? run.owner }, at + 1, endings);
  }

  /** Goes on where the set lacks the key. */
  #miss(
    run: Run,
    at: number,
    { set, from }: Extract<ReadExpression, { do: 'lookup-absence' }>,
    endings: RuleEndings,
  ): void {
    const found = this.#lookup.find(set, run.words, from);
    if (found === undefined) {
      this.#run(run, at + 1, endings);
      return;
    }
    if (found === 'no set') this.#note(run, `looks into the set \`${set}\`, which was not read`, 'it did not match');
    endings.next.push(passedBy(run));
  }

  #decide(run: Run, verdict: ChainVerdict, step: WalkStep, { next, done }: RuleEndings): void {
    const entered = stepped(run.state, step);
    if (!('chain' in verdict)) {
      done.push({ state: entered, verdict: verdict.kind });
      return;
    }
    const outcomes = this.#chain(verdict.chain, entered);
    if (outcomes === undefined) {
      this.#note(run, `leads to the chain \`${verdict.chain}\`, which was not read`, 'it were empty');
      next.push(run.before);
      return;
    }
    for (const outcome of outcomes) {
      // The way in is a step only when something happened there.
      const isIdle = outcome.state.way === entered.way;
      const back = isIdle ? { ...outcome.state, way: run.before.way } : outcome.state;
      if (!isFallen(outcome)) done.push(outcome);
      else if (verdict.kind === 'goto') done.push({ state: back, verdict: 'return' });
      else next.push(back);
    }
  }

  #step({ chain, text, owner }: Run, effect: Effect): WalkStep {
    return { table: this.#name, chain, rule: text, effect, share: 1, owner };
  }

  #elementStep(set: string, { text, key, owner }: FoundElement, effect: Effect): WalkStep {
    return { table: this.#name, chain: set, rule: text, key, effect, share: 1, owner };
  }

  /** `goesOn`: as what the walk takes the rule. */
  #note({ chain, text }: Run, problem: string, goesOn: string): void {
    this.#input.unknown.add(
      uncertain(`the rule "${text}" of chain ${chain} in table ${this.#name} ${problem}`, goesOn),
    );
  }
}

/** IPS_DST_NAT (linux/netfilter/nf_conntrack_common.h) */
const STATUS_TRANSLATED = 32;
/** Bits of the connection state in nft's form: 1 for invalid, 8 for new (nft_ct.c). */
const STATES: Readonly<Record<Packet['state'], number>> = { INVALID: 1, NEW: 8 };
/** RTN_LOCAL and RTN_UNICAST (linux/rtnetlink.h) */
const KINDS = { local: 2, unicast: 1 } as const;

/** A field of the packet as words of nftables. */
function loaded(
  what: PacketField,
  state: PacketState,
  { packet, facts }: { readonly packet: Packet; readonly facts: NodeOfPacket },
): string {
  const kindOf = (address: PacketState['destination']) =>
    numberWord(isLocal(address, { facts, servers: undefined }) ? KINDS.local : KINDS.unicast);
  switch (what) {
    case 'source address':
      return addressBytes(packet.source);
    case 'destination address':
      return addressBytes(state.destination);
    case 'protocol':
      return protocolWord(packet.protocol);
    case 'source port':
      return '\0\0\0\0';
    case 'destination port':
      return `${portBytes(state.port)}\0\0`;
    case 'mark':
      return numberWord(state.mark);
    case 'input interface':
      return (packet.device ?? '').padEnd(16, '\0');
    case 'connection state':
      return numberWord(STATES[packet.state]);
    case 'connection status':
      return numberWord(state.dnat === undefined ? 0 : STATUS_TRANSLATED);
    case 'kind of source address':
      return kindOf(packet.source);
    case 'kind of destination address':
      return kindOf(state.destination);
  }
}
