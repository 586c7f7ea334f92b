/** What is kept of a table between two readings: its handle and generation, and not its objects. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as breath } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { SeenTables } from '../../src/kernel/nftables-seen.ts';
import { type Commit, type TouchedTable, tableKey } from '../../src/kernel/ruleset-notices.ts';

/** None is asked for. */
const notices = {} as ConstructorParameters<typeof SeenTables>[0]['notices'];

it('keeps nothing else of a table that was read', async () => {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  assert.ok(typeof collect === 'function');
  const seen = new SeenTables({ table: 't', generation: () => 7, handle: () => 3n, notices, port: undefined });
  const read = () => {
    const found = { handle: 3n, generation: 7, state: { chains: new Map(), sets: new Map() } };
    seen.read('IPv4', found, performance.now());
    return new WeakRef(found.state);
  };
  const state = read();
  await breath();
  collect();
  assert.equal(state.deref(), undefined);
  assert.equal(seen.isUnchanged('IPv4'), true);
  assert.equal(seen.presence('IPv4'), 'yes');
});

describe('touched objects that were read', () => {
  const NONE = { isWhole: false, chains: new Set<string>(), sets: new Set<string>(), elements: new Map() };
  const ELEMENT: TouchedTable = { ...NONE, elements: new Map([['services', new Set(['a'])]]) };
  const MAP: TouchedTable = { ...NONE, sets: new Set(['services']) };

  /** Whether the table is known, of which others touched something before a reading of it began and after that. */
  async function isKnown(before: TouchedTable, after: TouchedTable[], known = before): Promise<boolean> {
    const commits = [before, ...after].map((touched, i): Commit => {
      const tables = new Map([[tableKey('IPv4', 't'), touched]]);
      return { generation: 8 + i, port: 2, pid: 1, name: 'nft', tables };
    });
    let now = 8;
    const seen = new SeenTables({
      ...{ table: 't', generation: () => now, handle: () => 3n, port: 1 },
      notices: { ...notices, between: (from, to) => commits.slice(from - 7, to - 7) },
    });
    seen.read('IPv4', { handle: 3n, generation: 7 }, 0);
    const began = now;
    now += after.length;
    const found = await seen.hasRead('IPv4', known, began);
    assert.equal(seen.isUnchanged('IPv4'), found);
    return found;
  }

  it('are known, with the whole table, where nothing of it was touched meanwhile', async () => {
    assert.equal(await isKnown(ELEMENT, []), true);
    assert.equal(await isKnown(MAP, [NONE]), true);
    assert.equal(await isKnown(ELEMENT, [], MAP), true);
  });

  it('are not known where they were touched once more after the reading began, or others were', async () => {
    assert.equal(await isKnown(ELEMENT, [ELEMENT]), false);
    assert.equal(await isKnown(MAP, [ELEMENT]), false);
    assert.equal(await isKnown(MAP, [], ELEMENT), false);
    assert.equal(await isKnown(ELEMENT, [], NONE), false);
  });
});
