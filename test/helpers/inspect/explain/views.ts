/** Views of kernels in memory, and of what iptables-save printed, to walk packets through. */
import assert from 'node:assert/strict';
import type { Address, Family } from '../../../../src/base/address.ts';
import type { Fate, NodeOfPacket, Packet } from '../../../../src/inspect/explain/packet.ts';
import { walk } from '../../../../src/inspect/explain/walk.ts';
import type { ServerId } from '../../../../src/kernel/ipvs-kernel.ts';
import { type NftElement, TABLE } from '../../../../src/kernel/nftables-kernel.ts';
import { SaveReader } from '../../../../src/proxy/modes/netfilter/restore-text.ts';
import { ownerInComment, type Rule } from '../../../../src/proxy/modes/netfilter/rules.ts';
import { calledChains } from '../../../../src/proxy/modes/nft-table/table-view.ts';
import type { FamilyView, RulesView, ServersView, TableView } from '../../../../src/proxy/modes/view.ts';
import { destinationKey, serverKey } from '../../../../src/proxy/modes/virtual-servers/tracked-objects.ts';
import type { FakeIpvs } from '../../kernel/fake-ipvs.ts';
import type { FakeTable } from '../../kernel/fake-nft.ts';

/** Fates in a kernel of which every rule must be interpreted. */
export function fatesIn(view: FamilyView, packet: Packet, facts: NodeOfPacket): readonly Fate[] {
  const { fates, unknown } = walk(view, packet, facts);
  assert.deepEqual(unknown, []);
  const sum = fates.reduce((all, { probability }) => all + probability, 0);
  assert.ok(Math.abs(sum - 1) < 1e-9, `the probabilities add up to ${sum}`);
  return fates;
}

/** All that iptables-save printed, also of built-in chains. */
export function viewOfSaved(saved: string, family: Family, servers?: ServersView): FamilyView {
  return { family, rules: rulesOfSaved(saved), servers };
}

export function rulesOfSaved(saved: string): RulesView {
  const reader = new SaveReader();
  for (const line of saved.split('\n')) reader.read(line);
  const tables = reader.end();
  const filter = /^\*filter$([\s\S]*?)^COMMIT$/m.exec(saved)?.[1] ?? '';
  const dropping = new Set([...filter.matchAll(/^:([A-Z]+) DROP /gm)].map(([, chain]) => chain));
  const chains = new Map<string, readonly Rule[] | undefined>();
  return {
    chain(table, name) {
      const key = `${table} ${name}`;
      if (!chains.has(key)) chains.set(key, tables.get(table)?.get(name)?.map(ruleOf));
      return chains.get(key);
    },
    policy: (chain) => (dropping.has(chain) ? 'drop' : 'accept'),
  };
}

/** Most rules are never asked for their owner. */
function ruleOf(text: string): Rule {
  return {
    text,
    get owner() {
      return ownerInComment(text);
    },
  };
}

export function viewOfTable({ chains, sets }: FakeTable, family: Family): FamilyView {
  const owned = (element: NftElement) => ({ ...element, owner: undefined });
  const table: TableView = {
    name: TABLE,
    called: (hook) => calledChains(chains, hook),
    chain: (name) => chains.get(name)?.rules,
    set: (name) => sets.get(name)?.set,
    element(set, key) {
      const found = sets.get(set)?.elements.get(key);
      return found && owned(found);
    },
    *elements(set) {
      for (const element of sets.get(set)?.elements.values() ?? []) yield owned(element);
    },
  };
  return { family, table };
}

export function serversOf(kernel: FakeIpvs): ServersView {
  return {
    server(id) {
      const found = kernel.virtual.get(serverKey(id));
      return found && { server: found.server, destinations: [...found.destinations.values()], owner: undefined };
    },
    hasEntry: (set, entry) => kernel.sets.get(set)?.entries.has(entry) === true,
    hasAddress: (address) => kernel.ours.has(address),
  };
}

/** Names of the memories of all virtual servers for these destinations. */
export function memoriesOf(kernel: FakeIpvs, to: readonly { address: Address; port: number }[]): Set<string> {
  const servers: ServerId[] = [...kernel.virtual.values()].map(({ server }) => server);
  return new Set(servers.flatMap((server) => to.map((one) => destinationKey(server, one))));
}
