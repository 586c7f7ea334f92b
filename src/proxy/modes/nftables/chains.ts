/**
 * The settings of nftables mode, the permanent chains of the table, and the rules of which all chains are made. Pure.
 *
 * The path of a packet that may begin a connection: `services` (in nat, before routing) looks up its destination in a verdict
 * map and goes to the chain for that number of endpoints. That chain chooses a number, looks up the endpoint, and translates.
 */
import { createHash } from 'node:crypto';
import { type Address, addressWidth, type Cidr } from '../../../base/address.ts';
import type { Expression, Hook, NftRule, NftSet, Word } from '../../../kernel/nftables-kernel.ts';
import type { FamilySettings, LocalDetector } from '../netfilter/local-traffic.ts';
import { numberWord, protocolByte, rangeOf } from '../nft-table/element-bytes.ts';
import type { NftChain } from '../nft-table/layout.ts';
import { CLUSTER_IPS, DISPATCH, GUARD, REFUSALS, REFUSE, SETS } from './table-layout.ts';

/** The settings of one family on which the table depends. */
export interface NftablesSettings extends FamilySettings {
  /** `all` includes every address of the node but loopback. */
  readonly nodePortAddresses: 'all' | readonly Address[];
  /** Drop packets that conntrack calls invalid, unless the sysctl nf_conntrack_tcp_be_liberal is set (k8s#94861). */
  readonly dropInvalid: boolean;
  /** Ranges of the family's cluster IPs. Packets to an address there that no Service has are dropped. Undefined when unknown. */
  readonly serviceCidrs: readonly Cidr[] | undefined;
  /** Count the connections to each frontend. */
  readonly countsConnections: boolean;
}

/**
 * Adds a hash of the expressions to each rule's text. A rule is recognised by its text, and a rule with the same words but
 * other expressions (another pod range, another bit) is another rule.
 */
export function marked(rules: readonly NftRule[]): NftRule[] {
  return rules.map(({ text, expressions }) => ({
    text: `${text} [${createHash('sha256').update(JSON.stringify(expressions)).digest('hex').slice(0, 6)}]`,
    expressions,
  }));
}

/** RTN_LOCAL (linux/rtnetlink.h): the address is one of this machine's. */
export const LOCAL_ADDRESS = numberWord(2);
/** IP_CT_NEW and the other states in nft's form: 1 << (state + 1), and 1 for invalid (nf_conntrack_common.h). */
const STATE_NEW = 8;
const STATE_INVALID = 1;
/** IPS_DST_NAT */
const STATUS_TRANSLATED = 32;
/** Priorities of nat and filter (linux/netfilter_ipv4.h). */
const PRIORITY = { dstnat: -100, filter: 0, srcnat: 100 } as const;

export const load = (what: Extract<Expression, { do: 'load' }>['what'], to: Word): Expression => ({
  do: 'load',
  what,
  to,
});
export const goTo = (chain: string): Expression => ({ do: 'verdict', verdict: { kind: 'goto', chain } });
export const jumpTo = (chain: string): Expression => ({ do: 'verdict', verdict: { kind: 'jump', chain } });

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
    [REFUSE, { rules: refusal(settings.refusesByReset === true) }],
  ];
  return new Map(chains.map(([name, chain]) => [name, { ...chain, rules: marked(chain.rules) }]));
}

/** Loads destination address, protocol and port, starting at word `at`. */
export function socketAt(at: Word, { family }: NftablesSettings): Expression[] {
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

/** The lookup itself counts: each found element has a counter. */
function countRule(settings: NftablesSettings): NftRule {
  const lookup: Expression = { do: 'lookup', set: SETS.serviceConnections.name, from: 0 };
  return { text: 'connections to addresses of Services', expressions: [...socketAt(0, settings), lookup] };
}

/** Packets to a node port on an address that takes node ports. */
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

/** Only permitted sources return from this chain. */
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

/** The first packet of a connection goes through `chain`. */
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

/** Traffic to a served port of a cluster IP was translated before it meets this chain (docs/semantics.md 6.16). */
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

/** `byReset`: TCP gets a reset, and all else "port unreachable". */
export function refusal(byReset: boolean): NftRule[] {
  const isTcp: Expression[] = [
    load('protocol', 0),
    { do: 'compare', from: 0, is: 'equal', value: protocolByte('TCP') },
  ];
  const reset: NftRule = { text: 'reset TCP', expressions: [...isTcp, { do: 'reset tcp' }] };
  return [...(byReset ? [reset] : []), { text: 'refuse', expressions: [{ do: 'reject' }] }];
}

/** An invalid packet would leave the node untranslated, and the client would reset the connection (k8s#74839). */
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

/** The destination of the connection was translated to another one. */
export function isTranslated(): Expression[] {
  return [
    load('connection status', 0),
    { do: 'mask', at: 0, mask: numberWord(STATUS_TRANSLATED), flip: numberWord(0) },
    { do: 'compare', from: 0, is: 'other', value: numberWord(0) },
  ];
}

function bitWord(bit: number): string {
  return numberWord((1 << bit) >>> 0);
}

/** An endpoint that reaches itself would answer itself directly, so its source is masqueraded. Marked packets come after. */
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
        ...isTranslated(),
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
        // The mark is cleared, so that a packet that passes the stack again is not masqueraded twice.
        { do: 'mask', at: 0, mask: numberWord(~(1 << masqueradeBit)), flip: numberWord(0) },
        { do: 'set-mark', from: 0 },
        { do: 'masquerade' },
      ],
    },
  ];
}

/** Mark packets for masquerading. */
export function markRule(settings: NftablesSettings, when: readonly Expression[], text: string): NftRule {
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

/** Matches traffic from pods of this node, or all other traffic. */
export function podMatch(detector: LocalDetector, isPod: boolean): Expression[] {
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
