/** A table that is believed to be as desired is the same as one that was read and found so. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { NftSet } from '../../../../src/kernel/nftables-kernel.ts';
import { ElementTable } from '../../../../src/proxy/modes/nft-table/element-table.ts';

const MAP: NftSet = { name: 'backends', key: ['port', 'number'], data: ['port'] };
const entry = (key: string, data: string) => ({ key, end: '', data, owner: undefined });

function desired(): ElementTable {
  const table = new ElementTable(MAP, 'IPv4');
  for (const key of ['aaaabbbb', 'ccccdddd', 'eeeeffff']) table.desire(key, entry(key, '1234'));
  table.desire('ccccdddd', undefined);
  return table;
}

it('believes each desired element, and goes on as after a reading', () => {
  const [believing, reading] = [desired(), desired()];
  believing.observe('as desired');
  reading.observe([...desired().desired.values()]);
  for (const table of [believing, reading]) {
    assert.deepEqual([...(table.applied ?? [])], [...table.desired]);
    assert.equal(table.applied?.size, 2);
    assert.deepEqual(table.delta(), { create: new Map(), update: new Map(), remove: new Map() });
    table.desire('aaaabbbb', entry('aaaabbbb', '5678'));
    table.desire('eeeeffff', undefined);
    const { create, update, remove } = table.delta();
    assert.deepEqual([create.size, [...update.keys()], [...remove.keys()]], [0, ['aaaabbbb'], ['eeeeffff']]);
    assert.equal(update.get('aaaabbbb')?.from.data, '1234');
    assert.deepEqual(
      table.driftFrom([entry('aaaabbbb', '1234')]).map(({ key }) => key),
      ['eeeeffff'],
    );
  }
});

it('forgets what it believed before', () => {
  const table = desired();
  table.observe([entry('zzzzzzzz', '1234'), entry('aaaabbbb', '9999')]);
  table.observe('as desired');
  assert.deepEqual([...(table.applied ?? [])], [...table.desired]);
  assert.equal(table.delta().remove.size + table.delta().update.size, 0);
});
