import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { NftElement, NftSet } from '../../../../src/kernel/nftables-kernel.ts';
import { ElementTable, sameEntry } from '../../../../src/proxy/modes/nft-table/element-table.ts';
import type { OwnedElement } from '../../../../src/proxy/modes/nft-table/layout.ts';
import { Tracker } from '../../../../src/proxy/reconcile/tracker.ts';

const MAP: NftSet = { name: 'backends', key: ['port', 'number'], data: ['address', 'port'] };
const VERDICTS: NftSet = { name: 'services', key: ['address', 'port'], data: 'verdict' };
const RANGES: NftSet = { name: 'ranges', key: ['address', 'address'], hasRanges: true };

/** Few keys and values, so that they meet again. */
const KEYS = ['aaaabbbb', 'aaaabbb\u00ff', '\0\0\0\0\0\0\0\0', 'zzzzzzzz', 'qwertzui'];
/** Another program made a set of the same name with another key. */
const ODD = 'abcd';
const VALUES: ReadonlyMap<NftSet, readonly Pick<NftElement, 'data' | 'end'>[]> = new Map([
  [MAP, ['12345678', '\u00ff\u00fe\u00fd\0\0\0\0\0'].map((data) => ({ data, end: '' }))],
  [VERDICTS, ['goto one', 'drop'].map((data) => ({ data, end: '' }))],
  [RANGES, ['', 'zzzzzzzz'].map((end) => ({ data: '', end }))],
]);
/** A value that our set cannot have; another program's can. */
const STRANGE = { data: 'short', end: 'longer than a key of ours' };

type Step =
  | { readonly do: 'desire' | 'wrote'; readonly key: string; readonly value: OwnedElement | undefined }
  | { readonly do: 'observe' | 'drift' | 'correct'; readonly found: readonly OwnedElement[] }
  | { readonly do: 'forget' | 'settle' };

function steps(set: NftSet): fc.Arbitrary<readonly Step[]> {
  const values = VALUES.get(set) ?? [];
  const owner = fc.constantFrom(undefined, 'default/a', 'default/b');
  const counted = fc.constantFrom({}, { isCounted: true } as const);
  const entry = (keys: readonly string[], data: readonly Pick<NftElement, 'data' | 'end'>[]) =>
    fc
      .tuple(fc.constantFrom(...keys), fc.constantFrom(...data), owner, counted)
      .map(([key, value, of, more]) => ({ key, ...value, owner: of, ...more }));
  const ours = entry(KEYS, values);
  const theirs = entry([...KEYS, ODD], [...values, STRANGE]).map((one) => ({ ...one, owner: undefined }));
  const found = fc.uniqueArray(theirs, { selector: ({ key }) => key });
  const change = (word: 'desire' | 'wrote') => [
    ours.map((value) => ({ do: word, key: value.key, value })),
    fc.constantFrom(...KEYS).map((key) => ({ do: word, key, value: undefined })),
  ];
  return fc.array(
    fc.oneof(
      ...change('desire'),
      ...change('wrote'),
      found.map((all) => ({ do: 'observe' as const, found: all })),
      found.map((all) => ({ do: 'drift' as const, found: all })),
      found.map((all) => ({ do: 'correct' as const, found: all })),
      fc.constantFrom({ do: 'forget' as const }, { do: 'settle' as const }),
    ),
    { maxLength: 40 },
  );
}

const byKey = (found: readonly OwnedElement[]) => new Map(found.map((one) => [one.key, one]));
const sorted = (keys: Iterable<string>) => [...keys].sort();

/** Both do the same; what they answer is compared. */
function run(table: ElementTable, tracker: Tracker<string, OwnedElement>, step: Step): void {
  const isKnown = tracker.applied !== undefined;
  if (step.do === 'desire') {
    table.desire(step.key, step.value);
    tracker.desire(step.key, step.value);
  } else if (step.do === 'wrote' && isKnown) {
    table.wrote(step.key, step.value);
    tracker.wrote(step.key, step.value);
  } else if (step.do === 'observe') {
    table.observe(step.found);
    tracker.observe(byKey(step.found));
  } else if (step.do === 'drift') {
    const keys = table.driftFrom(step.found).map(({ key }) => key);
    assert.deepEqual(sorted(keys), sorted(tracker.driftFrom(byKey(step.found))));
  } else if (step.do === 'correct' && isKnown) {
    assert.deepEqual(
      withoutOwners(table.correct(byKey(step.found))),
      withoutOwners(tracker.correct(byKey(step.found))),
    );
  } else if (step.do === 'forget') {
    table.forget();
    tracker.forget();
  } else if (step.do === 'settle' && isKnown) settle(table, tracker);
}

