/**
 * The table's chains: a fixed skeleton, and those that balance, one for each number of endpoints that occurs. Pure.
 *
 * A packet that may begin a connection: `services` (in nat, before the route is chosen) looks its destination up in a map of
 * verdicts and goes to the chain of as many endpoints as there are; that chooses a number, looks the endpoint up, translates.
 */
import { createHash } from 'node:crypto';
import type { Bytes, Expression, Hook, NftRule, NftSet, Word } from '../../host/nftables-kernel.ts';
import { addressWidth } from '../../model/address.ts';
import type { LocalDetector } from '../netfilter/local-traffic.ts';
import { isEverybodyLocal } from '../netfilter/local-traffic.ts';
import { numberWord, rangeOf } from './bytes.ts';
import {
  type BalancerSpec,
  balancerName,
  CLUSTER_IPS,
  DISPATCH,
  GUARD,
  LOCAL,
  type LocalPolicySpec,
  REFUSALS,
  REFUSE,
  SETS,
} from './names.ts';
import type { NftablesSettings } from './settings.ts';

/**
 * Rules with a mark of what they do behind their texts: a rule is known again by its text, and one that does another thing
 * under the same words (another range of pods, another bit) is another rule.
 */
function marked(rules: readonly NftRule[]): NftRule[] {
  return rules.map(({ text, expressions }) => ({
    text: `${text} [${createHash('sha256').update(JSON.stringify(expressions)).digest('hex').slice(0, 6)}]`,
    expressions,
  }));
}

export interface NftChain {
  readonly hook?: Hook;
  readonly rules: readonly NftRule[];
}

/** RTN_LOCAL (linux/rtnetlink.h): the address is one of this machine's. */
const LOCAL_ADDRESS = numberWord(2);
/** IP_CT_NEW and its kin in nft's form: 1 << (state + 1), and 1 for invalid (nf_conntrack_common.h). */
const STATE_NEW = 8;
const STATE_INVALID = 1;
/** IPS_DST_NAT */
const STATUS_TRANSLATED = 32;
/** Of nat and filter (linux/netfilter_ipv4.h). */
const PRIORITY = { dstnat: -100, filter: 0, srcnat: 100 } as const;

const load = (what: Extract<Expression, { do: 'load' }>['what'], to: Word): Expression => ({ do: 'load', what, to });
const goTo = (chain: string): Expression => ({ do: 'verdict', verdict: { kind: 'goto', chain } });
const jumpTo = (chain: string): Expression => ({ do: 'verdict', verdict: { kind: 'jump', chain } });

/** Chains that do not depend on Services. */
export function skeleton(settings: NftablesSettings): Map<string, NftChain> {
  const hook = (type: Hook['type'], name: Hook['hook'], priority: number): Hook => ({ type, hook: name, priority });
  const toServices: NftRule = { text: 'to Services', expressions: [jumpTo(DISPATCH)] };
  const refusals = [forNew('Services without endpoints', REFUSALS)];
  const unserved = forNew('cluster IPs that nobody serves', CLUSTER_IPS);
  const invalid: readonly NftRule[] = settings.dropInvalid ? [dropInvalid()] : [];
  const chains: readonly (readonly [string, NftChain])[] = [
    ['nat-prerouting', { hook: hook('nat', 'prerouting', PRIORITY.dstnat), rules: [toServices] }],
    ['nat-output', { hook: hook('nat', 'output', PRIORITY.dstnat), rules: [toServices] }],
    ['nat-postrouting', { hook: hook('nat', 'postrouting', PRIORITY.srcnat), rules: masqueradeRules(settings) }],
    ['filter-input', { hook: hook('filter', 'input', PRIORITY.filter), rules: refusals }],
    [
      'filter-forward',
      { hook: hook('filter', 'forward', PRIORITY.filter), rules: [...invalid, ...refusals, unserved] },
    ],
    ['filter-output', { hook: hook('filter', 'output', PRIORITY.filter), rules: [...refusals, unserved] }],
    [DISPATCH, { rules: dispatchRules(settings) }],
    [GUARD, { rules: guardRules(settings) }],
    [REFUSALS, { rules: noEndpointsRules(settings) }],
    [CLUSTER_IPS, { rules: clusterIPRules() }],
    [REFUSE, { rules: [{ text: 'refuse', expressions: [{ do: 'reject' }] }] }],
  ];
  return new Map(chains.map(([name, chain]) => [name, { ...chain, rules: marked(chain.rules) }]));
}

