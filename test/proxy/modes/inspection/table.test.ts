/** The inspection of nftables mode: views, and a kernel that was changed behind the mode's back. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../../src/base/address.ts';
import type { NftElement, NftRule } from '../../../../src/kernel/nftables-kernel.ts';
import type { Comparison, ObjectDifference } from '../../../../src/proxy/modes/inspection.ts';
import { socketKey } from '../../../../src/proxy/modes/nft-table/element-bytes.ts';
import { FakeNft, type FakeTable } from '../../../helpers/kernel/fake-nft.ts';
import { nftRig } from '../../../helpers/proxy/nft-rig.ts';
import { NEVER, type Rig } from '../../../helpers/proxy/rig.ts';
import { plain, put, synced, WEB } from './objects.ts';

async function running(): Promise<{ rig: Rig; kernel: FakeNft; table: FakeTable }> {
  const { rig, kernel } = nftRig({ families: ['IPv4'], kernel: new FakeNft() });
  put(rig);
  await synced(rig);
  return { rig, kernel, table: kernel.tables.get('IPv4') ?? assert.fail() };
}

function only({ differences }: Comparison): ObjectDifference {
  assert.equal(differences.length, 1, JSON.stringify(differences, undefined, 1));
  return differences[0] ?? assert.fail();
}

function elementsOf({ sets }: FakeTable, set: string): Map<string, NftElement> {
  return sets.get(set)?.elements ?? assert.fail(set);
}

describe('the inspection of nftables mode', () => {
  it('believes, desires and reads the same after a sync', async () => {
    const { rig, table } = await running();
    const { inspection } = rig.mode;
    const names = { tableChains: [...table.chains.keys()], sets: [...table.sets.keys()] };
    const [believed, desired, read] = [inspection.believed(), inspection.desired(), await inspection.read(NEVER)].map(
      ([view]) => plain(view ?? assert.fail(), names),
    );
    assert.deepEqual(believed, read);
    assert.deepEqual(desired, read);
    const { differences, compared } = await inspection.compare(NEVER);
    assert.deepEqual(differences, []);
    assert.ok(compared > table.chains.size + table.sets.size, String(compared));
  });

  it('finds elements by their keys, with their Services, and hooks by their priorities', async () => {
    const { rig, table } = await running();
    const [view] = await rig.mode.inspection.read(NEVER);
    const found = view?.table?.element('services', socketKey(WEB as Address, 'TCP', 80));
    assert.deepEqual([found?.owner, found?.data], ['shop/web', 'goto cluster-ip-of-2']);
    assert.equal(view?.table?.element('services', socketKey(WEB as Address, 'TCP', 81)), undefined);
    assert.equal(view?.table?.element('no such set', ''), undefined);
    const atOutput = [...table.chains].flatMap(([name, { hook }]) =>
      hook?.hook === 'output' ? [{ name, ...hook }] : [],
    );
    const byPriority = atOutput.sort((a, b) => a.priority - b.priority);
    assert.deepEqual(
      view?.table?.called('output'),
      byPriority.map(({ name, type }) => ({ name, type })),
    );
    assert.equal(byPriority.filter(({ type }) => type === 'nat').length, 1);
  });

  it('is never sure of a kernel in which another program may have written', async () => {
    const { rig } = await running();
    assert.equal(await rig.mode.inspection.isCertain(), false);
  });

  it('names a changed element, with its Service', async () => {
    const { rig, table } = await running();
    const key = socketKey(WEB as Address, 'TCP', 80);
    const elements = elementsOf(table, 'services');
    elements.set(key, { ...(elements.get(key) ?? assert.fail()), data: 'drop' });
    assert.deepEqual(only(await rig.mode.inspection.compare(NEVER)), {
      family: 'IPv4',
      object: 'services 10.96.0.20 . tcp . 80',
      owner: 'shop/web',
      kind: 'changed',
      wanted: ['10.96.0.20 . tcp . 80 : goto cluster-ip-of-2'],
      found: ['10.96.0.20 . tcp . 80 : drop'],
      because: undefined,
      isRepaired: true,
    });
  });

  it('names a missing element and a foreign one', async () => {
    const { rig, table } = await running();
    const [key, element] = [...elementsOf(table, 'backends')][0] ?? assert.fail();
    elementsOf(table, 'backends').delete(key);
    const missing = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([missing.kind, missing.found], ['missing', []]);
    elementsOf(table, 'backends').set(key, element);
    const foreign = socketKey('10.96.0.99' as Address, 'UDP', 53);
    elementsOf(table, 'services').set(foreign, { key: foreign, end: '', data: 'drop' });
    const { kind, object, owner } = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([kind, object, owner], ['foreign', 'services 10.96.0.99 . udp . 53', undefined]);
  });

  it('names a rule that was replaced under the same comment', async () => {
    const { rig, table } = await running();
    const chain = table.chains.get('services') ?? assert.fail();
    const [first, ...rest] = chain.rules;
    const replaced: NftRule = {
      ...(first ?? assert.fail()),
      expressions: [{ do: 'verdict', verdict: { kind: 'drop' } }],
    };
    table.chains.set('services', { ...chain, rules: [replaced, ...rest] });
    const { kind, object, wanted, found, isRepaired } = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([kind, object, found], ['changed', 'chain services', [`${first?.text}: drop`]]);
    assert.equal(isRepaired, false);
    assert.match(wanted.join(), /: w0 = /);
  });

  it('names a chain at another hook, rules in another order, and a foreign chain and set', async () => {
    const { rig, table } = await running();
    const [name, chain] = [...table.chains].find(([, { hook }]) => hook !== undefined) ?? assert.fail();
    table.chains.set(name, { ...chain, hook: { type: 'filter', hook: 'input', priority: 7 } });
    const moved = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([moved.kind, moved.found], ['changed', ['hook input, type filter, priority 7']]);
    table.chains.set(name, { ...chain, rules: [...chain.rules].reverse() });
    assert.equal(chain.rules.length > 1 ? only(await rig.mode.inspection.compare(NEVER)).kind : 'order', 'order');
    table.chains.set(name, chain);
    table.chains.set('theirs', { hook: undefined, rules: [] });
    table.sets.set('their-set', { set: { name: 'their-set', key: [] }, elements: new Map() });
    const { differences } = await rig.mode.inspection.compare(NEVER);
    assert.deepEqual(
      differences.map(({ kind, object }) => `${kind} ${object}`),
      ['foreign chain theirs', 'foreign set their-set'],
    );
  });

  it('does not compare sets that stay untouched', async () => {
    const kernel = new FakeNft();
    const { rig } = nftRig({ families: ['IPv4'], kernel, settings: () => ({ serviceCidrs: undefined }) });
    await synced(rig);
    const table = kernel.tables.get('IPv4') ?? assert.fail();
    elementsOf(table, 'service-cidrs').set('key', { key: 'key', end: 'key', data: '' });
    assert.deepEqual((await rig.mode.inspection.compare(NEVER)).differences, []);
  });

  it('says that unused chains wait, and that changes are not written yet', async () => {
    const { rig } = nftRig({ families: ['IPv4'], keep: 3_600_000 });
    put(rig);
    await synced(rig);
    rig.remove('Service', 'shop/web');
    await synced(rig);
    const { differences } = await rig.mode.inspection.compare(NEVER);
    assert.ok(differences.length > 0);
    assert.deepEqual(new Set(differences.map(({ because }) => because)), new Set(['waits for connections to end']));
    put(rig);
    await rig.loop.plan(NEVER);
    const pending = (await rig.mode.inspection.compare(NEVER)).differences.filter(({ owner }) => owner === 'shop/web');
    assert.ok(pending.length > 0);
    assert.deepEqual(new Set(pending.map(({ because }) => because)), new Set(['not written yet']));
  });

  it('never lets a chain wait that the kernel sends packets into; the next sync deletes it', async () => {
    const { kernel, table } = await running();
    const hook = { type: 'filter', hook: 'prerouting', priority: -300 } as const;
    table.chains.set('theirs', { hook, rules: [] });
    // An agent that starts later finds it.
    const { rig } = nftRig({ families: ['IPv4'], kernel, keep: 3_600_000 });
    put(rig);
    await rig.loop.plan(NEVER);
    const { object, because } = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([object, because], ['chain theirs', 'not written yet']);
    await synced(rig);
    assert.equal(kernel.tables.get('IPv4')?.chains.has('theirs'), false);
    assert.deepEqual((await rig.mode.inspection.compare(NEVER)).differences, []);
  });

  it('remembers clients by the memories of nftables', async () => {
    const { rig, kernel, table } = await running();
    const memory = [...table.sets.keys()].find((name) => name.startsWith('affinity-')) ?? assert.fail();
    kernel.memories.set(memory, new Map([['\x0a\xf4\x01\x07', 120.5]]));
    const ask = (client: string) =>
      rig.mode.inspection.remembered('IPv4', { lists: [memory, 'no such set'], destinations: [] }, client as Address);
    assert.deepEqual(await ask('10.244.1.7'), new Map([[memory, 120.5]]));
    assert.deepEqual(await ask('10.244.1.8'), new Map());
  });

  it('names the program that wrote last', async () => {
    const { rig, kernel } = await running();
    kernel.writer = { pid: 4711, name: 'nft', isUs: false };
    assert.deepEqual((await rig.mode.inspection.compare(NEVER)).lastWriter, kernel.writer);
  });
});
