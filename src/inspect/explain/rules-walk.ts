/**
 * Walks a packet through rules of iptables, and through virtual servers of IPVS, as the kernel does. test/netns and
 * test/vm send the same packets through the real kernel, so that this interpreter is checked, too.
 */

import { endpointText } from '../../base/address.ts';
import type { Rule, Table } from '../../proxy/modes/netfilter/rules.ts';
import type { RulesView, ServersView, ServerView } from '../../proxy/modes/view.ts';
import { destinationKey, destinationText, serverText } from '../../proxy/modes/virtual-servers/tracked-objects.ts';
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
  type RuleVerdict,
  startOf,
  stepped,
  stopped,
  translated,
  uncertain,
  type WalkOutcome,
  type WalkStep,
} from './packet.ts';
import { isMatching, type MemoryNames, Nets, Octets, type ParsedRule, parseRule, type Surroundings } from './rule.ts';

export interface RulesWalkInput {
  readonly rules: RulesView;
  readonly servers: ServersView | undefined;
  readonly packet: Packet;
  readonly facts: NodeOfPacket;
  /** Collect the memories that rules looked into, and sentences about rules that were not interpreted. */
  readonly memories: MemoryNames;
  readonly unknown: Set<string>;
}

/** A rule in its chain. */
interface RulePlace {
  readonly table: Table;
  readonly chain: string;
  readonly line: Rule;
  readonly rule: ParsedRule;
  /** The Service of the rules that led to its chain. */
  readonly caller: Rule['owner'];
}

/** The Service that the rule names, or the rules that led to its chain. To look for it costs more than most rules, which do not match. */
function ownerOf({ line, caller }: RulePlace): Rule['owner'] {
  return line.owner ?? caller;
}

interface RuleEndings {
  /** Packets that go on with the next rule. */
  readonly next: PacketState[];
  /** Packets that have left the chain. */
  readonly done: WalkOutcome[];
}

const VERDICTS: ReadonlyMap<string, Exclude<RuleVerdict, 'end'>> = new Map([
  ['ACCEPT', 'accept'],
  ['DROP', 'drop'],
  ['REJECT', 'reject'],
  ['RETURN', 'return'],
]);

/** Parsed rules of a view by their text, because many packets pass the same ones. */
const PARSED = new WeakMap<RulesView, Map<string, ParsedRule>>();
/** Far more than one packet passes. A limit is needed, because a view may live as long as the agent. */
const MAX_PARSED = 20_000;

function parsedOf(rules: RulesView): Map<string, ParsedRule> {
  const kept = PARSED.get(rules);
  if (kept !== undefined && kept.size < MAX_PARSED) return kept;
  const parsed = new Map<string, ParsedRule>();
  PARSED.set(rules, parsed);
  return parsed;
}

export class RulesWalk {
  readonly #rules: RulesView;
  readonly #surroundings: Surroundings;
  readonly #unknown: Set<string>;
  readonly #parsed: Map<string, ParsedRule>;

  constructor({ rules, unknown, ...around }: RulesWalkInput) {
    this.#rules = rules;
    this.#parsed = parsedOf(rules);
    this.#surroundings = { ...around, nets: new Nets(), octets: new Octets() };
    this.#unknown = unknown;
  }

