/**
 * The chains that choose an endpoint: one for each number of endpoints that occurs, and those of Services with policy Local
 * or affinity. Pure.
 */

import { addressWidth } from '../../../base/address.ts';
import type { Expression, Latin1Bytes, NftRule } from '../../../kernel/nftables-kernel.ts';
import { isEverybodyLocal } from '../netfilter/local-traffic.ts';
import { numberWord } from '../nft-table/element-bytes.ts';
import type { NftChain } from '../nft-table/layout.ts';
import { goTo, LOCAL_ADDRESS, load, marked, markRule, type NftablesSettings, podMatch, socketAt } from './chains.ts';
import { type BalancerSpec, balancerName, LOCAL, type LocalPolicySpec, SETS } from './table-layout.ts';

/** Any number, the same on every node. */
const HASH_SEED = 0x736c6963;

/** The chain for a number of endpoints. */
export function balancerChain(spec: BalancerSpec, settings: NftablesSettings): NftChain {
  const { entry, endpoints, isLocal, masquerades, hashes } = spec;
  const width = addressWidth(settings.family) / 32;
  const isNodePort = entry === 'node-port';
  const frontend = isNodePort ? [load('protocol', 0), load('destination port', 1)] : socketAt(0, settings);
  const number = isNodePort ? 2 : width + 2;
  const set = isNodePort ? SETS.nodePortEndpoints.name : SETS.endpoints.name;
  const first = isLocal ? LOCAL : 0;
  const client = [
    load('source address', number + 1),
    ...(hashes === 'address' ? [] : [load('source port', number + 1 + width)]),
  ];
  const bytes = (hashes === 'address' ? width : width + 1) * 4;
  const draw = (count: number): Expression[] =>
    hashes === undefined || count === 1
      ? [{ do: 'random', count, first, to: number }]
      : [...client, { do: 'hash', from: number + 1, bytes, seed: HASH_SEED, count, first, to: number }];
  const choose = (count: number): Expression[] => [
    ...frontend,
    ...draw(count),
    { do: 'lookup', set, from: 0, to: number + 1 },
    { do: 'translate', address: number + 1, port: number + 1 + width },
  ];
  const rules =
    entry === 'cluster-ip' ? notOfPods(settings) : masquerades ? [markRule(settings, [], 'from elsewhere')] : [];
  if (endpoints > 1) rules.push({ text: `one of ${endpoints}`, expressions: choose(endpoints) });
  // The only endpoint, or the fallback for a packet that meets two states of the table: the first endpoint always exists.
  rules.push({ text: 'the first', expressions: choose(1) });
  return { rules: marked(rules) };
}

/** Without masquerading, replies to cluster IP traffic that is not from a pod would bypass this node (docs/semantics.md 7.3). */
function notOfPods(settings: NftablesSettings): NftRule[] {
  if (settings.masqueradeAll) return [markRule(settings, [], 'all')];
  if (isEverybodyLocal(settings.localDetector)) return [];
  return [markRule(settings, podMatch(settings.localDetector, false), 'not of pods')];
}

/** The chains for packets under external policy Local. */
interface LocalPolicyTargets {
  /** To all endpoints: for pods, and masqueraded for the node itself. Undefined when there is no endpoint. */
  readonly pods: string | undefined;
  readonly node: string | undefined;
  /** To the endpoints on this node. */
  readonly others: string | undefined;
}

/** External policy Local is only for outside traffic: pods and the node itself reach all endpoints (docs/semantics.md 4.1). */
export function localPolicyRules({ pods, node, others }: LocalPolicyTargets, settings: NftablesSettings): NftChain {
  const rules: NftRule[] = [];
  if (pods !== undefined && settings.localDetector.kind !== 'none') {
    const expressions = [...podMatch(settings.localDetector, true), goTo(pods)];
    rules.push({ text: 'pods of this node', expressions });
  }
  if (node !== undefined) {
    const own: Expression[] = [
      load('kind of source address', 0),
      { do: 'compare', from: 0, is: 'equal', value: LOCAL_ADDRESS },
    ];
    rules.push({ text: 'this node', expressions: [...own, goTo(node)] });
  }
  if (others !== undefined) rules.push({ text: 'others', expressions: [goTo(others)] });
  return { rules: marked(rules) };
}

export function localPolicyChain(spec: LocalPolicySpec, settings: NftablesSettings): NftChain {
  const [pods, node, others] = localPolicyTargets(spec).map((target) => target && balancerName(target));
  return localPolicyRules({ pods, node, others }, settings);
}

/** The target chains of external policy Local, in the order of `LocalPolicyTargets`. */
export function localPolicyTargets({
  entry,
  all,
  here,
  hashes,
}: LocalPolicySpec): readonly (BalancerSpec | undefined)[] {
  const any = { entry, isLocal: false, endpoints: all, ...(hashes === undefined ? {} : { hashes }) };
  return [
    all > 0 ? { ...any, masquerades: false } : undefined,
    all > 0 ? { ...any, masquerades: true } : undefined,
    here > 0 ? { ...any, isLocal: true, masquerades: false, endpoints: here } : undefined,
  ];
}

/** The bytes of an endpoint, without the padding to words. */
interface StickyTarget {
  readonly address: Latin1Bytes;
  readonly protocol: Latin1Bytes;
  readonly port: Latin1Bytes;
}

/** The chain of an endpoint of a Service with affinity: it remembers the client, then translates. */
export function stickyEndpoint(memory: string, seconds: number, { address, protocol, port }: StickyTarget): NftChain {
  const width = address.length / 4;
  const rules: NftRule[] = [
    {
      text: 'remember the client',
      expressions: [load('source address', 0), { do: 'remember', set: memory, key: 0, seconds }],
    },
    {
      text: 'the endpoint',
      expressions: [
        // Only this protocol arrives, but without the comparison `nft` does not list the port as a port.
        load('protocol', 0),
        { do: 'compare', from: 0, is: 'equal', value: protocol },
        { do: 'value', to: 0, value: address },
        { do: 'value', to: width, value: port },
        { do: 'translate', address: 0, port: width },
      ],
    },
  ];
  return { rules: marked(rules) };
}

interface StickyMember {
  readonly chain: string;
  readonly memory: string;
}

/** The chain that chooses an endpoint of a Service with affinity: the one that knows the client, or any. `choice`: the members, each as often as its part is. */
export function stickyList(members: readonly StickyMember[], choice: readonly StickyMember[]): NftChain {
  const known = members.map(
    ({ chain, memory }): NftRule => ({
      text: `known to ${chain}`,
      expressions: [load('source address', 0), { do: 'lookup', set: memory, from: 0 }, goTo(chain)],
    }),
  );
  const chosen = choice.map(({ chain }, i): NftRule => {
    const left = choice.length - i;
    const chance: Expression[] = [
      { do: 'random', count: left, first: 0, to: 0 },
      { do: 'compare', from: 0, is: 'equal', value: numberWord(0) },
    ];
    return { text: left === 1 ? chain : `one in ${left}`, expressions: [...(left === 1 ? [] : chance), goTo(chain)] };
  });
  return { rules: marked([...known, ...chosen]) };
}

/** The chain that leads to a list, with masquerading if needed. */
export function stickyEntry(entry: 'cluster-ip' | 'external', list: string, settings: NftablesSettings): NftChain {
  const marks = entry === 'cluster-ip' ? notOfPods(settings) : [markRule(settings, [], 'from elsewhere')];
  return { rules: marked([...marks, { text: 'choose', expressions: [goTo(list)] }]) };
}
