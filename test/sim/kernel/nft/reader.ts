/** The simulated ruleset for the checks: read by the real decoders, without a process and without faults. */
import { NetlinkSocket } from '../../../../native/netlink-socket.ts';
import { readChains, readElements, readRules, readSets } from '../../../../native/nft/listings.ts';
import type { TableId } from '../../../../native/nft/request.ts';
import { PROXY_TABLES } from '../../../../src/agent/predecessors.ts';
import type { Family } from '../../../../src/base/address.ts';
import type { Hook, NftElement, NftState, ReadRule } from '../../../../src/kernel/nftables-kernel.ts';
import { elementOf, ruleOf } from '../../../../src/kernel/nftables-reading.ts';
import { TRACE_TABLE } from '../../../../src/kernel/traced-packets.ts';
import type { NftKernelState } from './kernel.ts';
import { chainBody, elementsBody, ruleBody, setBody, tableBody } from './listing.ts';
import { type Table, tableKey } from './ruleset.ts';

const RECEIVE_BUFFER = 64 * 1024 * 1024;
const OURS: readonly string[] = [...Object.values(PROXY_TABLES), TRACE_TABLE];
const NOBODY = { pid: 0, name: '' };

export class KernelReader {
  readonly #kernel: NftKernelState;
  readonly #socket: NetlinkSocket;
  readonly #states = new WeakMap<Table, NftState>();
  readonly #texts = new WeakMap<Table, string>();

  constructor(kernel: NftKernelState) {
    this.#kernel = kernel;
    const socket = kernel.socket(RECEIVE_BUFFER);
    this.#socket = new NetlinkSocket({
      send: (datagram) => kernel.take(datagram, socket, NOBODY),
      receive: (into) => socket.receive(into),
      close: () => kernel.closed(socket),
    });
  }

  stateOf(family: Family, name: string): NftState | undefined {
    const table = this.#kernel.ruleset.get(tableKey(family === 'IPv4' ? 2 : 10, name));
    if (table === undefined) return undefined;
    const state = this.#states.get(table) ?? this.#read({ family, table: name });
    this.#states.set(table, state);
    return state;
  }

  bytesOfOthers(): string {
    const others = [...this.#kernel.ruleset.values()].filter(({ name }) => !OURS.includes(name));
    return others.map((table) => this.#textOf(table)).join('\n');
  }

  #textOf(table: Table): string {
    const known = this.#texts.get(table);
    if (known !== undefined) return known;
    const bodies = [tableBody(table)];
    for (const chain of table.chains.values())
      bodies.push(chainBody(table, chain), ...chain.rules.map((rule) => ruleBody(table, chain, rule)));
    for (const set of table.sets.values())
      bodies.push(setBody(table, set), elementsBody(table, set, [...set.elements.values()], 0));
    const text = `table ${table.family} ${table.name}: ${Buffer.concat(bodies).toString('latin1')}`;
    this.#texts.set(table, text);
    return text;
  }

  /** As `readTable`, at one moment. */
  #read(id: TableId): NftState {
    const chains = new Map<string, { readonly hook?: Hook; readonly rules: ReadRule[] }>();
    for (const { name, base } of readChains(this.#socket, id))
      chains.set(name, { ...(base === undefined ? {} : { hook: base }), rules: [] });
    for (const { chain, comment, expressions } of readRules(this.#socket, id))
      chains.get(chain)?.rules.push(ruleOf(comment, expressions, id.family));
    const sets = new Map<string, readonly NftElement[]>();
    for (const { name, isDynamic } of [...readSets(this.#socket, id)]) {
      const parts = isDynamic ? [] : [...readElements(this.#socket, id, name)];
      sets.set(name, parts.flat().map(elementOf));
    }
    return { chains, sets };
  }
}