/** Everything that differs is written. */
function settle(...both: readonly Pick<ElementTable, 'delta' | 'wrote'>[]): void {
  for (const one of both) {
    const { create, update, remove } = one.delta();
    for (const [key, to] of create) one.wrote(key, to);
    for (const [key, { to }] of update) one.wrote(key, to);
    for (const key of remove.keys()) one.wrote(key, undefined);
  }
}

/** The kernel does not store the Service of an element: a table may know that of an element which a tracker has as it was read. */
function withoutOwners(all: ReadonlyMap<string, OwnedElement | undefined>): unknown {
  return new Map(sorted(all.keys()).map((key) => [key, bare(all.get(key))]));
}

const bare = (entry: OwnedElement | undefined) => entry && { ...entry, owner: undefined };

function assertSame(table: ElementTable, tracker: Tracker<string, OwnedElement>): void {
  assert.deepEqual(new Map([...table.desired].sort()), new Map([...tracker.desired].sort()));
  assert.equal(table.desired.size, tracker.desired.size);
  assert.equal(table.applied === undefined, tracker.applied === undefined);
  if (table.applied === undefined || tracker.applied === undefined) return;
  assert.deepEqual(withoutOwners(table.applied), withoutOwners(tracker.applied));
  assert.equal(table.applied.size, tracker.applied.size);
  const [ours, theirs] = [table.delta(), tracker.delta()];
  assert.deepEqual(new Map([...ours.create].sort()), new Map([...theirs.create].sort()));
  assert.deepEqual(sorted(ours.update.keys()), sorted(theirs.update.keys()));
  for (const [key, { from, to }] of ours.update) {
    assert.deepEqual([bare(from), to], [bare(theirs.update.get(key)?.from), theirs.update.get(key)?.to]);
  }
  assert.deepEqual(withoutOwners(ours.remove), withoutOwners(theirs.remove));
  for (const key of [...KEYS, ODD]) {
    assert.equal(table.desired.has(key), tracker.desired.has(key));
    assert.deepEqual(bare(table.applied.get(key)), bare(tracker.applied.get(key)));
  }
}

describe('the elements of a set in rows', () => {
  for (const set of [MAP, VERDICTS, RANGES]) {
    it(`say what a tracker says, whatever happens to ${set.name}`, () => {
      fc.assert(
        fc.property(steps(set), (all) => {
          const table = new ElementTable(set, 'IPv4');
          const tracker = new Tracker<string, OwnedElement>(sameEntry);
          for (const step of all) {
            run(table, tracker, step);
            assertSame(table, tracker);
          }
        }),
        { numRuns: 400 },
      );
    });
  }

  it('keep the order of changes that wait when the kernel is read', () => {
    const table = new ElementTable(MAP, 'IPv4');
    const entry = (key: string): OwnedElement => ({ key, end: '', data: '12345678', owner: undefined });
    for (const key of ['zzzzzzzz', 'aaaabbbb', 'qwertzui']) table.desire(key, entry(key));
    table.observe([entry('aaaabbbb'), entry('\0\0\0\0\0\0\0\0')]);
    const { create, remove } = table.delta();
    assert.deepEqual([[...create.keys()], [...remove.keys()]], [['zzzzzzzz', 'qwertzui'], ['\0\0\0\0\0\0\0\0']]);
  });

  it('are found among very many, also after many were removed', () => {
    const table = new ElementTable(MAP, 'IPv6');
    const key = (i: number) => Buffer.from(Uint32Array.of(i, i * 7).buffer).toString('latin1');
    const entry = (i: number): OwnedElement => ({
      key: key(i),
      end: '',
      data: key(i) + '\0'.repeat(12),
      owner: undefined,
    });
    for (let i = 0; i < 20_000; i++) table.desire(key(i), entry(i));
    for (let i = 0; i < 20_000; i += 3) table.desire(key(i), undefined);
    for (let i = 20_000; i < 22_000; i++) table.desire(key(i), entry(i));
    for (let i = 0; i < 22_000; i++) {
      const isGone = i < 20_000 && i % 3 === 0;
      assert.deepEqual(table.desired.get(key(i)), isGone ? undefined : entry(i));
    }
    assert.equal(table.desired.size, 22_000 - 6667);
  });

  it('refuse a desired value that the set cannot have', () => {
    const table = new ElementTable(MAP, 'IPv4');
    const wrong = { key: 'aaaabbbb', end: '', data: 'short', owner: undefined };
    assert.throws(() => table.desire(wrong.key, wrong), /does not fit/);
    assert.equal(table.desired.size, 0);
  });

  it('throw while the kernel is not known', () => {
    const table = new ElementTable(MAP, 'IPv4');
    assert.throws(() => table.delta(), /not known/);
    assert.throws(() => table.wrote('aaaabbbb', undefined), /not known/);
  });
});
