/** Other service proxies beside the agent: what people are told, when its rules are removed again, and what a look asks the kernel. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { OtherProxies, type Sign, signsIn } from '../../src/agent/other-proxies.ts';
import { type Platform, realPlatform } from '../../src/agent/platform.ts';
import { lookForOthers } from '../../src/agent/predecessors.ts';
import type { Family } from '../../src/base/address.ts';
import type { RulesProbe, RulesState } from '../../src/kernel/chain-probe.ts';
import { NftMissing } from '../../src/kernel/nftables-kernel.ts';
import type { Drift } from '../../src/proxy/model/drift.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const MINUTE = 60_000;
const TABLE: Sign = { who: 'kube-proxy in nftables mode', what: 'its table came back', stays: true };
const DEVICE: Sign = { who: 'kube-proxy in IPVS mode', what: 'its device came back', stays: true };
const CHAIN: Sign = { who: 'kube-proxy', what: 'it wrote a chain', stays: false };

function watched() {
  const clock = new FakeClock();
  const log: string[] = [];
  const events: string[] = [];
  const notes: (string | undefined)[] = [];
  const others = new OtherProxies({
    clock,
    log: { warn: (_facts: object, text: string) => log.push(text), info: () => undefined } as never,
    health: { beside: (note) => notes.push(note) },
    events: { emitNode: ({ type, reason, note }) => events.push(`${type} ${reason}: ${note}`) },
  });
  return { others, clock, log, events, note: () => notes.at(-1) };
}

describe('another service proxy', () => {
  it('is told once in the log and as an event, and stays in the notes of health', () => {
    const { others, clock, log, events, note } = watched();
    for (let i = 0; i < 4; i++) {
      others.found([TABLE]);
      clock.advance(30_000);
    }
    assert.equal(log.length, 1);
    assert.match(
      log[0] ?? '',
      /^kube-proxy in nftables mode seems to run beside this agent: its table came back\. .* Stop the other one: the agent removes its rules within an hour, or at its next start$/,
    );
    assert.deepEqual(events, [`Warning OtherServiceProxy: ${log[0]}`]);
    assert.match(note() ?? '', /\(last seen at 2026-11-21T00:01:30\.000Z\)$/);
  });

  it('is told again when it is another one, and after an hour without a sign', () => {
    const { others, clock, log, note } = watched();
    others.found([TABLE]);
    others.found([TABLE, DEVICE]);
    others.found([DEVICE]);
    assert.equal(log.length, 2);
    clock.advance(59 * MINUTE);
    others.found([]);
    assert.notEqual(note(), undefined);
    clock.advance(MINUTE);
    others.found([]);
    assert.equal(note(), undefined);
    others.found([DEVICE]);
    assert.equal(log.length, 3);
  });

  it('has its rules removed after 5 minutes, then after longer and longer waits, of an hour at most', () => {
    const { others, clock } = watched();
    const removals: number[] = [];
    for (let minute = 0; minute <= 240; minute++) {
      others.alone();
      if (others.found([TABLE])) {
        removals.push(minute);
        others.renew();
        assert.equal(others.isAlone, false);
      }
      clock.advance(MINUTE);
    }
    // It is seen again a minute after each removal.
    assert.deepEqual(removals, [5, 16, 37, 78, 139, 200]);
  });

  it('that is repaired by the sync which sees it asks for no removal', () => {
    const { others, clock, log } = watched();
    for (let i = 0; i < 120; i++) {
      assert.equal(others.found([CHAIN]), false);
      clock.advance(MINUTE);
    }
    assert.match(log.join('\n'), /^[^\n]*until then the agent writes its own rules again each time$/);
  });

  it('is known by chains that slicewire does not write', () => {
    const SIGN = { who: 'kube-proxy', stays: false };
    const foreign = (family: Family, table: string, name: string): Drift => {
      return { family, kind: 'chain', table, name, target: '', difference: { kind: 'foreign' } };
    };
    const chain = foreign('IPv4', 'nat', 'KUBE-SEP-5OCWPZKODR2CLL6E');
    const written = [chain, foreign('IPv6', 'filter', 'KUBE-IPVS-OUT-FILTER')];
    assert.deepEqual(signsIn(written), [
      { ...SIGN, what: 'it wrote the IPv4 nat chain KUBE-SEP-5OCWPZKODR2CLL6E' },
      { ...SIGN, what: 'it wrote the IPv6 filter chain KUBE-IPVS-OUT-FILTER' },
    ]);
    const others: readonly Drift[] = [
      { ...chain, difference: { kind: 'gone' } },
      { ...chain, name: 'KUBE-SERVICES', difference: { kind: 'rules', gone: 2, added: 1 } },
      { ...chain, kind: 'jump', target: 'KUBE-SERVICES' },
      foreign('IPv4', 'nat', 'KUBE-DSS-1'),
      foreign('IPv4', 'mangle', 'KUBE-IPVS-OUT-FILTER'),
      foreign('IPv4', 'filter', 'KUBE-SERVICES'),
      { ...chain, kind: 'server', table: '', name: 'TCP 10.96.0.10:80', difference: { kind: 'changed' } },
    ];
    assert.deepEqual(signsIn(others), []);
  });
});

describe('a look for other service proxies', () => {
  interface World {
    readonly tables?: readonly string[];
    readonly dormant?: readonly string[];
    /** In IPv4. */
    readonly hasServiceAddress?: boolean;
    readonly sets?: readonly string[];
    readonly hasNftables?: boolean;
  }

  function platformOf({ tables = [], dormant = [], hasServiceAddress = false, sets = [], hasNftables = true }: World) {
    const opened = { count: 0, open: 0 };
    const kernel = {
      hasTable: (family: string, table: string) => tables.includes(`${family} ${table}`),
      isDormant: (family: string, table: string) => dormant.includes(`${family} ${table}`),
      close: () => {
        opened.open -= 1;
      },
    };
    const openNftables = () => {
      opened.count += 1;
      if (!hasNftables) throw new NftMissing('the kernel has no nftables');
      opened.open += 1;
      return kernel as unknown as ReturnType<Platform['kernel']['openNftables']>;
    };
    const platform: Platform = {
      ...realPlatform,
      machine: {
        ...realPlatform.machine,
        hasServiceAddress: (families) => Promise.resolve(hasServiceAddress && families.includes('IPv4')),
        hasIpvs: () => Promise.resolve(sets.length > 0),
        setNames: () => Promise.resolve(sets),
      },
      kernel: { ...realPlatform.kernel, openNftables },
    };
    return { platform, opened };
  }

  /** Tables whose state is unknown are not asked for chains. */
  const SILENT = { state: () => Promise.resolve(undefined) } as unknown as RulesProbe;
  const names = (signs: readonly Sign[]) => signs.map(({ who, what, stays }) => `${who}: ${what}${stays ? '' : '!'}`);

  it('finds tables, and addresses on the device, of other modes, and leaves no socket open', async () => {
    const all = { tables: ['IPv6 kube-proxy', 'IPv4 slicewire'], hasServiceAddress: true };
    const device = 'kube-proxy in IPVS mode: addresses on the device kube-ipvs0 came back';
    const theirs = 'kube-proxy in nftables mode: the IPv6 nftables table kube-proxy came back';
    const ours = 'slicewire in nftables mode: the IPv4 nftables table slicewire came back';
    for (const [mode, expected] of [
      ['iptables', [device, ours, theirs]],
      ['nftables', [device, theirs]],
      ['ipvs', [ours, theirs]],
    ] as const) {
      const { platform, opened } = platformOf(all);
      const found = await lookForOthers(mode, { members: [{ probe: SILENT, tools: { family: 'IPv4' } }], platform })(
        NEVER,
      );
      assert.deepEqual(names(found), expected, mode);
      assert.equal(opened.open, 0);
    }
  });

  it('finds no table that is kept until the takeover is confirmed', async () => {
    const { platform } = platformOf({ tables: ['IPv4 kube-proxy', 'IPv6 kube-proxy'], dormant: ['IPv4 kube-proxy'] });
    const found = await lookForOthers('nftables', { members: [], platform })(NEVER);
    assert.deepEqual(names(found), ['kube-proxy in nftables mode: the IPv6 nftables table kube-proxy came back']);
  });

  it('finds sets of IPVS mode without addresses, and nothing in a family whose iptables does not work', async () => {
    const look = async (world: World, family: Family) => {
      const members = [{ probe: SILENT, tools: { family } }];
      return names(await lookForOthers('iptables', { members, platform: platformOf(world).platform })(NEVER));
    };
    const sign = ['kube-proxy in IPVS mode: sets of IPVS mode came back'];
    assert.deepEqual(await look({ sets: ['KUBE-6-CLUSTER-IP', 'SOMEBODYS'] }, 'IPv6'), sign);
    assert.deepEqual(await look({ sets: ['KUBE-6-CLUSTER-IP', 'SOMEBODYS'] }, 'IPv4'), []);
    assert.deepEqual(await look({ hasServiceAddress: true }, 'IPv6'), []);
  });

  it('asks a kernel without nftables once', async () => {
    const { platform, opened } = platformOf({ hasNftables: false });
    const look = lookForOthers('iptables', { members: [], platform });
    for (let i = 0; i < 3; i++) assert.deepEqual(await look(NEVER), []);
    assert.equal(opened.count, 1);
  });

  it('in nftables mode asks for chains only when the numbers of the tables changed, and while there are some', async () => {
    let asked = 0;
    let isThere = false;
    let text = 'a';
    const probe = {
      state: () => Promise.resolve<RulesState>({ kind: 'tables', tables: new Map([['nat', { text, entries: 3 }]]) }),
      hasChain: ({ chain }: { readonly chain: string }) => {
        asked += 1;
        return Promise.resolve(isThere && chain === 'KUBE-SERVICES');
      },
    } as unknown as RulesProbe;
    const look = lookForOthers('nftables', {
      members: [{ probe, tools: { family: 'IPv4' } }],
      platform: platformOf({}).platform,
    });
    for (let i = 0; i < 3; i++) assert.deepEqual(await look(NEVER), []);
    assert.equal(asked, 3);
    isThere = true;
    text = 'b';
    for (let i = 0; i < 2; i++) {
      const [sign, ...more] = names(await look(NEVER));
      assert.equal(
        sign,
        'kube-proxy in iptables or IPVS mode: the chain KUBE-SERVICES of the iptables table nat came back',
      );
      assert.deepEqual(more, []);
    }
    isThere = false;
    text = 'a';
    assert.deepEqual(await look(NEVER), []);
    assert.equal(asked, 12);
  });
});