/** Destination address, protocol and port, from a word on. */
function socketAt(at: Word, { family }: NftablesSettings): Expression[] {
  const after = at + addressWidth(family) / 32;
  return [load('destination address', at), load('protocol', after), load('destination port', after + 1)];
}

function dispatchRules(settings: NftablesSettings): NftRule[] {
  return [
    {
      text: 'load balancer addresses with source ranges',
      expressions: [...socketAt(0, settings), { do: 'lookup', set: SETS.guarded.name, from: 0 }, jumpTo(GUARD)],
    },
    ...(settings.countsConnections ? [countRule(settings)] : []),
    {
      text: 'addresses of Services',
      expressions: [...socketAt(0, settings), { do: 'lookup', set: SETS.services.name, from: 0, to: 'verdict' }],
    },
    ...(settings.countsConnections
      ? [nodePortRule('connections to node ports', SETS.nodePortConnections, settings)]
      : []),
    nodePortRule('node ports', SETS.nodePorts, settings),
  ];
}

/** Being found is being counted. */
function countRule(settings: NftablesSettings): NftRule {
  const lookup: Expression = { do: 'lookup', set: SETS.serviceConnections.name, from: 0 };
  return { text: 'connections to addresses of Services', expressions: [...socketAt(0, settings), lookup] };
}

/** What goes to a node port of an address that takes node ports. */
function nodePortRule(text: string, { name: set, data }: NftSet, settings: NftablesSettings): NftRule {
  const ports: Expression[] = [
    load('protocol', 0),
    load('destination port', 1),
    { do: 'lookup', set, from: 0, ...(data === undefined ? {} : { to: 'verdict' }) },
  ];
  return { text, expressions: [...nodeAddress(settings), ...ports] };
}

function nodeAddress({ nodePortAddresses, family }: NftablesSettings): Expression[] {
  const destination = load('destination address', 0);
  if (nodePortAddresses !== 'all') return [destination, { do: 'lookup', set: SETS.nodePortAddresses.name, from: 0 }];
  const { first, mask } = rangeOf((family === 'IPv4' ? '127.0.0.0/8' : '::1/128') as Parameters<typeof rangeOf>[0]);
  const flip = '\0'.repeat(mask.length);
  return [
    load('kind of destination address', 0),
    { do: 'compare', from: 0, is: 'equal', value: LOCAL_ADDRESS },
    destination,
    { do: 'mask', at: 0, mask, flip },
    { do: 'compare', from: 0, is: 'other', value: first },
  ];
}

/** Only who may use the address comes back. */
function guardRules(settings: NftablesSettings): NftRule[] {
  const source = addressWidth(settings.family) / 32 + 2;
  return [
    {
      text: 'who may use it',
      expressions: [
        ...socketAt(0, settings),
        load('source address', source),
        { do: 'lookup', set: SETS.sourceRanges.name, from: 0 },
        { do: 'verdict', verdict: { kind: 'return' } },
      ],
    },
    { text: 'nobody else', expressions: [{ do: 'verdict', verdict: { kind: 'drop' } }] },
  ];
}

/** The first packet of a connection goes through a chain. */
function forNew(text: string, chain: string): NftRule {
  return {
    text,
    expressions: [
      load('connection state', 0),
      { do: 'mask', at: 0, mask: numberWord(STATE_NEW), flip: numberWord(0) },
      { do: 'compare', from: 0, is: 'other', value: numberWord(0) },
      jumpTo(chain),
    ],
  };
}

