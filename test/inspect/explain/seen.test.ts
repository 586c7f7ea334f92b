/** Real packets beside the computed way, in words. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import {
  type ComputedFate,
  connectionText,
  fatesOf,
  type SeenInput,
  type SeenPackets,
  seenAnswer,
} from '../../../src/inspect/explain/seen.ts';
import { explanationSchema } from '../../../src/inspect/wire/explanation.ts';
import type { TrackedConnection } from '../../../src/kernel/conntrack.ts';
import type { RuleFacts } from '../../../src/kernel/rule-texts.ts';
import type { PacketAt, TracedPacket, TracedStep } from '../../../src/kernel/traced-packets.ts';

const NOW = Date.UTC(2026, 10, 22, 12, 3, 4, 5);
const CLIENT = '10.244.1.13' as Address;
const SERVICE = '10.96.0.10' as Address;
const NODE = '192.168.77.2' as Address;

type Event = Extract<TracedStep, { kind: 'event' }>;
type Hook = 'prerouting' | 'output' | 'input' | 'postrouting' | undefined;

const at = (hook: Hook, destination: string, port: number, more: Partial<PacketAt> = {}): TracedStep => ({
  kind: 'packet',
  hook,
  packet: {
    source: CLIENT,
    sourcePort: 40_000,
    destination: destination as Address,
    port,
    input: 2,
    output: 0,
    ...more,
  },
});
const event = (chain: string, verdict: Event['verdict'], more: Partial<Event> = {}): Event => ({
  kind: 'event',
  family: 'ip',
  table: 'nat',
  chain,
  type: 'rule',
  handle: 1n,
  verdict,
  to: '',
  ...more,
});
const enters = at('prerouting', SERVICE, 80);
const jump = event('PREROUTING', 'jump', { to: 'KUBE-SVC', handle: 2n });
const dnat = event('KUBE-SVC', 'accept', { handle: 3n });
const leaves = (n: number, more: Partial<PacketAt> = {}) =>
  at('postrouting', `10.244.1.${n}`, 8080, { output: 3, ...more });
const packet = (...steps: TracedStep[]): TracedPacket => ({ at: NOW, steps });
/** To the n-th endpoint, by a rule. */
const balancedTo = (n: number) => packet(enters, jump, dnat, at(undefined, `10.244.1.${n}`, 8080), leaves(n));

const RULES: Readonly<Record<string, RuleFacts>> = {
  1: { text: 'x', isReject: false, isNat: false },
  2: { text: '-m comment --comment "shop/web:http cluster IP" -j KUBE-SVC', isReject: false, isNat: false },
  3: { text: '-j DNAT --to-destination …', isReject: false, isNat: true },
  4: { text: '-j REJECT', isReject: true, isNat: false },
};
const ruleOf: SeenInput['ruleOf'] = ({ handle }) =>
  RULES[String(handle)] ?? { text: '', isReject: false, isNat: false };
const to = (n: number, masqueraded = false): ComputedFate => ({
  kind: 'balanced',
  backend: `10.244.1.${n}:8080`,
  masqueraded,
});
const stops = (kind: 'rejected' | 'dropped' | 'untouched'): ComputedFate => ({ kind, backend: '', masqueraded: false });

function seen(input: Partial<SeenInput>): SeenPackets {
  const answer = seenAnswer({
    source: CLIENT,
    destination: SERVICE,
    protocol: 'TCP',
    port: 80,
    computedFor: undefined,
    fates: [to(11), to(12)],
    packets: [],
    ruleOf,
    mode: 'iptables',
    gaps: [],
    connections: [],
    otherConnections: 0,
    seconds: 10,
    notTraced: undefined,
    ...input,
  });
  assert.ok(explanationSchema.shape.seen.safeParse(answer).success);
  return answer;
}

const connection = (n: number, more: Partial<TrackedConnection> = {}): TrackedConnection => ({
  source: { address: CLIENT, port: 40_000 },
  destination: { address: SERVICE, port: 80 },
  sentTo: { address: `10.244.1.${n}` as Address, port: 8080 },
  sentFrom: { address: CLIENT, port: 40_000 },
  isAnswered: true,
  ...more,
});