  /** Yields between portions of work, which are short. */
  *fates(): Generator<undefined, Fate[]> {
    const { packet } = this.#surroundings;
    const start = startOf(packet);
    const isSent = packet.device === undefined;
    const mangled = this.#hook('mangle', isSent ? 'OUTPUT' : 'PREROUTING', start);
    const fates: Fate[] = [];
    for (const outcome of mangled) {
      // Packets that conntrack finds invalid are not translated.
      const isTranslated = packet.state === 'NEW' && !isStopped(outcome);
      const entered = isTranslated ? this.#hook('nat', isSent ? 'OUTPUT' : 'PREROUTING', outcome.state) : [outcome];
      for (const one of entered) {
        if (isStopped(one)) fates.push(stopped(one));
        else fates.push(...(yield* this.#delivered(one.state)));
        yield;
      }
    }
    return mergedFates(fates);
  }

  /** Fates of a packet from its way in on, translated or not. */
  *#delivered(state: PacketState): Generator<undefined, Fate[]> {
    const { packet, servers } = this.#surroundings;
    const server = servers?.server({ protocol: packet.protocol, address: state.destination, port: state.port });
    // IPVS begins no connection with a packet that does not begin one (ip_vs_proto_tcp.c, tcp_conn_schedule).
    if (server !== undefined && packet.state === 'NEW' && isLocal(state.destination, this.#surroundings)) {
      // IPVS gets a packet from outside after the filter table's INPUT, and one of the node before its OUTPUT.
      const passed = packet.device === undefined ? accepted(state) : this.#filtered('INPUT', state);
      const fates: Fate[] = [];
      for (const outcome of passed) {
        const sent = isStopped(outcome) ? [] : candidates(server, outcome.state, this.#surroundings);
        if (isStopped(outcome)) fates.push(stopped(outcome));
        else if (sent.length === 0) {
          fates.push(stopped({ state: stepped(outcome.state, refusal(server)), verdict: 'reject' }));
        }
        for (const one of sent) {
          fates.push(...this.#balanced(one));
          yield;
        }
      }
      return fates;
    }
    return this.#received(state).flatMap((outcome) => (isStopped(outcome) ? [stopped(outcome)] : this.#sent(outcome)));
  }

  /** IPVS sends the packet out as if the node did. A packet to the node itself has arrived (ip_vs_xmit.c, ip_vs_nat_send_or_cont). */
  #balanced(state: PacketState): Fate[] {
    if (this.#surroundings.packet.device !== undefined && isLocal(state.destination, this.#surroundings))
      return [fateOf(state)];
    return this.#filtered('OUTPUT', state).flatMap((outcome) =>
      isStopped(outcome) ? [stopped(outcome)] : this.#masqueraded(outcome.state),
    );
  }

  /** INPUT, FORWARD, or OUTPUT and then INPUT for what the node sends to itself. */
  #received(state: PacketState): WalkOutcome[] {
    const isHere = isLocal(state.destination, this.#surroundings);
    if (this.#surroundings.packet.device !== undefined) return this.#filtered(isHere ? 'INPUT' : 'FORWARD', state);
    const out = this.#filtered('OUTPUT', state);
    if (!isHere) return out;
    return out.flatMap((outcome) => (isStopped(outcome) ? [outcome] : this.#filtered('INPUT', outcome.state)));
  }

  /** A packet that has arrived at this node is not sent on. */
  #sent({ state }: WalkOutcome): Fate[] {
    const { device, state: known } = this.#surroundings.packet;
    const hasArrived = device !== undefined && isLocal(state.destination, this.#surroundings);
    return hasArrived || known === 'INVALID' ? [fateOf(state)] : this.#masqueraded(state);
  }

  #masqueraded(state: PacketState): Fate[] {
    return this.#hook('nat', 'POSTROUTING', state).map((last) => fateOf(last.state));
  }

  /** A built-in chain of the filter table: its policy decides over what falls through. */
  #filtered(chain: string, state: PacketState): WalkOutcome[] {
    return this.#hook('filter', chain, state).map((outcome) => {
      if (!isFallen(outcome)) return outcome;
      if (this.#rules.policy(chain) === 'accept') return { ...outcome, verdict: 'accept' };
      const effect = { kind: 'drop' } as const;
      const step: WalkStep = { table: 'filter', chain, rule: 'policy DROP', effect, share: 1, owner: undefined };
      return { state: stepped(outcome.state, step), verdict: 'drop' };
    });
  }

  /** A built-in chain; one that the view does not have holds nothing of the proxy. */
  #hook(table: Table, chain: string, state: PacketState): WalkOutcome[] {
    return this.#chain(table, chain, state) ?? [{ state, verdict: 'end' }];
  }

  /**
   * All outcomes of a chain; 'end' and 'return' mean that the caller goes on. undefined when there is no such chain. `owner` is the
   * Service of the jump into it, because rules that were read of a Service's chain do not name it.
   */
  #chain(table: Table, chain: string, start: PacketState, owner?: Rule['owner']): WalkOutcome[] | undefined {
    const rules = this.#rules.chain(table, chain);
    if (rules === undefined) return undefined;
    let going: PacketState[] = [start];
    const done: WalkOutcome[] = [];
    for (const line of rulesFor(rules, start)) {
      const place: RulePlace = { table, chain, line, rule: this.#read(line.text), caller: owner };
      const next: PacketState[] = [];
      for (const state of going) this.#rule(place, state, { next, done });
      going = next;
      if (going.length === 0) break;
    }
    for (const state of going) done.push({ state, verdict: 'end' });
    return done;
  }

  #read(text: string): ParsedRule {
    const known = this.#parsed.get(text);
    if (known !== undefined) return known;
    const rule = parseRule(text);
    this.#parsed.set(text, rule);
    return rule;
  }

  #rule(place: RulePlace, state: PacketState, endings: RuleEndings): void {
    const { matches, chance, unknown } = place.rule;
    const isHit = matches.every((match) => isMatching(match, state, this.#surroundings));
    if (!isHit || unknown !== undefined) {
      endings.next.push(state);
      if (isHit) this.#note(place, `has \`${unknown}\`, which is not interpreted`, 'it did not match');
      return;
    }
    if (chance < 1) endings.next.push({ ...state, probability: state.probability * (1 - chance) });
    if (chance > 0) this.#applyRule(place, { ...state, probability: state.probability * chance }, endings);
  }

  /** The effect of a rule that matches. */
  #applyRule(place: RulePlace, state: PacketState, endings: RuleEndings): void {
    const { target, setMark, to } = place.rule;
    const verdict = VERDICTS.get(target);
    const after = (effect: Effect, changed = state) => stepped(changed, stepOf(place, effect));
    if (verdict !== undefined) endings.done.push({ state: after({ kind: verdict as 'accept' }), verdict });
    else if (target === '') endings.next.push(state);
    else if (target === 'MARK' && setMark !== undefined) {
      const mark = ((state.mark & ~setMark.mask) ^ setMark.value) >>> 0;
      endings.next.push(after({ kind: 'mark', mark }, { ...state, mark }));
    } else if (target === 'MASQUERADE') {
      endings.done.push({ state: after({ kind: 'masquerade' }, { ...state, masqueraded: true }), verdict: 'accept' });
    } else if (target === 'DNAT' && to !== undefined) {
      const sent = translated(state, to.text, to.address, to.port);
      endings.done.push({ state: after({ kind: 'translate', to: to.text }, sent), verdict: 'accept' });
    } else this.#enter(place, state, endings);
  }

  /** Jumps to a chain; the jump is a step only when something happened there. */
  #enter(place: RulePlace, state: PacketState, { next, done }: RuleEndings): void {
    const { target, isGoto } = place.rule;
    const entered = stepped(state, stepOf(place, { kind: isGoto ? 'goto' : 'jump', chain: target }));
    const outcomes = this.#chain(place.table, target, entered, ownerOf(place));
    if (outcomes === undefined) {
      const what = `leads to \`${target}\`, which is neither a chain that was read nor a target that is interpreted`;
      this.#note(place, what, 'it had no effect');
      next.push(state);
      return;
    }
    for (const outcome of outcomes) {
      const back = outcome.state.way === entered.way ? { ...outcome.state, way: state.way } : outcome.state;
      if (!isFallen(outcome)) done.push(outcome);
      else if (isGoto) done.push({ state: back, verdict: 'return' });
      else next.push(back);
    }
  }

