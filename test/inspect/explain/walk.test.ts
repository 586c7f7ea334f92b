/** The way that leads to a fate, and what the engine says of rules that it cannot interpret. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import type { Fate, Packet, WalkStep } from '../../../src/inspect/explain/packet.ts';
import { walk } from '../../../src/inspect/explain/walk.ts';
import type { NftRule, NftSet } from '../../../src/kernel/nftables-kernel.ts';
import type { FamilyView, ServersView, ServerView } from '../../../src/proxy/modes/view.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { viewOfSaved, viewOfTable } from '../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const PACKET: Packet = {
  protocol: 'TCP',
  source: '10.244.1.3' as Address,
  destination: '10.96.0.10' as Address,
  port: 80,
  device: 'cni0',
  state: 'NEW',
};
const FACTS = { localAddresses: new Set(['192.168.77.2']), remembered: new Set<string>() };

/** A save of the table nat; each line is `CHAIN RULE`. */
function saved(nat: readonly string[], filter = ':FORWARD ACCEPT [0:0]'): string {
  const chains = new Set(['PREROUTING', 'OUTPUT', 'POSTROUTING', ...nat.map((line) => line.split(' ')[0])]);
  const lines = [...[...chains].map((chain) => `:${chain} - [0:0]`), ...nat.map((line) => `-A ${line}`)];
  return ['*nat', ...lines, 'COMMIT', '*filter', filter, 'COMMIT', ''].join('\n');
}

function texts({ way }: Fate): string[] {
  return way.map(({ table, chain, effect, share }: WalkStep) => {
    const chance = share === 1 ? '' : ` 1 in ${Math.round(1 / share)}`;
    const to = 'to' in effect ? ` ${effect.to}` : 'chain' in effect ? ` ${effect.chain}` : '';
    return `${table} ${chain}: ${effect.kind}${to}${chance}`;
  });
}

const web = (spec: object = {}) =>
  service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec } });
const pods = slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.1', '10.244.1.2'] });

describe('rules of kube-proxy in IPVS mode', () => {
  const server: ServerView = {
    server: { protocol: 'TCP', address: PACKET.destination, port: 80, scheduler: 'rr', flags: 0, timeout: 0 },
    destinations: [{ address: '10.244.2.1' as Address, port: 8080, weight: 1 }],
    owner: undefined,
  };
  const servers = (...entries: readonly string[]): ServersView => ({
    server: ({ address, port }) => (address === PACKET.destination && port === 80 ? server : undefined),
    hasEntry: (set, entry) => entries.includes(`${set} ${entry}`),
    hasAddress: (address) => address === PACKET.destination,
  });
  const fate = (rules: string, view: ServersView, packet = PACKET) => {
    const { fates, unknown } = walk(viewOfSaved(rules, 'IPv4', view), packet, FACTS);
    assert.deepEqual(unknown, []);
    return fates.map(({ kind, masqueraded }) => `${kind}${masqueraded ? ', masqueraded' : ''}`).join();
  };
  const MASQUERADING = 'POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE';

  it('look up the source where the first field is it: without a range of Pods a packet is masqueraded that its own address sends', () => {
    const rule = 'PREROUTING -m set --match-set KUBE-CLUSTER-IP src,dst -j MARK --set-xmark 0x4000/0x4000';
    const rules = saved([rule, MASQUERADING]);
    assert.equal(fate(rules, servers('KUBE-CLUSTER-IP 10.96.0.10,tcp:80')), 'balanced');
    assert.equal(fate(rules, servers(`KUBE-CLUSTER-IP ${PACKET.source},tcp:80`)), 'balanced, masqueraded');
  });

  it('find the virtual server of what IPVS sends out, and no other packet', () => {
    const drop = (port: number) =>
      saved([]).replace(
        ':FORWARD ACCEPT [0:0]',
        `:OUTPUT ACCEPT [0:0]\n-A OUTPUT -m ipvs --vaddr 10.96.0.10 --vproto 6 --vport ${port} -j DROP`,
      );
    const fromNode = { ...PACKET, device: undefined };
    assert.equal(fate(drop(80), servers(), fromNode), 'dropped');
    assert.equal(fate(drop(81), servers(), fromNode), 'balanced');
    const noServer: ServersView = { ...servers(), server: () => undefined };
    assert.equal(fate(drop(80), noServer, fromNode), 'untouched');
  });

  it('take no packet for one of a bridge', () => {
    const rules = saved(['PREROUTING -m physdev ! --physdev-is-in -j MARK --set-xmark 0x4000/0x4000', MASQUERADING]);
    assert.equal(fate(rules, servers()), 'balanced, masqueraded');
  });
});

