/**
 * Walks that are remembered: a packet is walked again only when something that its last walk read has changed. Views may be made anew
 * for each commit; what they hold is compared.
 */
import type { NodeOfPacket, Packet } from '../../../src/inspect/explain/packet.ts';
import { type Walked, walk } from '../../../src/inspect/explain/walk.ts';
import type { FamilyView, RulesView, ServersView, TableView } from '../../../src/proxy/modes/view.ts';
import { kept } from './kept.ts';

interface Remembered {
  readonly facts: NodeOfPacket;
  /** What was read, and what it was then. */
  readonly reads: readonly (readonly [what: string, content: number])[];
  readonly walked: Walked;
}

export class Walks {
  readonly #recorders = new Map<string, Recorder>();
  /** Contents by number, so that long ones are compared once. */
  readonly #numbers = new Map<string, number>();
  /** Number of walks that could not be remembered. */
  made = 0;

  /** Views may hold something else from now on, even if they are the same objects. */
  begin(): void {
    for (const recorder of this.#recorders.values()) recorder.begin();
  }

  /** As `walk` of src/inspect/explain/walk.ts. Packets must be the same objects to be recognised. */
  readonly walk = (view: FamilyView, packet: Packet, facts: NodeOfPacket): Walked => {
    const kind = [view.family, view.table && 'table', view.rules && 'rules', view.servers && 'servers'].join(' ');
    const recorder = kept(this.#recorders, kind, () => new Recorder(view, this.#numbers));
    recorder.look(view);
    const known = recorder.remembered.get(packet);
    if (known !== undefined && sameFacts(known.facts, facts) && recorder.isCurrent(known.reads)) return known.walked;
    this.made += 1;
    return recorder.walk(packet, facts);
  };
}

function sameFacts(a: NodeOfPacket, b: NodeOfPacket): boolean {
  return a.localAddresses === b.localAddresses && a.remembered === b.remembered;
}

/** A view that notes what is read. It stays one object, because the engine remembers rules that it parsed by it. */
class Recorder {
  readonly remembered = new WeakMap<Packet, Remembered>();
  #current: FamilyView;
  /** How each thing that was ever read is asked for. */
  readonly #asking = new Map<string, () => string>();
  /** Contents in the current view. */
  readonly #contents = new Map<string, number>();
  #reads = new Set<string>();
  readonly #view: FamilyView;

  readonly #numbers: Map<string, number>;

  constructor(view: FamilyView, numbers: Map<string, number>) {
    this.#current = view;
    this.#numbers = numbers;
    this.#view = {
      family: view.family,
      rules: view.rules && this.#rules(),
      servers: view.servers && this.#servers(),
      table: view.table && this.#table(),
    };
  }

  look(view: FamilyView): void {
    if (view === this.#current) return;
    this.#current = view;
    this.begin();
  }

  begin(): void {
    this.#contents.clear();
  }

  isCurrent(reads: Remembered['reads']): boolean {
    return reads.every(([what, content]) => this.#contentNow(what) === content);
  }

  walk(packet: Packet, facts: NodeOfPacket): Walked {
    this.#reads = new Set();
    const walked = walk(this.#view, packet, facts);
    const reads = [...this.#reads].map((what) => [what, this.#contentNow(what)] as const);
    this.remembered.set(packet, { facts, reads, walked });
    return walked;
  }

  #contentNow(what: string): number {
    return kept(this.#contents, what, () => this.#numberOf(this.#asking.get(what)?.() ?? ''));
  }

  #numberOf(text: string): number {
    return kept(this.#numbers, text, () => this.#numbers.size + 1);
  }

  /** Notes a reading. `text`: all of its content. */
  #read<T>(what: string, value: () => T, text: (value: T) => string): T {
    this.#reads.add(what);
    if (!this.#asking.has(what)) this.#asking.set(what, () => text(value()));
    return value();
  }

  #rules(): RulesView {
    const rules = () => this.#current.rules as RulesView;
    return {
      chain: (table, name) =>
        this.#read(
          `chain ${table} ${name}`,
          () => rules().chain(table, name),
          (chain) => (chain === undefined ? 'none' : chain.map(({ text }) => `\n${text}`).join('')),
        ),
      policy: (chain) =>
        this.#read(
          `policy ${chain}`,
          () => rules().policy(chain),
          (policy) => policy,
        ),
    };
  }

  #servers(): ServersView {
    const servers = () => this.#current.servers as ServersView;
    return {
      server: (id) => {
        const { protocol, address, port } = id;
        return this.#read(`server ${protocol} ${address} ${port}`, () => servers().server(id), JSON.stringify);
      },
      hasEntry: (set, entry) => this.#read(`entry ${set} ${entry}`, () => servers().hasEntry(set, entry), String),
      hasAddress: (address) => this.#read(`address ${address}`, () => servers().hasAddress(address), String),
    };
  }

  #table(): TableView {
    const table = () => this.#current.table as TableView;
    return {
      name: table().name,
      called: (hook) =>
        this.#read(
          `called ${hook}`,
          () => table().called(hook),
          (chains) => chains.map(({ name, type }) => `${name} ${type}`).join(' '),
        ),
      chain: (name) =>
        this.#read(
          `chain ${name}`,
          () => table().chain(name),
          (rules) => (rules === undefined ? 'none' : kept(RULES, rules, () => JSON.stringify(rules.map(wholeRule)))),
        ),
      set: (name) => this.#read(`set ${name}`, () => table().set(name), JSON.stringify),
      element: (set, key) =>
        this.#read(
          `element ${set} ${key}`,
          () => table().element(set, key),
          (found) => (found === undefined ? 'none' : elementText(found)),
        ),
      elements: (set) =>
        this.#read(
          `elements ${set}`,
          () => [...table().elements(set)],
          (all) => all.map(elementText).join('\n'),
        ),
    };
  }
}

/** Texts of chains of nftables, whose rules are decoded when they are first asked for. */
const RULES = new WeakMap<object, string>();

function wholeRule({ text, expressions }: { readonly text: string; readonly expressions: readonly unknown[] }): object {
  return { text, expressions };
}

function elementText({
  key,
  end,
  data,
}: {
  readonly key: string;
  readonly end: string;
  readonly data: string;
}): string {
  return JSON.stringify([key, end, data]);
}