  /** `goesOn`: as what the walk takes the rule. */
  #note({ table, chain, line }: RulePlace, problem: string, goesOn: string): void {
    this.#unknown.add(uncertain(`the rule \`-A ${chain} ${line.text}\` of table ${table} ${problem}`, goesOn));
  }
}

/** Shorter chains are walked rule by rule. */
const LONG_CHAIN = 64;

/** Rules of a long chain, by their place in it. */
interface LongChain {
  /** By the one address, or the one port, that they are for: `10.96.0.10`, `:30080`. */
  readonly byDestination: ReadonlyMap<string, readonly number[]>;
  readonly others: readonly number[];
}

const LONG_CHAINS = new WeakMap<readonly Rule[], LongChain>();

/** The rules that can match a packet to this destination, in order: kube-proxy has chains with a rule for each Service, or for each node port. */
function rulesFor(
  rules: readonly Rule[],
  { destination, port }: Pick<PacketState, 'destination' | 'port'>,
): readonly Rule[] {
  if (rules.length < LONG_CHAIN) return rules;
  const { byDestination, others } = LONG_CHAINS.get(rules) ?? indexed(rules);
  const own = [...(byDestination.get(destination) ?? []), ...(byDestination.get(`:${port}`) ?? [])];
  const places = own.length === 0 ? others : [...own, ...others].sort((a, b) => a - b);
  return places.flatMap((place) => rules[place] ?? []);
}

