/** The judgement of a cut, and a world in which it finds what is written in a wrong order. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Judged, judge, PrefixWorld } from './prefixes.ts';
import { ABSENT, coreStates, type ServiceState } from './states.ts';

const [A, B] = ['balanced 10.244.1.1:8080', 'balanced 10.244.1.2:8080'];
const NONE: ReadonlySet<string> = new Set();

function verdict(was: string, is: string, becomes: string, more: Partial<Judged> = {}): string {
  const allowed = new Set(`${was}, ${becomes}`.split(', '));
  return judge(is, { was, becomes, allowed, former: NONE, endpoints: NONE, modes: ['ipvs'], ...more });
}

describe('the judgement of a packet between two writes', () => {
  it('takes what was and what comes, in part or together', () => {
    assert.equal(verdict(A, A, B), 'right');
    assert.equal(verdict(A, B, `${A}, ${B}`), 'right');
    assert.equal(verdict(A, `${A}, ${B}`, B), 'right');
    assert.equal(verdict('rejected', 'rejected', A), 'right');
  });

  it('finds a packet that is not served, or goes elsewhere', () => {
    for (const is of ['rejected', 'dropped', 'untouched', `${A}, rejected`]) assert.equal(verdict(A, is, B), 'wrong');
    assert.equal(verdict(A, 'balanced 10.244.1.3:8080', B), 'wrong');
    assert.equal(verdict('dropped', A, 'dropped'), 'wrong');
    assert.equal(verdict(`${A} masqueraded`, A, B), 'wrong');
  });

  it('names each exception, and has none in nftables mode', () => {
    assert.equal(verdict('untouched', 'rejected', A), 'unserved');
    assert.equal(verdict(A, `${A} masqueraded`, B), 'masqueraded');
    assert.equal(verdict(A, B, 'untouched', { former: new Set([B]) }), 'former frontend');
    assert.equal(
      verdict('untouched', A, 'dropped', { endpoints: new Set([A]), modes: ['iptables', 'ipvs'] }),
      'takeover',
    );
    assert.equal(verdict('untouched', A, 'dropped', { endpoints: new Set([A]) }), 'wrong');
    const modes = ['nftables'] as const;
    assert.equal(verdict('untouched', 'rejected', A, { modes }), 'wrong');
    assert.equal(verdict(A, B, 'untouched', { former: new Set([B]), modes }), 'wrong');
    assert.equal(verdict(A, `${A} masqueraded`, B, { modes: ['iptables'] }), 'wrong');
  });
});

describe('a way from one state to another', () => {
  const served: ServiceState = { ...ABSENT, type: 'NodePort', endpoints: 'lr' };

  it('has a cut for each write, and no breach', async () => {
    const world = new PrefixWorld('ipvs');
    assert.deepEqual(await world.go([served, ABSENT]), []);
    const before = world.cuts;
    assert.deepEqual(await world.go([{ ...served, externalPolicy: 'Local' }, ABSENT]), []);
    assert.ok(world.cuts - before > 5, `${world.cuts - before} cuts`);
  });

  it('shows a moment without endpoints', async () => {
    let commits = 0;
    const world = new PrefixWorld('ipvs', ({ ipvs }) => {
      commits += 1;
      for (const { destinations } of ipvs.virtual.values()) {
        for (const [key, one] of destinations) destinations.set(key, { ...one, weight: commits === 1 ? 0 : 1 });
      }
    });
    await world.go([served, ABSENT]);
    commits = 0;
    const [first] = await world.go([{ ...served, affinity: 'ClientIP' }, ABSENT]);
    assert.equal(first?.cut, 1);
    assert.equal(first?.is, 'rejected');
  });

  it('shows what is wrong for good', async () => {
    const world = new PrefixWorld('iptables', ({ iptables }) => iptables.policies.set('FORWARD', 'DROP'));
    const [first] = await world.go([served, ABSENT]);
    assert.equal(first?.is, 'dropped');
  });

  const of = (more: Partial<ServiceState>): ServiceState => ({ ...ABSENT, families: 'dual', ...more });
  const ranges = { type: 'LoadBalancer', ranges: 'some', endpoints: 'l' } as const;
  for (const { name, modes, states } of [
    {
      name: 'new endpoints of a Service with affinity by an address that goes',
      modes: ['nftables', 'nftables'],
      states: [
        of({ type: 'LoadBalancer', affinity: 'ClientIP', endpoints: 'r' }),
        of({ type: 'ClusterIP', affinity: 'ClientIP', endpoints: 'lm' }),
      ],
    },
    {
      name: 'endpoints of other nodes, not masqueraded, where policy Local ends',
      modes: ['ipvs', 'ipvs'],
      states: [of({ ...ranges, externalPolicy: 'Local', endpoints: 'lr' }), of({ ...ranges, endpoints: 'Lr' })],
    },
    {
      name: 'drops for pods where a Service becomes local',
      modes: ['ipvs', 'ipvs'],
      states: [
        of({ type: 'NodePort', endpoints: 'rs' }),
        of({ type: 'NodePort', externalPolicy: 'Local', endpoints: 'rs' }),
      ],
    },
    {
      name: 'drops for pods where policy Local ends',
      modes: ['ipvs', 'ipvs'],
      states: [
        of({ type: 'NodePort', externalPolicy: 'Local', endpoints: 'rs' }),
        of({ type: 'NodePort', endpoints: 'rs' }),
      ],
    },
    {
      name: 'local endpoints alone for pods at a new Service of policy Local',
      modes: ['ipvs', 'ipvs'],
      states: [
        of({ type: 'NodePort', externalPolicy: 'Local' }),
        of({ type: 'NodePort', externalPolicy: 'Local', endpoints: 'Lr' }),
      ],
    },
    {
      name: 'the node past source ranges that begin',
      modes: ['ipvs', 'ipvs'],
      states: [of({ ...ranges, ranges: 'none' }), of(ranges)],
    },
    {
      name: 'drops in source ranges while iptables mode takes over from IPVS mode',
      modes: ['ipvs', 'iptables'],
      states: [of(ranges), of({ ...ranges, endpoints: 'Lr' })],
    },
    {
      name: 'drops where iptables mode takes over and a Service becomes local',
      modes: ['ipvs', 'iptables'],
      states: [
        of({ external: 'shared', type: 'ClusterIP', endpoints: 'L' }),
        of({ external: 'shared', type: 'ClusterIP', externalPolicy: 'Local', endpoints: 'R' }),
      ],
    },
  ] as const) {
    it(`has no breach where it had: ${name}`, async () => {
      const [first, second] = modes;
      const world = new PrefixWorld(first);
      assert.deepEqual(await world.go([states[0], ABSENT], first), []);
      assert.deepEqual(await world.go([states[1], ABSENT], second), []);
      assert.ok(world.cuts > 2);
    });
  }

  it('is walked between all states that differ in what they mean', () => {
    const states = coreStates();
    assert.equal(states.length, 391);
    assert.equal(new Set(states.map((one) => JSON.stringify(one))).size, states.length);
  });
});