describe('the way of a packet', () => {
  it('has the rules of iptables that did something, and their Service', async () => {
    const kernel = new FakeIptables();
    await new Rig({ commands: kernel, families: ['IPv4'] }).put(web(), pods).sync();
    const [first = assert.fail()] = walk(viewOfSaved(kernel.save('IPv4'), 'IPv4'), PACKET, FACTS).fates;
    assert.deepEqual(texts(first), [
      'nat PREROUTING: jump KUBE-SERVICES',
      'nat KUBE-SERVICES: jump KUBE-SVC-LOLE4ISW44XBNF3G',
      'nat KUBE-SVC-LOLE4ISW44XBNF3G: translate 10.244.1.1:8080 1 in 2',
      'nat POSTROUTING: jump KUBE-POSTROUTING',
      'nat KUBE-POSTROUTING: return',
    ]);
    assert.equal(first.way[1]?.owner, 'default/web');
    assert.match(first.way[1]?.rule ?? '', /^-d 10\.96\.0\.10\/32 -p tcp .* -j KUBE-SVC-/);
  });

  it('has the elements of nftables that were found, and the draw', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    await rig.put(web({ externalIPs: ['192.0.2.1'] }), pods).sync();
    const packet = { ...PACKET, destination: '192.0.2.1' as Address };
    const view = viewOfTable(kernel.tables.get('IPv4') ?? assert.fail(), 'IPv4');
    const [, second = assert.fail()] = walk(view, packet, FACTS).fates;
    assert.deepEqual(texts(second), [
      'ip slicewire nat-prerouting: jump services',
      'ip slicewire services: goto external-of-2',
      'ip slicewire external-of-2: mark',
      'ip slicewire external-of-2: choose 1 in 2',
      'ip slicewire backends: lookup',
      'ip slicewire external-of-2: translate 10.244.1.2:8080',
      'ip slicewire nat-postrouting: masquerade',
    ]);
    assert.equal(second.way[1]?.rule, '192.0.2.1 . tcp . 80 : goto external-of-2');
    assert.equal(second.way[4]?.rule, '192.0.2.1 . tcp . 80 . 1 : 10.244.1.2 . 8080');
  });

  it('is empty for a packet that is left alone, and names the policy that drops one', () => {
    const passing = viewOfSaved(
      saved(['PREROUTING -j KUBE-SERVICES', 'KUBE-SERVICES -d 10.96.0.9/32 -j RETURN']),
      'IPv4',
    );
    const [alone] = walk(passing, PACKET, FACTS).fates;
    assert.deepEqual([alone?.kind, alone?.way], ['untouched', []]);
    const closed = viewOfSaved(saved([], ':FORWARD DROP [0:0]'), 'IPv4');
    const [dropped = assert.fail()] = walk(closed, PACKET, FACTS).fates;
    assert.deepEqual([dropped.kind, dropped.way.map(({ rule }) => rule)], ['dropped', ['policy DROP']]);
  });

  it('is that of the likelier of two ways to the same fate', () => {
    const rules = ['PREROUTING -m statistic --mode random --probability 0.1 -j RARE', 'PREROUTING -j COMMON'];
    const to = '-j DNAT --to-destination 10.244.1.1:8080';
    const [fate = assert.fail(), ...others] = walk(
      viewOfSaved(saved([...rules, `RARE ${to}`, `COMMON ${to}`]), 'IPv4'),
      PACKET,
      FACTS,
    ).fates;
    assert.deepEqual([others, fate.probability], [[], 1]);
    assert.deepEqual(texts(fate), ['nat PREROUTING: jump COMMON', 'nat COMMON: translate 10.244.1.1:8080']);
  });
});

describe('a packet that has arrived at this node', () => {
  it('does not pass POSTROUTING: an endpoint on an address of the node sees the client', () => {
    const rules = [
      'PREROUTING -j MARK --set-xmark 0x4000/0x4000',
      'PREROUTING -j DNAT --to-destination 192.168.77.2:8080',
    ];
    const view = viewOfSaved(saved([...rules, 'POSTROUTING -j MASQUERADE']), 'IPv4');
    const [arrived] = walk(view, PACKET, FACTS).fates;
    assert.deepEqual([arrived?.backend, arrived?.masqueraded], ['192.168.77.2:8080', false]);
  });
});