/** What came, and the sentence. */
const CASES: readonly (readonly [what: string, input: Partial<SeenInput>, sentence: string])[] = [
  [
    'one packet as computed',
    { packets: [balancedTo(11)] },
    '1 packet came; it took the computed way: to 10.244.1.11:8080.',
  ],
  [
    'some packets as computed',
    { packets: [balancedTo(11), balancedTo(12), balancedTo(11)] },
    '3 packets came; all took the computed way: 2 to 10.244.1.11:8080, 1 to 10.244.1.12:8080.',
  ],
  [
    'one of them elsewhere',
    { packets: [balancedTo(11), balancedTo(99)] },
    '2 packets came; 1 took another way than computed: to 10.244.1.99:8080. 1 took the computed way: to 10.244.1.11:8080.',
  ],
  [
    'masqueraded, which was not computed',
    { packets: [packet(enters, dnat, at(undefined, '10.244.1.11', 8080), leaves(11, { source: NODE }))] },
    '1 packet came; it took another way than computed: to 10.244.1.11:8080, masqueraded.',
  ],
  [
    'of another address of the node',
    {
      source: undefined,
      computedFor: NODE,
      packets: [packet(at('output', SERVICE, 80), dnat, leaves(11, { source: NODE }))],
    },
    '1 packet came; it took another way than computed: to 10.244.1.11:8080, masqueraded. The sender was 10.244.1.13; the computed way is that of 192.168.77.2.',
  ],
  [
    'of the node, which has the address that masquerading gives',
    { fates: [to(11, true)], packets: [packet(at('output', SERVICE, 80), dnat, leaves(11))] },
    '1 packet came; it took the computed way: to 10.244.1.11:8080.',
  ],
  [
    'never refused, as was computed',
    { fates: [stops('rejected')], packets: [packet(enters)] },
    '1 packet came; it took another way than computed: lost outside of nftables behind the hook prerouting.',
  ],
  [
    'a connection from before',
    { packets: [packet(enters, at(undefined, '10.244.1.99', 8080), leaves(99))] },
    '1 packet came; it took another way than computed: to 10.244.1.99:8080. Its connection is older than the rules that stand now, so that no rule was asked for its destination.',
  ],
  [
    'an endpoint that IPVS chose, and was not computed',
    { mode: 'ipvs', packets: [packet(enters, at('output', '10.244.1.99', 8080), leaves(99))] },
    '1 packet came; it took another way than computed: to 10.244.1.99:8080.',
  ],
  [
    'refused, as computed',
    {
      fates: [stops('rejected')],
      packets: [packet(enters, event('KUBE-SERVICES', 'drop', { table: 'filter', handle: 4n }))],
    },
    '1 packet came; it took the computed way: refused in filter KUBE-SERVICES.',
  ],
  [
    'dropped by a policy of another program',
    {
      packets: [
        packet(enters, event('wall', 'drop', { family: 'inet', table: 'fw', type: 'policy', handle: undefined })),
      ],
    },
    '1 packet came; it took another way than computed: dropped in inet fw wall.',
  ],
  [
    'on with its destination, as no Service has it',
    { fates: [stops('untouched')], packets: [packet(enters, at('input', SERVICE, 80))] },
    '1 packet came; it took the computed way: on with the destination that it came with.',
  ],
  [
    'lost in routing',
    { packets: [packet(enters, dnat)] },
    '1 packet came; it took another way than computed: lost outside of nftables behind the chain KUBE-SVC of nat.',
  ],
  [
    'refused by IPVS, which reports nothing',
    { mode: 'ipvs', fates: [stops('rejected')], packets: [packet(enters)] },
    '1 packet came; it took the computed way: lost outside of nftables behind the hook prerouting.',
  ],
  [
    'out by the loopback device, and never in again',
    { packets: [packet(at('output', SERVICE, 80), dnat, leaves(11, { output: 1 }))] },
    '1 packet came; it took another way than computed: lost outside of nftables behind the hook postrouting.',
  ],
  [
    'a trace with gaps',
    { packets: [balancedTo(11)], gaps: ['Something is missing.'] },
    '1 packet came; it took the computed way: to 10.244.1.11:8080. Something is missing.',
  ],
  [
    'nothing',
    {},
    'No packet that opens a connection from 10.244.1.13 to 10.96.0.10:80 came to this node within 10 s. Send one meanwhile, such as with curl http://10.96.0.10:80, or give it more time with --seconds.',
  ],
  [
    'nothing of UDP, from anywhere',
    { protocol: 'UDP', source: undefined, port: 53 },
    'No packet from any address to 10.96.0.10:53 came to this node within 10 s. Send one meanwhile, or give it more time with --seconds.',
  ],
  [
    'nothing, but a connection is open',
    { connections: [connection(11)] },
    'No packet that opens a connection from 10.244.1.13 to 10.96.0.10:80 came to this node within 10 s. 1 connection is older: see the list. Send one meanwhile, such as with curl http://10.96.0.10:80, or give it more time with --seconds.',
  ],
  [
    'legacy iptables, no connection',
    { notTraced: 'REASON' },
    'Packets were not traced: REASON. Conntrack has no connection to 10.96.0.10:80.',
  ],
  [
    'legacy iptables, connections as computed',
    { notTraced: 'REASON', connections: [connection(11), connection(12)] },
    'Packets were not traced: REASON. Conntrack has 2 connections to 10.96.0.10:80, as computed.',
  ],
  [
    'legacy iptables, a connection of the node, which has the address that masquerading gives',
    { notTraced: 'REASON', origin: 'node', fates: [to(11, true)], connections: [connection(11)] },
    'Packets were not traced: REASON. Conntrack has 1 connection to 10.96.0.10:80, as computed.',
  ],
  [
    'legacy iptables, a connection elsewhere',
    { notTraced: 'REASON', connections: [connection(11), connection(99)], otherConnections: 3 },
    'Packets were not traced: REASON. Conntrack has 5 connections to 10.96.0.10:80; 1 of them not as computed, to 10.244.1.99:8080.',
  ],
];

