/** The fleet's page without a browser: messages, sentences, the map's cells and the filter. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { FleetLive, FleetNode } from '../../src/inspect/wire/fleet.ts';
import { fleetDelta, withFleetDelta } from '../../src/inspect/wire/fleet-delta.ts';
import { cellAfter, cellAt, gridFor, placeOf } from '../../src/web/fleet/draw.ts';
import { filterOf, linkTo, shownBy, toggled } from '../../src/web/fleet/filter.ts';
import {
  behindOf,
  countsOf,
  fleetGoneText,
  kindsOf,
  LOOKS,
  lookOf,
  mixedText,
  NODE_STATES,
  nodeText,
  noneBehindText,
  programmingText,
  signOfFleet,
  stateText,
  troubledOf,
  troubleText,
} from '../../src/web/fleet/fleet-text.ts';
import { FLEET_MESSAGES, merged } from '../../src/web/stream.ts';
import { fleetNode, fleetOf } from './browser/fleets.ts';

const AT = Date.parse('2026-01-02T12:00:30.000Z');
const FLEET = fleetOf(3, AT);
const later = (seconds: number, change: Partial<FleetLive> = {}): FleetLive => ({
  ...FLEET,
  at: new Date(AT + seconds * 1000).toISOString(),
  ...change,
});
const [ONE, TWO, THREE] = FLEET.nodes as [FleetNode, FleetNode, FleetNode];

describe('messages of the fleet', () => {
  it('have what changed alone', () => {
    assert.deepEqual(fleetDelta(FLEET, { ...FLEET }), {});
    const behind = { ...TWO, state: 'behind' as const, lag: 500 };
    const minute = { at: '2026-01-02T12:01:00.000Z', count: 4, p50: 1, p99: 2, most: 3 };
    const now = later(1, { nodes: [ONE, behind], minutes: [...FLEET.minutes, minute], waiting: 7 });
    assert.deepEqual(fleetDelta(FLEET, now), {
      ...{ at: now.at, waiting: 7 },
      ...{ nodes: [behind], gone: [THREE.name], minutes: [minute] },
    });
  });

  it('leave out a lag that grew with the time, and have one that did not', () => {
    const behind = (lag: number) => ({ ...TWO, state: 'behind' as const, lag });
    const before = later(0, { nodes: [behind(500)] });
    assert.deepEqual(Object.keys(fleetDelta(before, later(2, { nodes: [behind(2500)] }))), ['at']);
    assert.deepEqual(fleetDelta(before, later(2, { nodes: [behind(500)] })).nodes, [behind(500)]);
    assert.deepEqual(fleetDelta(before, later(2, { nodes: [behind(100)] })).nodes, [behind(100)]);
    assert.deepEqual(withFleetDelta(before, { at: later(2).at }).nodes, [behind(2500)], 'a reader counts on');
  });

  it('make the same at the reader, whatever changes', () => {
    const node = fc.record({
      name: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      state: fc.constantFrom(...NODE_STATES),
      lag: fc.constantFrom(0, 40, 4000),
      why: fc.constantFrom('', 'why'),
      reasons: fc.array(fc.constantFrom('x', 'y'), { maxLength: 2 }),
      drift: fc.nat(2),
      healthy: fc.boolean(),
    });
    const nodes = fc
      .uniqueArray(node, { selector: ({ name }) => name })
      .map((made) => made.map(({ name, ...more }) => fleetNode(name, more)))
      .map((made) => made.sort((a, b) => (a.name < b.name ? -1 : 1)));
    fc.assert(
      fc.property(fc.array(nodes, { minLength: 1, maxLength: 6 }), (steps) => {
        let said = later(0, { nodes: [] });
        let read = merged(FLEET_MESSAGES, undefined, said);
        for (const [i, step] of steps.entries()) {
          const next = later(i + 1, { nodes: step });
          read = merged(FLEET_MESSAGES, read, JSON.parse(JSON.stringify(fleetDelta(said, next))));
          said = next;
          assert.deepEqual(read, said);
        }
      }),
    );
  });

  it('begin with a whole one, and minutes are forgotten after an hour', () => {
    assert.equal(merged(FLEET_MESSAGES, undefined, FLEET), FLEET);
    assert.throws(() => merged(FLEET_MESSAGES, undefined, { waiting: 1 }), /not whole/);
    const after = withFleetDelta(FLEET, { at: later(1800).at });
    assert.ok(after.minutes.length > 25 && after.minutes.length < 32, `${after.minutes.length} minutes`);
  });
});

describe('the page of the fleet says', () => {
  it('how the fleet is, by a sign: a short lag is normal', () => {
    const sign = (nodes: readonly FleetNode[], passed = 0) => signOfFleet(nodes, passed);
    const behind = fleetNode('b', { state: 'behind', lag: 9000 });
    assert.equal(sign([]), 'waiting');
    assert.equal(sign([ONE, behind]), 'ok');
    assert.equal(sign([ONE, behind], 2000), 'warn', 'it has become late since the message');
    for (const state of ['no answer', 'no agent', 'too old', 'left out'] as const)
      assert.equal(sign([ONE, fleetNode('b', { state, lag: 5 })]), 'warn', state);
    assert.equal(sign([fleetNode('b', { healthy: false })]), 'warn');
    assert.equal(sign([fleetNode('b', { behind: 1 })]), 'warn');
    assert.equal(sign([fleetNode('b', { state: 'no answer', lag: 5 })]), 'bad');
  });

  it('each state by a form of its own, not by the colour alone', () => {
    const forms = LOOKS.map(({ mark, isFilled }) => `${mark} ${isFilled}`);
    assert.equal(new Set(forms).size, LOOKS.length);
    assert.deepEqual([...new Set(LOOKS.map(({ state }) => state))], NODE_STATES);
    const level = (more: Partial<FleetNode>, lag = 0) => lookOf(fleetNode('n', more), lag).level;
    assert.deepEqual(
      [level({}), level({ healthy: false }), level({ state: 'left out' }, 90_000)],
      ['current', 'unwell', 'left out'],
    );
    const names = LOOKS.filter(({ state }) => state === 'current').map(({ name }) => name);
    assert.deepEqual(names, ['current', 'current, not healthy'], 'a node that refuses a Service is behind');
    assert.deepEqual(
      [1, 999, 1000, 9999, 10_000].map((lag) => level({ state: 'behind' }, lag)),
      ['behind', 'behind', 'slow', 'slow', 'late'],
    );
  });

  it('a node in words, with the time that passed since the message', () => {
    const node = fleetNode('n', { state: 'behind', lag: 1500, why: 'busy', healthy: false, reasons: ['a', 'b'] });
    assert.equal(nodeText(node, 500), 'n: behind for 2.0 s; busy; a; b');
    assert.equal(nodeText(ONE, 500), 'node-0000: current');
    assert.equal(stateText('no answer', 125_000), 'no answer for 2 min');
  });

  it('that there is no node, instead of that every one is current', () => {
    assert.equal(noneBehindText([]), 'No node is known yet.');
    assert.equal(noneBehindText([ONE]), 'Every node has every change in its kernel.');
  });

  it('which nodes are not current, and which have troubles, the worst first', () => {
    const { nodes } = fleetOf(200, AT);
    assert.deepEqual(
      behindOf(nodes, 0).map(({ state }) => state),
      ['behind', 'no agent', 'no answer', 'behind', 'behind', 'behind', 'too old', 'left out'],
    );
    assert.deepEqual(
      troubledOf(nodes).map(({ name }) => name),
      ['node-0058', 'node-0160', 'node-0177'],
    );
    assert.equal(
      troubleText(nodes),
      '1 node not healthy, 2 Services refused on 1 node, 3 changes by other programs on 1 node and 1 fault of objects on 1 node.',
    );
    assert.equal(troubleText(FLEET.nodes), 'No node reports a fault or a change by another program.');
    assert.deepEqual([...countsOf(nodes).values()], [192, 4, 1, 1, 1, 1]);
  });

  it('which modes and versions there are, and when they are mixed', () => {
    const kinds = kindsOf(fleetOf(200, AT).nodes);
    assert.deepEqual(kinds[0], { mode: 'nftables', version: '1.4.0', count: 188 });
    assert.equal(mixedText(kinds), '2 modes and 3 versions');
    assert.equal(mixedText(kindsOf([ONE, TWO])), '');
    assert.equal(mixedText(kindsOf([ONE, fleetNode('x', { mode: '', version: '' })])), '', 'not known is not mixed');
  });

  it('the latency, and that the connection is lost', () => {
    assert.match(
      programmingText(FLEET.latency, FLEET.at),
      /^1,284,300 times a change came into the kernel of a node since \d\d:00:30: half within 21 ms, 99 % within 118 ms, at most 41\.0 s/,
    );
    assert.equal(programmingText(null, FLEET.at), 'No change came to a node in the last hour.');
    assert.equal(fleetGoneText(0, AT), 'The fleet does not answer.');
    assert.match(fleetGoneText(AT, AT + 40_000), /is lost: it was last heard at \d\d:00:30, 40 s ago\./);
  });
});

describe('the map of the fleet', () => {
  it('has a place for each cell, and finds it there', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 300, max: 2000 }),
        fc.integer({ min: 1, max: 6000 }),
        fc.nat(),
        (width, count, n) => {
          const grid = gridFor(width, count);
          const index = n % count;
          const { x, y } = placeOf(index, grid);
          assert.equal(cellAt(x + grid.cellWidth / 2, y + grid.cellHeight / 2, grid, count), index);
          assert.ok(x + grid.cellWidth <= width && y + grid.cellHeight <= grid.height);
          assert.equal(cellAt(x, grid.height + 1, grid, count), undefined);
        },
      ),
    );
  });

  it('has names beside few cells, and small cells for many nodes', () => {
    assert.deepEqual([gridFor(1100, 3).hasNames, gridFor(1100, 200).hasNames], [true, false]);
    assert.ok(gridFor(1100, 5000).height <= 450, `${gridFor(1100, 5000).height} pixels`);
    assert.ok(gridFor(1100, 200).cellWidth > gridFor(1100, 5000).cellWidth);
    assert.equal(gridFor(0, 5000).columns, 1, 'before it is measured');
  });

  it('is moved through by keys', () => {
    const grid = gridFor(480, 100);
    assert.equal(grid.columns, 20);
    const keys = ['ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowUp', 'Home', 'End', 'PageDown'];
    assert.deepEqual(
      keys.map((key) => cellAfter(key, 50, grid, 100)),
      [51, 49, 70, 30, 0, 99, 70],
    );
    assert.deepEqual(
      keys.map((key) => cellAfter(key, 99, grid, 100)),
      [99, 98, 99, 79, 0, 99, 99],
    );
    assert.equal(cellAfter('x', 50, grid, 100), undefined);
    assert.equal(cellAfter('Home', 0, grid, 0), undefined);
  });

  it('has its filter in the address, whatever text that is', () => {
    const filter = fc.record({ states: fc.subarray([...NODE_STATES]), name: fc.string(), node: fc.string() });
    fc.assert(
      fc.property(filter, (one) => {
        assert.deepEqual(filterOf(linkTo(one)), { ...one });
        assert.match(linkTo(one), /^#\/(?:\?[\w.*+%=&-]*)?$/);
      }),
    );
    assert.deepEqual(filterOf('#/?state=nowhere&other=1'), { states: [], name: '', node: '' });
  });

  it('shows the nodes of a state and a name', () => {
    const { nodes } = fleetOf(200, AT);
    const all = filterOf('');
    assert.equal(shownBy(all, nodes), nodes);
    const behind = toggled(all, 'behind');
    assert.equal(shownBy(behind, nodes).length, 4);
    assert.deepEqual(
      shownBy({ ...behind, name: ' NODE-005 ' }, nodes).map(({ name }) => name),
      ['node-0058'],
    );
    assert.deepEqual(toggled(behind, 'behind'), all);
  });
});
