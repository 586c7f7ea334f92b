/**
 * Walks a packet through what iptables-save printed, as the kernel does, and tells its fates with their probabilities.
 * The real kernel is asked the same questions in test/netns, so that this interpreter is checked too.
 */
import { type Address, type Cidr, cidrContains } from '../model/address.ts';
import { type SavedTable, SaveReader } from '../modes/netfilter/restore-text.ts';
import { type Fate, fateOf, isStopped, merge, type Outcome, type State, stopped, type Verdict } from './fates.ts';

export type { Fate } from './fates.ts';

/** The first packet of a connection. */
export interface Packet {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /** The device it comes in by; undefined when the node itself sends it. */
  readonly device: string | undefined;
  /** What conntrack says of it. Packets that it finds invalid are not translated. */
  readonly state: 'NEW' | 'INVALID';
}

/** What a node is, beside its rules. */
export interface NodeFacts {
  readonly localAddresses: ReadonlySet<string>;
  /** Names of `recent` lists that hold the packet's source. */
  readonly remembered: ReadonlySet<string>;
  readonly ipvs?: IpvsFacts;
}

/** What IPVS and sets say of a packet. */
export interface IpvsFacts {
  /** `ip:port` of those that a virtual server may choose for this packet; undefined when there is no such server. */
  backends(protocol: Packet['protocol'], destination: Address, port: number): readonly string[] | undefined;
  /** Entries of a set, as `ipset list` prints them. */
  entries(set: string): ReadonlySet<string>;
}

/** What a built-in chain does with what no rule decides. */
type Policies = ReadonlyMap<string, 'accept' | 'drop'>;

export function fatesOf(saved: string, packet: Packet, facts: NodeFacts): Fate[] {
  return interpreter(saved)(packet, facts);
}

/** Read once, for many packets. */
export function interpreter(saved: string): (packet: Packet, facts: NodeFacts) => Fate[] {
  const reader = new SaveReader();
  for (const line of saved.split('\n')) reader.read(line);
  const [tables, policies] = [reader.end(), policiesOf(saved)];
  return (packet, facts) => new Walk({ tables, policies, packet, facts }).fates();
}

/** `:FORWARD DROP [0:0]` of the filter table. */
function policiesOf(saved: string): Policies {
  const filter = /^\*filter$([\s\S]*?)^COMMIT$/m.exec(saved)?.[1] ?? '';
  const found = filter.matchAll(/^:([A-Z]+) (ACCEPT|DROP) /gm);
  return new Map([...found].map(([, chain = '', policy]) => [chain, policy === 'DROP' ? 'drop' : 'accept']));
}

interface WalkInput {
  readonly tables: ReadonlyMap<string, SavedTable>;
  readonly policies: Policies;
  readonly packet: Packet;
  readonly facts: NodeFacts;
}

class Walk {
  readonly #tables: ReadonlyMap<string, SavedTable>;
  readonly #policies: Policies;
  readonly #packet: Packet;
  readonly #facts: NodeFacts;

  constructor({ tables, policies, packet, facts }: WalkInput) {
    this.#tables = tables;
    this.#policies = policies;
    this.#packet = packet;
    this.#facts = facts;
  }