/** What is served was translated before (docs/semantics.md 6.16). */
function clusterIPRules(): NftRule[] {
  return [
    {
      text: 'ports that a Service does not have',
      expressions: [load('destination address', 0), { do: 'lookup', set: SETS.clusterIPs.name, from: 0 }, goTo(REFUSE)],
    },
    {
      text: 'addresses that no Service has',
      expressions: [
        load('protocol', 0),
        load('destination address', 1),
        { do: 'lookup', set: SETS.serviceCidrs.name, from: 0 },
        { do: 'verdict', verdict: { kind: 'drop' } },
      ],
    },
  ];
}

function noEndpointsRules(settings: NftablesSettings): NftRule[] {
  return [
    {
      text: 'addresses',
      expressions: [...socketAt(0, settings), { do: 'lookup', set: SETS.refusals.name, from: 0, to: 'verdict' }],
    },
    nodePortRule('node ports', SETS.nodePortRefusals, settings),
  ];
}

/** An invalid packet would leave untranslated, and the client would reset the connection (k8s#74839). */
function dropInvalid(): NftRule {
  return {
    text: 'invalid packets',
    expressions: [
      load('connection state', 0),
      { do: 'mask', at: 0, mask: numberWord(STATE_INVALID), flip: numberWord(0) },
      { do: 'compare', from: 0, is: 'other', value: numberWord(0) },
      { do: 'verdict', verdict: { kind: 'drop' } },
    ],
  };
}

function bitWord(bit: number): string {
  return numberWord((1 << bit) >>> 0);
}

/** An endpoint that reaches itself would answer itself directly: its address is hidden from it. Then what is marked. */
function masqueradeRules({ masqueradeBit, family }: NftablesSettings): NftRule[] {
  const bit = bitWord(masqueradeBit);
  const isMarked: Expression[] = [
    load('mark', 0),
    { do: 'mask', at: 0, mask: bit, flip: numberWord(0) },
    { do: 'compare', from: 0, is: 'other', value: numberWord(0) },
  ];
  return [
    {
      text: 'endpoints that reach themselves',
      expressions: [
        load('connection status', 0),
        { do: 'mask', at: 0, mask: numberWord(STATUS_TRANSLATED), flip: numberWord(0) },
        { do: 'compare', from: 0, is: 'other', value: numberWord(0) },
        load('source address', 0),
        load('destination address', addressWidth(family) / 32),
        { do: 'lookup', set: SETS.hairpin.name, from: 0 },
        { do: 'masquerade' },
      ],
    },
    {
      text: 'marked packets',
      expressions: [
        ...isMarked,
        load('mark', 0),
        // Without the mark the packet is not masqueraded again when it comes back through the stack.
        { do: 'mask', at: 0, mask: numberWord(~(1 << masqueradeBit)), flip: numberWord(0) },
        { do: 'set-mark', from: 0 },
        { do: 'masquerade' },
      ],
    },
  ];
}

/** Ask for masquerading. */
function markRule(settings: NftablesSettings, when: readonly Expression[], text: string): NftRule {
  const { masqueradeBit } = settings;
  return {
    text,
    expressions: [
      ...when,
      load('mark', 0),
      { do: 'mask', at: 0, mask: numberWord(~(1 << masqueradeBit)), flip: bitWord(masqueradeBit) },
      { do: 'set-mark', from: 0 },
    ],
  };
}

/** What is of a pod of this node, or what is not. */
function podMatch(detector: LocalDetector, isPod: boolean): Expression[] {
  const is = isPod ? 'equal' : 'other';
  if (detector.kind === 'cidr') {
    const { first, mask } = rangeOf(detector.cidr);
    return [
      load('source address', 0),
      { do: 'mask', at: 0, mask, flip: '\0'.repeat(mask.length) },
      { do: 'compare', from: 0, is, value: first },
    ];
  }
  if (detector.kind === 'interface') {
    const isPrefix = detector.name.endsWith('+');
    const name = isPrefix ? detector.name.slice(0, -1) : `${detector.name}\0`;
    return [load('input interface', 0), { do: 'compare', from: 0, is, value: name }];
  }
  return [];
}