function indexed(rules: readonly Rule[]): LongChain {
  const byDestination = new Map<string, number[]>();
  const others: number[] = [];
  for (const [place, { text }] of rules.entries()) {
    const key = destinationOf(text);
    const own = key === undefined ? others : byDestination.get(key);
    if (own === undefined) byDestination.set(key ?? '', [place]);
    else own.push(place);
  }
  const found = { byDestination, others };
  LONG_CHAINS.set(rules, found);
  return found;
}

/** The key of a rule in `LongChain`; undefined for one that may match many destinations. */
function destinationOf(text: string): string | undefined {
  const [, v4, v6] = /^-d (?:([\d.]+)\/32|(\S*:\S*)\/128) /.exec(text) ?? [];
  const address = v4 ?? v6;
  if (address !== undefined) return address;
  const [, port] = /^(?:[^"!]|"[^"]*")*? --dport (\d+) /.exec(text) ?? [];
  return port === undefined ? undefined : `:${port}`;
}

function accepted(state: PacketState): WalkOutcome[] {
  return [{ state, verdict: 'accept' }];
}

function stepOf(place: RulePlace, effect: Effect): WalkStep {
  const { table, chain, line, rule } = place;
  return { table, chain, rule: line.text, effect, share: rule.chance, owner: ownerOf(place) };
}

/**
 * The packet on its way to each destination that the server may choose; none where it refuses. Destinations without a weight get no new
 * connections, and one that remembers the client gets them all. Shares follow the weights; schedulers that look at connections may
 * divide otherwise for a while (Documentation/networking/ipvs-sysctl.rst, ipvsadm(8)).
 */
function candidates(view: ServerView, state: PacketState, { facts, memories }: Surroundings): PacketState[] {
  const { server, owner } = view;
  const live = view.destinations.filter(({ weight }) => weight > 0);
  const keys = server.timeout > 0 ? live.map((one) => destinationKey(server, one)) : [];
  for (const key of keys) memories.destinations.add(key);
  const known = live.filter((_, i) => facts.remembered.has(keys[i] ?? ''));
  const chosen = known.length > 0 ? known.slice(0, 1) : live;
  const all = chosen.reduce((sum, { weight }) => sum + weight, 0);
  return chosen.map((destination) => {
    const share = destination.weight / all;
    const to = endpointText(destination.address, destination.port);
    const step: WalkStep = {
      table: 'ipvs',
      chain: serverText({ server, owner }),
      rule: destinationText({ server, destination, owner }),
      effect: { kind: 'translate', to },
      share,
      owner,
    };
    const sent = translated(state, to, destination.address, destination.port);
    return stepped({ ...sent, probability: state.probability * share }, step);
  });
}

/** The step of a server without a destination that has a weight (ip_vs_core.c, ip_vs_leave). */
function refusal({ server, owner }: ServerView): WalkStep {
  const rule = 'no destination with a weight';
  return { table: 'ipvs', chain: serverText({ server, owner }), rule, effect: { kind: 'reject' }, share: 1, owner };
}
