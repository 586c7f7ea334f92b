/** The elements of a Service in the table of nftables mode, and the chains to which they lead. Pure. */

import type { Family } from '../../base/address.ts';
import type { NftElement, NftSet } from '../../kernel/nftables-kernel.ts';
import type { Frontend, ServicePort } from '../../proxy/model/service-port.ts';
import { numberWord, portKey, rangeOf, socketKey } from '../../proxy/modes/nft-table/element-bytes.ts';
import { entryText, ruleText } from '../../proxy/modes/nft-table/print.ts';
import { LOCAL, SETS } from '../../proxy/modes/nftables/names.ts';
import type { TableView } from '../../proxy/modes/view.ts';
import type { KernelPlace } from '../wire/service.ts';

const OF_ADDRESS = [SETS.services, SETS.refusals, SETS.guarded, SETS.serviceConnections] as const;
const OF_NODE_PORT = [SETS.nodePorts, SETS.nodePortRefusals, SETS.nodePortConnections] as const;
/** Chains that are followed. */
const MAX_CHAINS = 100;

export function elementLines(ports: readonly ServicePort[], view: TableView, family: Family): KernelPlace[] {
  const found = new Map<NftSet, NftElement[]>();
  const add = (set: NftSet, key: string): boolean => {
    const element = view.element(set.name, key);
    if (element === undefined) return false;
    const elements = found.get(set) ?? [];
    elements.push(element);
    found.set(set, elements);
    return true;
  };
  for (const port of ports) for (const frontend of port.frontends) addFrontend(port, frontend, add);
  const places = [...found].map(([set, elements]) => ({
    where: `${set.data === undefined ? 'set' : 'map'} ${set.name}`,
    lines: elements.map((element) => entryText(set, element, family)),
  }));
  const verdicts = [...found].filter(([{ data }]) => data === 'verdict').flatMap(([, elements]) => elements);
  return [
    ...places,
    ...chainLines(
      verdicts.flatMap(({ data }) => chainOf(data)),
      view,
    ),
  ];
}

function addFrontend(
  port: ServicePort,
  { address, port: number }: Frontend,
  add: (set: NftSet, key: string) => boolean,
) {
  const { protocol, sourceRanges = [] } = port;
  const key = address === undefined ? portKey(protocol, number) : socketKey(address, protocol, number);
  for (const set of address === undefined ? OF_NODE_PORT : OF_ADDRESS) add(set, key);
  const endpoints = address === undefined ? SETS.nodePortEndpoints : SETS.endpoints;
  for (const first of [0, LOCAL]) {
    // Their numbers have no gaps.
    for (let i = 0; add(endpoints, key + numberWord(first + i)); i++);
  }
  if (address === undefined) return;
  for (const range of sourceRanges) add(SETS.sourceRanges, key + rangeOf(range).first);
}

/** `goto CHAIN` */
function chainOf(verdict: string): string[] {
  return verdict.startsWith('goto ') ? [verdict.slice('goto '.length)] : [];
}

/** The chains, and those to which they lead. */
function chainLines(first: readonly string[], view: TableView): KernelPlace[] {
  const names = new Set(first);
  const places: KernelPlace[] = [];
  for (const name of names) {
    const rules = view.chain(name);
    if (rules === undefined) continue;
    places.push({ where: `chain ${name}`, lines: rules.map(ruleText) });
    for (const { expressions } of rules) {
      for (const expression of expressions) {
        if (expression.do !== 'verdict' || !('chain' in expression.verdict)) continue;
        if (names.size < MAX_CHAINS) names.add(expression.verdict.chain);
      }
    }
  }
  return places;
}