/** The chain of a number of endpoints. */
export function balancerChain(spec: BalancerSpec, settings: NftablesSettings): NftChain {
  const { entry, endpoints, isLocal, masquerades } = spec;
  const width = addressWidth(settings.family) / 32;
  const isNodePort = entry === 'node-port';
  const frontend = isNodePort ? [load('protocol', 0), load('destination port', 1)] : socketAt(0, settings);
  const number = isNodePort ? 2 : width + 2;
  const set = isNodePort ? SETS.nodePortEndpoints.name : SETS.endpoints.name;
  const choose = (count: number): Expression[] => [
    ...frontend,
    { do: 'random', count, first: isLocal ? LOCAL : 0, to: number },
    { do: 'lookup', set, from: 0, to: number + 1 },
    { do: 'translate', address: number + 1, port: number + 1 + width },
  ];
  const rules =
    entry === 'cluster-ip' ? notOfPods(settings) : masquerades ? [markRule(settings, [], 'from elsewhere')] : [];
  if (endpoints > 1) rules.push({ text: `one of ${endpoints}`, expressions: choose(endpoints) });
  // The only one; and where a packet meets two states of the table, the one that is always there.
  rules.push({ text: 'the first', expressions: choose(1) });
  return { rules: marked(rules) };
}

/** Traffic to a cluster IP that does not come from a pod would be answered past this node (docs/semantics.md 7.3). */
function notOfPods(settings: NftablesSettings): NftRule[] {
  if (settings.masqueradeAll) return [markRule(settings, [], 'all')];
  if (isEverybodyLocal(settings.localDetector)) return [];
  return [markRule(settings, podMatch(settings.localDetector, false), 'not of pods')];
}

/** Where a packet under external policy Local goes. */
interface LocalPolicyTargets {
  /** Any endpoint, for pods and, masqueraded, for the node itself; undefined: there is none. */
  readonly pods: string | undefined;
  readonly node: string | undefined;
  /** Those here. */
  readonly others: string | undefined;
}

/** External policy Local is about traffic from outside: pods and the node itself are sent to any endpoint (docs/semantics.md 4.1). */
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

/** The chains to which the chain of external policy Local leads: for pods, for the node itself, for others. */
export function localPolicyTargets({ entry, all, here }: LocalPolicySpec): readonly (BalancerSpec | undefined)[] {
  const any = { entry, isLocal: false, endpoints: all };
  return [
    all > 0 ? { ...any, masquerades: false } : undefined,
    all > 0 ? { ...any, masquerades: true } : undefined,
    here > 0 ? { entry, isLocal: true, masquerades: false, endpoints: here } : undefined,
  ];
}

/** Bytes, without what fills up a word. */
interface StickyTarget {
  readonly address: Bytes;
  readonly protocol: Bytes;
  readonly port: Bytes;
}

/** An endpoint of a Service with affinity: remembers the client, and translates. */
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
        // It comes with no other. But only behind this does `nft` list the port as one.
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

/** Who of the endpoints of a Service with affinity takes a client: the one that knows it, or any. */
export function stickyList(members: readonly { readonly chain: string; readonly memory: string }[]): NftChain {
  const known = members.map(
    ({ chain, memory }): NftRule => ({
      text: `known to ${chain}`,
      expressions: [load('source address', 0), { do: 'lookup', set: memory, from: 0 }, goTo(chain)],
    }),
  );
  const chosen = members.map(({ chain }, i): NftRule => {
    const left = members.length - i;
    const chance: Expression[] = [
      { do: 'random', count: left, first: 0, to: 0 },
      { do: 'compare', from: 0, is: 'equal', value: numberWord(0) },
    ];
    return { text: left === 1 ? chain : `one in ${left}`, expressions: [...(left === 1 ? [] : chance), goTo(chain)] };
  });
  return { rules: marked([...known, ...chosen]) };
}

/** The way to such a list: with the source masqueraded for what needs it. */
export function stickyEntry(entry: 'cluster-ip' | 'external', list: string, settings: NftablesSettings): NftChain {
  const marks = entry === 'cluster-ip' ? notOfPods(settings) : [markRule(settings, [], 'from elsewhere')];
  return { rules: marked([...marks, { text: 'choose', expressions: [goTo(list)] }]) };
}