  fates(): Fate[] {
    const { destination, port, device } = this.#packet;
    const start: State = { mark: 0, destination, port, dnat: undefined, masqueraded: false, probability: 1 };
    const entry = device === undefined ? 'OUTPUT' : 'PREROUTING';
    const fates: Fate[] = [];
    const isInvalid = this.#packet.state === 'INVALID';
    const mangled = device === undefined ? this.#chain('mangle', 'OUTPUT', start) : [{ state: start, verdict: 'end' }];
    for (const before of mangled as Outcome[]) {
      if (before.verdict === 'drop') fates.push(stopped(before));
      else {
        const entered = isInvalid ? [{ state: start }] : this.#chain('nat', entry, before.state);
        for (const { state } of entered) fates.push(...this.#delivered(state, isInvalid));
      }
    }
    return merge(fates.filter((fate) => fate.probability > 0));
  }

  /** What becomes of a packet after it was translated, or not, on its way in. */
  #delivered(state: State, isInvalid: boolean): Fate[] {
    const { device, protocol } = this.#packet;
    const backends = this.#facts.ipvs?.backends(protocol, state.destination, state.port);
    if (backends !== undefined && this.#isLocal(state.destination)) {
      // IPVS takes what comes in after the filter table's INPUT, what the node sends before its OUTPUT.
      const passed = device === undefined ? [{ state, verdict: 'accept' } as const] : this.#builtIn('INPUT', state);
      return passed.flatMap((outcome) =>
        isStopped(outcome) ? [stopped(outcome)] : this.#balanced(outcome.state, backends),
      );
    }
    const fates: Fate[] = [];
    for (const filtered of this.#filter(state)) {
      if (isStopped(filtered)) fates.push(stopped(filtered));
      else if (isInvalid) fates.push(fateOf(filtered.state));
      else for (const sent of this.#chain('nat', 'POSTROUTING', filtered.state)) fates.push(fateOf(sent.state));
    }
    return fates;
  }

  /** IPVS chooses, and sends the packet out as if the node did. */
  #balanced(state: State, backends: readonly string[]): Fate[] {
    if (backends.length === 0) return [stopped({ state, verdict: 'reject' })];
    return backends.flatMap((backend) => {
      const sent = { ...translated(state, backend), probability: state.probability / backends.length };
      return this.#builtIn('OUTPUT', sent).flatMap((outcome) =>
        isStopped(outcome)
          ? [stopped(outcome)]
          : this.#chain('nat', 'POSTROUTING', outcome.state).map((last) => fateOf(last.state)),
      );
    });
  }

  /** INPUT, FORWARD, or OUTPUT and then INPUT for what the node sends to itself. */
  #filter(state: State): Outcome[] {
    const isLocal = this.#isLocal(state.destination);
    if (this.#packet.device !== undefined) return this.#builtIn(isLocal ? 'INPUT' : 'FORWARD', state);
    const out = this.#builtIn('OUTPUT', state);
    if (!isLocal) return out;
    return out.flatMap((outcome) =>
      outcome.verdict === 'drop' || outcome.verdict === 'reject' ? [outcome] : this.#builtIn('INPUT', outcome.state),
    );
  }

  /** A built-in chain of the filter table: its policy decides over what falls through. */
  #builtIn(name: string, state: State): Outcome[] {
    return this.#chain('filter', name, state).map((outcome) => {
      const falls = outcome.verdict === 'end' || outcome.verdict === 'return';
      return falls ? { ...outcome, verdict: this.#policies.get(name) ?? 'accept' } : outcome;
    });
  }

  /** All outcomes of a chain; 'end' and 'return' mean that the caller goes on. */
  #chain(table: string, name: string, start: State): Outcome[] {
    const rules = this.#tables.get(table)?.get(name);
    if (rules === undefined) throw new Error(`there is no chain ${table} ${name}`);
    let going: State[] = [start];
    const done: Outcome[] = [];
    for (const text of rules) {
      const rule = parseRule(text);
      const next: State[] = [];
      for (const state of going) {
        const chance = this.#chance(rule, state);
        if (chance < 1) next.push({ ...state, probability: state.probability * (1 - chance) });
        if (chance > 0) this.#take(table, rule, { ...state, probability: state.probability * chance }, { next, done });
      }
      going = next;
      if (going.length === 0) break;
    }
    for (const state of going) done.push({ state, verdict: 'end' });
    return done;
  }

  #take(table: string, rule: Rule, state: State, { next, done }: { next: State[]; done: Outcome[] }): void {
    const { target, isGoto } = rule;
    const verdict = VERDICTS[target];
    if (verdict !== undefined) done.push({ state, verdict });
    else if (target === '') next.push(state);
    else if (target === 'MARK') next.push({ ...state, mark: mangleMark(rule.option('--set-xmark'), state.mark) });
    else if (target === 'MASQUERADE') done.push({ state: { ...state, masqueraded: true }, verdict: 'accept' });
    else if (target === 'DNAT')
      done.push({ state: translated(state, rule.option('--to-destination')), verdict: 'accept' });
    else {
      for (const outcome of this.#chain(table, target, state)) {
        const falls = outcome.verdict === 'end' || outcome.verdict === 'return';
        if (!falls) done.push(outcome);
        else if (isGoto) done.push({ state: outcome.state, verdict: 'return' });
        else next.push(outcome.state);
      }
    }
  }

  /** Probability that the rule matches: 0, 1, or what `statistic` says. */
  #chance(rule: Rule, state: State): number {
    let chance = 1;
    for (const match of rule.matches) {
      const answer = this.#matches(match, state);
      if (typeof answer === 'number') chance *= answer;
      else if (answer === match.inverted) return 0;
    }
    return chance;
  }

  #matches({ option, value }: Match, state: State): boolean | number {
    const { protocol, source, device } = this.#packet;
    switch (option) {
      case '-s':
        return cidrContains(value as Cidr, source);
      case '-d':
        return cidrContains(value as Cidr, state.destination);
      case '-p':
        return protocol.toLowerCase() === value;
      case '-i':
        return device !== undefined && (value.endsWith('+') ? device.startsWith(value.slice(0, -1)) : device === value);
      case '--dport': {
        const [first = '', last = first] = value.split(':');
        return state.port >= Number(first) && state.port <= Number(last);
      }
      case '--mark': {
        const [wanted = 0, mask = 0] = value.split('/').map(Number);
        return (state.mark & mask) >>> 0 === wanted;
      }
      case '--ctstate': {
        const states = value.split(',');
        return states.includes(this.#packet.state) || (states.includes('DNAT') && state.dnat !== undefined);
      }
      case '--ctorigdst':
        return cidrContains(value as Cidr, this.#packet.destination);
      case '--dst-type':
        return this.#isLocal(state.destination);
      case '--src-type':
        return this.#isLocal(source);
      case '--probability':
        return Number(value);
      case '--match-set':
        return this.#isInSet(value, state);
      case '--rcheck':
        return this.#facts.remembered.has(value);
      default:
        throw new Error(`the interpreter does not know the match ${option} ${value}`);
    }
  }

  /** `NAME dst,dst,src`: the entry that the packet's addresses and port make. */
  #isInSet(value: string, { destination, port }: State): boolean {
    const { protocol, source } = this.#packet;
    const [name = '', which = ''] = value.split(' ');
    const entries = this.#facts.ipvs?.entries(name) ?? new Set<string>();
    const [first, second, third] = which.split(',');
    if (second === undefined) {
      return entries.has(first === 'src' ? source : destination) || (first === 'dst' && entries.has(String(port)));
    }
    const socket = `${destination},${protocol.toLowerCase()}:${port}`;
    if (third === undefined) return entries.has(socket);
    if (entries.has(`${socket},${source}`)) return true;
    const nets = [...entries].filter((entry) => entry.startsWith(`${socket},`) && entry.includes('/'));
    return nets.some((entry) => cidrContains(entry.split(',')[2] as Cidr, source));
  }

  #isLocal(address: Address): boolean {
    return this.#facts.localAddresses.has(address) || address.startsWith('127.') || address === '::1';
  }
}