describe('what the engine does not interpret', () => {
  const unknownOf = (...nat: string[]) => walk(viewOfSaved(saved(nat), 'IPv4'), PACKET, FACTS);

  it('is named, and taken as not matching', () => {
    for (const [rule, part] of [
      ['-m bpf --bytecode "4,48 0 0 9" -j DROP', '-m bpf'],
      ['-p tcp -m tcp --tcp-flags FIN,SYN SYN -j DROP', '--tcp-flags FIN,SYN'],
      ['-m addrtype --dst-type BROADCAST -j DROP', '--dst-type BROADCAST'],
      ['-m statistic --mode nth --every 2 -j DROP', '--mode nth'],
      ['-d 10.96.0.10/255.0.255.255 -j DROP', '-d 10.96.0.10/255.0.255.255'],
      ['-m set --match-set blocked dst -j DROP', '--match-set blocked'],
      ['-j LOG --log-prefix "hello -j DROP"', '-j LOG'],
      ['-j DNAT --to-destination 10.0.0.1-10.0.0.9:80', '--to-destination 10.0.0.1-10.0.0.9:80'],
    ] as const) {
      const { unknown, fates } = unknownOf(`PREROUTING ${rule}`);
      const has = `has \`${part}\`, which is not interpreted: the answer is certain as far as this rule, and goes on as if it did not match`;
      assert.deepEqual(unknown, [`the rule \`-A PREROUTING ${rule}\` of table nat ${has}`]);
      assert.deepEqual(
        fates.map(({ kind }) => kind),
        ['untouched'],
      );
    }
  });

  it('is not named where the rest of the rule does not match', () => {
    assert.deepEqual(unknownOf('PREROUTING -d 10.96.0.9/32 -m bpf --bytecode "1" -j DROP').unknown, []);
  });

  it('is a target or chain that nobody knows', () => {
    const { unknown } = unknownOf('PREROUTING -j CNI-GONE');
    const what = 'leads to `CNI-GONE`, which is neither a chain that was read nor a target that is interpreted';
    assert.deepEqual(unknown, [
      `the rule \`-A PREROUTING -j CNI-GONE\` of table nat ${what}: the answer is certain as far as this rule, and goes on as if it had no effect`,
    ]);
  });

  it('is a chain or a set of nftables that was not read', () => {
    const set: NftSet = { name: 'services', key: ['address'], data: 'verdict' };
    const rules: NftRule[] = [
      {
        text: 'in a set',
        expressions: [
          { do: 'lookup', set: 'gone', from: 0 },
          { do: 'verdict', verdict: { kind: 'drop' } },
        ],
      },
      { text: 'a jump', expressions: [{ do: 'verdict', verdict: { kind: 'jump', chain: 'gone' } }] },
    ];
    const table = {
      chains: new Map([['hook', { hook: { type: 'nat', hook: 'prerouting', priority: 0 }, rules } as const]]),
      sets: new Map([['services', { set, elements: new Map() }]]),
    };
    const { unknown, fates } = walk(viewOfTable(table, 'IPv4'), PACKET, FACTS);
    assert.deepEqual(unknown, [
      'the rule "in a set" of chain hook in table ip slicewire looks into the set `gone`, which was not read: the answer is certain as far as this rule, and goes on as if it were empty',
      'the rule "a jump" of chain hook in table ip slicewire leads to the chain `gone`, which was not read: the answer is certain as far as this rule, and goes on as if it were empty',
    ]);
    assert.deepEqual(
      fates.map(({ kind }) => kind),
      ['untouched'],
    );
  });
});

describe('virtual servers', () => {
  const destination = (n: number, weight: number) => ({ address: `10.244.1.${n}` as Address, port: 8080, weight });
  const viewOf = (seconds: number, ...destinations: ServerView['destinations']): FamilyView => {
    const server = {
      protocol: 'TCP',
      address: PACKET.destination,
      port: 80,
      scheduler: 'wrr',
      flags: 0,
      timeout: seconds,
    } as const;
    const servers: ServersView = {
      server: ({ port }) => (port === 80 ? { server, destinations, owner: 'default/web' } : undefined),
      hasEntry: () => false,
      hasAddress: (address) => address === PACKET.destination,
    };
    return viewOfSaved(saved([]), 'IPv4', servers);
  };
  const shares = (view: FamilyView, remembered: readonly string[] = []) =>
    walk(view, PACKET, { ...FACTS, remembered: new Set(remembered) }).fates.map(
      ({ kind, backend, probability }) => `${kind} ${backend} ${probability}`,
    );

  it('choose by weight, and never a destination without one', () => {
    assert.deepEqual(shares(viewOf(0, destination(1, 3), destination(2, 1), destination(3, 0))), [
      'balanced 10.244.1.1:8080 0.75',
      'balanced 10.244.1.2:8080 0.25',
    ]);
    assert.deepEqual(shares(viewOf(0, destination(3, 0))), ['rejected  1']);
  });

  it('send a client back to the destination that remembers it, unless that has no weight', () => {
    const memory = (n: number) => `TCP 10.96.0.10:80 -> 10.244.1.${n}:8080`;
    const view = viewOf(60, destination(1, 1), destination(2, 1), destination(3, 0));
    assert.deepEqual(walk(view, PACKET, FACTS).memories, { lists: [], destinations: [memory(1), memory(2)] });
    assert.deepEqual(shares(view, [memory(2)]), ['balanced 10.244.1.2:8080 1']);
    assert.equal(shares(view, [memory(3)]).length, 2);
  });

  it('are ipvsadm lines with their Service in the way', () => {
    const [fate] = walk(viewOf(0, destination(1, 1)), PACKET, FACTS).fates;
    const step = fate?.way.find(({ table }) => table === 'ipvs');
    assert.deepEqual(step, {
      table: 'ipvs',
      chain: '-t 10.96.0.10:80 -s wrr',
      rule: '-t 10.96.0.10:80 -r 10.244.1.1:8080 -m -w 1',
      effect: { kind: 'translate', to: '10.244.1.1:8080' },
      share: 1,
      owner: 'default/web',
    });
  });
});