describe('real packets beside the computed way', () => {
  for (const [what, input, sentence] of CASES) {
    it(what, () => assert.equal(seen(input).sentence, sentence));
  }

  it('steps have the rule, its effect and its Service; detours are left out', () => {
    const detour = event('PREROUTING', 'jump', { to: 'OTHER' });
    const back = event('OTHER', 'return', { type: 'return', handle: undefined });
    const accepted = event('FORWARD', 'accept', { table: 'filter', type: 'policy', handle: undefined });
    const steps = [enters, detour, back, jump, dnat, at(undefined, '10.244.1.11', 8080), accepted, leaves(11)];
    const { packets } = seen({ packets: [packet(...steps)] });
    assert.equal(packets[0]?.at, '2026-11-22T12:03:04.005Z');
    const said = packets[0]?.steps.map(({ table, chain, rule, does, object }) => [table, chain, does, rule, object]);
    assert.deepEqual(said, [
      ['kernel', 'prerouting', 'comes in', 'from 10.244.1.13:40000 to 10.96.0.10:80', ''],
      ['nat', 'PREROUTING', 'goes to KUBE-SVC', RULES[2]?.text, 'shop/web'],
      ['nat', 'KUBE-SVC', 'sends it to 10.244.1.11:8080', RULES[3]?.text, ''],
      ['kernel', 'nat', 'is translated', 'from 10.244.1.13:40000 to 10.244.1.11:8080', ''],
      ['kernel', 'postrouting', 'leaves this node', 'from 10.244.1.13:40000 to 10.244.1.11:8080', ''],
    ]);
  });

  it('connections have both ends, before and after translation', () => {
    assert.equal(
      connectionText(connection(11)),
      '10.244.1.13:40000 to 10.96.0.10:80: sent to 10.244.1.11:8080, answered',
    );
    const other = connection(11, { isAnswered: false, sentFrom: { address: NODE, port: 7 } });
    assert.match(connectionText(other), /: sent to 10\.244\.1\.11:8080 as 192\.168\.77\.2:7, not answered$/);
    const plain = connection(11, { sentTo: { address: SERVICE, port: 80 } });
    assert.match(connectionText(plain), /: not translated, answered$/);
    assert.deepEqual(seen({ connections: [plain], otherConnections: 7 }).connections, [
      connectionText(plain),
      'and 7 more',
    ]);
  });

  it('the fates of an explanation', () => {
    const endpoint = { endpoint: '10.244.1.11:8080', share: 1, masqueraded: true, why: '', steps: [] };
    const verdict = { kind: 'balanced', sentence: '', service: '', sticky: null } as const;
    const unused = { ...endpoint, endpoint: '10.244.1.12:8080', share: 0 };
    assert.deepEqual(fatesOf({ ...verdict, endpoints: [endpoint, unused] }), [to(11, true)]);
    assert.deepEqual(fatesOf({ ...verdict, kind: 'refused', endpoints: [] }), [stops('rejected')]);
    assert.deepEqual(fatesOf({ ...verdict, kind: 'dropped', endpoints: [] }), [stops('dropped')]);
    for (const kind of ['not a Service', 'local'] as const)
      assert.deepEqual(fatesOf({ ...verdict, kind, endpoints: [] }), [stops('untouched')]);
  });
});
