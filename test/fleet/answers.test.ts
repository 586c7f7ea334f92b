import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../src/base/address.ts';
import { WrongQuestion } from '../../src/inspect/wire/envelope.ts';
import { fleetLiveSchema, fleetProgrammedSchema } from '../../src/inspect/wire/fleet.ts';
import { fleetDelta } from '../../src/inspect/wire/fleet-delta.ts';
import { endpoint, facts, fleetRig, range } from './core-rig.ts';

describe('/programmed of the fleet', () => {
  it('says which nodes have the newest versions of a Service, and since when others lack them', () => {
    const rig = fleetRig();
    rig.set(endpoint('web-1', 'ready'));
    rig.programmed('n1');
    const answer = rig.answers.programmed('shop/web');
    assert.deepEqual(fleetProgrammedSchema.parse(answer), answer);
    assert.deepEqual([answer.programmed, answer.behindCount, answer.behind[0]?.node], [1, 1, 'n2']);
    assert.deepEqual(answer.versions, { services: '101', slices: rig.version });
    rig.programmed('n2');
    assert.equal(rig.answers.programmed(undefined).programmed, 2);
    assert.throws(() => rig.answers.programmed('shop/none'), WrongQuestion);
  });
});

describe('/live of the fleet', () => {
  it('has the state of every node, and later only what changed', () => {
    const rig = fleetRig({ nodes: ['n1', 'n2', 'n3', 'n4', 'n5'] });
    rig.programmed('n1', 'n2', 'n3', 'n4', 'n5');
    const before = rig.answers.live();
    assert.deepEqual(fleetLiveSchema.parse(before), before);
    assert.equal(before.sentence, 'All 5 nodes are up to date.');
    rig.set(endpoint('web-1', 'ready'));
    rig.clock.advance(10_000);
    rig.programmed('n1');
    rig.nodes.setLink('n3', { state: 'failed', why: 'no route' });
    rig.nodes.setAgent('n4', undefined);
    rig.nodes.setNode('n5', undefined);
    const now = rig.answers.live();
    assert.deepEqual(
      now.nodes.map(({ name, state, lag }) => [name, state, lag]),
      [
        ['n1', 'current', 0],
        ['n2', 'behind', 10_000],
        ['n3', 'no answer', 10_000],
        ['n4', 'no agent', 10_000],
      ],
    );
    assert.equal(now.sentence, '1 of 4 nodes are up to date: 1 behind, 1 without an answer, 1 without an agent.');
    assert.deepEqual(
      { ...rig.answers.states() },
      {
        ...{ current: 1, behind: 1, 'no answer': 1, 'no agent': 1, 'too old': 0, 'left out': 0 },
      },
    );
    const delta = fleetDelta(before, now);
    assert.deepEqual(
      delta.nodes?.map(({ name }) => name),
      ['n2', 'n3', 'n4'],
    );
    assert.deepEqual(delta.gone, ['n5']);
    assert.equal('replica' in delta, false);
    assert.deepEqual(fleetDelta(now, now), {});
  });
});

describe('the address of a request', () => {
  it('belongs to the Node that has it, or whose range of Pods begins with it', () => {
    const { nodes } = fleetRig({ nodes: [] });
    nodes.setNode('n1', facts({ addresses: ['192.0.2.1' as Address], podCIDRs: [range('10.1.0.0/16')] }));
    nodes.setNode(
      'n2',
      facts({ addresses: ['192.0.2.2' as Address], podCIDRs: [range('10.1.2.0/24'), range('fd00::/64')] }),
    );
    const of = (address: string) => nodes.nodeOf(address as Address);
    assert.deepEqual(['192.0.2.2', '10.1.0.0', '10.1.2.0', '10.1.2.1', 'fd00::1', '203.0.113.1'].map(of), [
      'n2',
      'n1',
      'n2',
      'n2',
      'n2',
      undefined,
    ]);
    assert.deepEqual(
      ['10.1.1.1', '10.1.2.2', 'fd00::5'].map(of),
      [undefined, undefined, undefined],
      'a Pod is no node',
    );
    nodes.setNode('n2', undefined);
    assert.deepEqual(['192.0.2.2', '10.1.2.1', 'fd00::1'].map(of), [undefined, undefined, undefined]);
  });
});