const VERDICTS: Readonly<Record<string, Verdict>> = {
  ACCEPT: 'accept',
  DROP: 'drop',
  REJECT: 'reject',
  RETURN: 'return',
};

interface Match {
  readonly option: string;
  readonly value: string;
  readonly inverted: boolean;
}

interface Rule {
  readonly matches: readonly Match[];
  readonly target: string;
  readonly isGoto: boolean;
  option(name: string): string;
}

/** Options of a match that say nothing about the packet, with their number of values. */
const IGNORED: Readonly<Record<string, number>> = {
  '-m': 1,
  '--comment': 1,
  '--mode': 1,
  '--reject-with': 1,
  '--random-fully': 0,
  '--seconds': 1,
  '--reap': 0,
  '--set': 0,
  '--mask': 1,
  '--rsource': 0,
};

function parseRule(text: string): Rule {
  const words = text.match(/"(?:\\.|[^"])*"|\S+/g) ?? [];
  const matches: Match[] = [];
  const options = new Map<string, string>();
  let target = '';
  let isGoto = false;
  let inverted = false;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? '';
    const value = words[i + 1] ?? '';
    if (word === '!') {
      inverted = true;
      continue;
    }
    if (word === '-j' || word === '-g') {
      target = value;
      isGoto = word === '-g';
      i += 1;
    } else if (word === '--set-xmark' || word === '--to-destination' || word === '--name') {
      options.set(word, value);
      i += 1;
    } else if (word === '--match-set') {
      matches.push({ option: word, value: `${value} ${words[i + 2] ?? ''}`, inverted });
      i += 2;
    } else if (word === '--rcheck')
      matches.push({ option: word, value: /--name (\S+)/.exec(text)?.[1] ?? '', inverted });
    else if (word in IGNORED) i += IGNORED[word] ?? 0;
    else {
      matches.push({ option: word, value, inverted });
      i += 1;
    }
    inverted = false;
  }
  return { matches, target, isGoto, option: (name) => options.get(name) ?? '' };
}

/** MARK --set-xmark value/mask: clear the mask's bits, then flip those of the value (iptables-extensions(8)). */
function mangleMark(option: string, mark: number): number {
  const [value = 0, mask = 0xffffffff] = option.split('/').map(Number);
  return ((mark & ~mask) ^ value) >>> 0;
}

function translated(state: State, to: string): State {
  const colon = to.lastIndexOf(':');
  const destination = to.slice(0, colon).replace(/[[\]]/g, '') as Address;
  return { ...state, destination, port: Number(to.slice(colon + 1)), dnat: to };
}
