/** What is kept of a table between two readings: its handle and generation, and not its objects. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as breath } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { SeenTables } from '../../src/kernel/nftables-seen.ts';

/** Nobody asks for them here. */
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
