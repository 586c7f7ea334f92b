/** The ledger of changes: which versions are in the kernel: what marks claim, and what they never claim. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ChangeLedger, MAX_BEHIND, type WrittenChanges } from '../../../src/proxy/ledger/change-ledger.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';

const WROTE: WrittenChanges = { hasFailed: false, hasWritten: true, without: new Map(), why: '' };
const FAILED: WrittenChanges = {
  hasFailed: true,
  hasWritten: false,
  without: new Map(),
  why: 'IPv4: the lock is held',
};
const refuses = (...services: string[]): WrittenChanges => ({
  ...WROTE,
  without: new Map(services.map((service) => [service, 'the kernel refused it'])),
});

/** A ledger with a source whose changes wait for a sync. */
function ledgerRig() {
  const clock = new FakeClock();
  const state = { hasChanges: false, version: 0, changes: 0 };
  const ledger = new ChangeLedger({ clock, hasChanges: () => state.hasChanges });
  ledger.onChange(() => {
    state.changes += 1;
  });
  const versions = new Map<string, string>();
  return {
    clock,
    state,
    ledger,
    /** A slice of a Service changes. Returns its version. */
    change(slice: string, service = 's/web'): string {
      const version = String(++state.version);
      state.hasChanges = true;
      ledger.changed({ of: 'slices', key: slice, service, before: versions.get(slice) ?? '', isGone: false });
      versions.set(slice, version);
      ledger.reached('slices', version);
      return version;
    },
    /** A slice goes. */
    go(slice: string, service = 's/web'): void {
      const version = String(++state.version);
      state.hasChanges = true;
      ledger.changed({ of: 'slices', key: slice, service, before: versions.get(slice) ?? '', isGone: true });
      versions.delete(slice);
      ledger.reached('slices', version);
    },
    /** Something changes that is nothing for the kernel. */
    pass(of: 'services' | 'slices' = 'slices'): string {
      const version = String(++state.version);
      ledger.reached(of, version);
      return version;
    },
    begin() {
      state.hasChanges = false;
      ledger.syncBegan();
    },
    sync(outcome = WROTE) {
      state.hasChanges = false;
      ledger.syncBegan();
      ledger.syncEnded(outcome);
      ledger.confirmed();
    },
    end(outcome: WrittenChanges) {
      ledger.syncEnded(outcome);
      ledger.confirmed();
    },
    programmed: (slice: string, service = 's/web') => {
      const received = versions.get(slice) ?? '';
      return ledger.versionOf('slices', slice, { service, received });
    },
  };
}

describe('marks', () => {
  it('are those that were received when the sync began, once it has written', () => {
    const rig = ledgerRig();
    const first = rig.change('s/web-1');
    assert.equal(rig.ledger.marks.slices, '');
    rig.begin();
    const later = rig.change('s/web-1');
    assert.equal(rig.ledger.marks.slices, '');
    rig.end(WROTE);
    assert.equal(rig.ledger.marks.slices, first);
    rig.sync();
    assert.equal(rig.ledger.marks.slices, later);
  });

  it('move at once where there is nothing to write, and at the end of a sync to all that came meanwhile and was nothing', () => {
    const rig = ledgerRig();
    rig.sync();
    const at = rig.pass();
    assert.equal(rig.ledger.marks.slices, at);
    rig.begin();
    const during = rig.pass('services');
    assert.equal(rig.ledger.marks.services, '');
    rig.end(WROTE);
    assert.deepEqual(rig.ledger.marks, { services: during, slices: at });
  });

  it('stand before the first sync, and as long as a write fails as a whole, which is said with its time', () => {
    const rig = ledgerRig();
    rig.pass();
    assert.equal(rig.ledger.marks.slices, '');
    rig.change('s/web-1');
    rig.clock.advance(5);
    rig.sync(FAILED);
    assert.deepEqual([rig.ledger.marks.slices, rig.ledger.lags.stuck], ['', { why: FAILED.why, since: 5 }]);
    rig.pass();
    assert.equal(rig.ledger.marks.slices, '', 'what failed is not written by silence');
    rig.clock.advance(5);
    rig.sync({ ...FAILED, why: 'another reason' });
    assert.deepEqual(rig.ledger.lags.stuck, { why: 'another reason', since: 5 });
    rig.sync();
    assert.deepEqual([rig.ledger.marks.slices, rig.ledger.lags.stuck], [String(rig.state.version), undefined]);
  });

  it('are not those of a sync that had no end', () => {
    const rig = ledgerRig();
    rig.sync();
    rig.change('s/web-1');
    rig.begin();
    rig.begin();
    rig.end(FAILED);
    rig.pass();
    assert.equal(rig.ledger.marks.slices, '');
  });

  it('move past a Service that the kernel refuses, which is named until it is written', () => {
    const rig = ledgerRig();
    rig.change('s/bad-1', 's/bad');
    const version = rig.change('s/web-1');
    rig.clock.advance(7);
    rig.sync(refuses('s/bad'));
    assert.equal(rig.ledger.marks.slices, version);
    assert.deepEqual([...rig.ledger.lags.behind], [['s/bad', { why: 'the kernel refused it', since: 7 }]]);
    assert.equal(rig.ledger.hasVersion('slices', version, '', 's/bad'), false);
    assert.equal(rig.ledger.hasVersion('slices', version, '', 's/web'), true);
    const { behind } = rig.ledger.lags;
    rig.sync(refuses('s/bad'));
    assert.equal(rig.ledger.lags.behind, behind, 'nothing changed');
    rig.sync();
    assert.equal(rig.ledger.lags.behind.size, 0);
  });

  it('stand where more Services are refused than are named', () => {
    const rig = ledgerRig();
    rig.change('s/web-1');
    rig.sync(refuses(...Array.from({ length: MAX_BEHIND + 1 }, (_, i) => `s/bad-${i}`)));
    assert.equal(rig.ledger.marks.slices, '');
    assert.match(rig.ledger.lags.stuck?.why ?? '', /^the kernel refuses 1001 Services, such as s\/bad-0: /);
  });

  it('of a kind are taken back when its versions go back, also in the middle of a sync', () => {
    const rig = ledgerRig();
    rig.change('s/web-1');
    rig.pass('services');
    rig.sync();
    rig.ledger.reached('slices', '');
    assert.deepEqual(rig.ledger.marks, { services: '2', slices: '' });
    assert.equal(rig.ledger.markHistory.reachedAt('slices', '1'), undefined);
    assert.equal(rig.ledger.hasVersion('slices', '1', '1', 's/web'), false);
    rig.ledger.reached('slices', '1');
    assert.equal(rig.ledger.marks.slices, '1');
    rig.change('s/web-1');
    rig.begin();
    rig.ledger.reached('slices', '');
    rig.state.hasChanges = true;
    rig.end(WROTE);
    assert.equal(rig.ledger.marks.slices, '');
  });
});

describe('the times behind changes', () => {
  const rig = () => {
    const clock = new FakeClock();
    const ledger = new ChangeLedger({ clock, hasChanges: () => false });
    const sync = (outcome: WrittenChanges) => {
      ledger.syncBegan();
      const ended = ledger.syncEnded(outcome);
      ledger.confirmed();
      return ended?.triggers;
    };
    sync(WROTE);
    const change = (key: string, service: string) => {
      const triggeredAt = clock.wall() + 1000;
      ledger.changed({ of: 'slices', key, service, before: '', isGone: false, triggeredAt });
      return triggeredAt;
    };
    return { sync, change };
  };

  it('come with the first sync that does not fail as a whole, once, also those of a Service that the kernel refuses', () => {
    const { sync, change } = rig();
    const times = [change('s/good-1', 's/good'), change('s/bad-1', 's/bad')];
    assert.deepEqual(sync(FAILED), []);
    assert.deepEqual(sync(refuses('s/bad')), times);
    assert.deepEqual(sync(WROTE), []);
  });

  it('come where one family cannot be written, though no change counts as written then', () => {
    const { sync, change } = rig();
    const time = change('s/good-1', 's/good');
    assert.deepEqual(sync({ ...FAILED, hasFailed: false }), [time]);
    assert.deepEqual(sync(WROTE), []);
  });
});

describe('the version of an object', () => {
  it('is the one before a change until the change is in the kernel', () => {
    const rig = ledgerRig();
    const first = rig.change('s/web-1');
    assert.equal(rig.programmed('s/web-1'), '');
    rig.sync();
    assert.equal(rig.programmed('s/web-1'), first);
    const second = rig.change('s/web-1');
    assert.equal(rig.programmed('s/web-1'), first);
    rig.begin();
    const third = rig.change('s/web-1');
    assert.equal(rig.programmed('s/web-1'), first);
    rig.end(WROTE);
    assert.equal(rig.programmed('s/web-1'), second);
    rig.sync(FAILED);
    rig.change('s/web-1');
    rig.sync(FAILED);
    assert.equal(rig.programmed('s/web-1'), second);
    rig.sync();
    assert.equal(rig.programmed('s/web-1'), String(rig.state.version));
    assert.ok(Number(third) < rig.state.version);
    assert.equal(rig.ledger.pendingObjects.size, 0, 'nothing is remembered where nothing is pending');
  });

  it('stays, as long as the kernel refuses its Service', () => {
    const rig = ledgerRig();
    const first = rig.change('s/bad-1', 's/bad');
    rig.sync();
    const second = rig.change('s/bad-1', 's/bad');
    rig.sync(refuses('s/bad'));
    assert.equal(rig.programmed('s/bad-1'), first);
    assert.equal(rig.ledger.hasVersion('slices', first, first, 's/bad'), true);
    rig.sync();
    assert.equal(rig.programmed('s/bad-1'), second);
  });
});

describe('objects that come and go while nothing can be written', () => {
  it('are forgotten, also where a sync took them and failed', () => {
    const rig = ledgerRig();
    rig.pass();
    rig.sync();
    for (let i = 0; i < 10; i++) {
      rig.change(`s/before-${i}`);
      rig.go(`s/before-${i}`);
      rig.change(`s/between-${i}`);
      rig.sync(FAILED);
      rig.go(`s/between-${i}`);
      rig.change(`s/during-${i}`);
      rig.begin();
      rig.change(`s/within-${i}`);
      rig.go(`s/within-${i}`);
      rig.go(`s/during-${i}`);
      assert.ok(rig.ledger.pendingObjects.get(`slices s/during-${i}`), 'the sync that runs may write it');
      rig.end(FAILED);
      assert.equal(rig.ledger.pendingObjects.size, 0);
    }
  });

  it('are kept where the kernel has them, or where a sync wrote them meanwhile, or where they come again', () => {
    const rig = ledgerRig();
    const old = rig.change('s/old-1');
    rig.sync();
    rig.change('s/old-1');
    rig.sync(FAILED);
    rig.go('s/old-1');
    rig.sync(FAILED);
    assert.equal(rig.programmed('s/old-1'), old);
    const written = rig.change('s/late-1');
    rig.change('s/again-1', 's/bad');
    rig.begin();
    rig.go('s/late-1');
    rig.go('s/again-1', 's/bad');
    rig.change('s/again-1', 's/bad');
    rig.end(refuses('s/bad'));
    assert.equal(rig.programmed('s/late-1'), written);
    assert.equal(rig.programmed('s/again-1', 's/bad'), '');
    assert.ok(rig.ledger.pendingObjects.get('slices s/again-1'));
    rig.sync();
    assert.equal(rig.ledger.pendingObjects.size, 0);
  });
});

describe('a Service that the first sync could not write', () => {
  it('has no version in the kernel, whatever comes, until it is written', () => {
    const rig = ledgerRig();
    rig.change('s/bad-1', 's/bad');
    rig.sync(refuses('s/bad'));
    assert.equal(rig.programmed('s/bad-1', 's/bad'), '');
    const second = rig.change('s/bad-1', 's/bad');
    rig.sync(refuses('s/bad'));
    assert.equal(rig.programmed('s/bad-1', 's/bad'), '');
    rig.sync();
    assert.equal(rig.programmed('s/bad-1', 's/bad'), second);
  });
});

describe('a Service that the kernel refuses although nothing of it changed', () => {
  it('has no version in the kernel that is known, until it is written', () => {
    const rig = ledgerRig();
    const first = rig.change('s/bad-1', 's/bad');
    rig.sync();
    assert.equal(rig.programmed('s/bad-1', 's/bad'), first);
    rig.sync(refuses('s/bad'));
    assert.equal(rig.programmed('s/bad-1', 's/bad'), '');
    rig.change('s/bad-1', 's/bad');
    rig.sync(refuses('s/bad'));
    assert.equal(rig.programmed('s/bad-1', 's/bad'), '');
    rig.sync();
    assert.notEqual(rig.programmed('s/bad-1', 's/bad'), '');
  });

  it('has the version from before where it changed', () => {
    const rig = ledgerRig();
    const first = rig.change('s/bad-1', 's/bad');
    rig.sync();
    rig.change('s/bad-1', 's/bad');
    rig.sync(refuses('s/bad'));
    rig.sync(refuses('s/bad'));
    assert.equal(rig.programmed('s/bad-1', 's/bad'), first);
  });
});

/** A kernel, and agents' events in any order: what the kernel has of each slice, by version. */
describe('in any history', () => {
  const action = fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('change' as const), slice: fc.nat({ max: 5 }) }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'pass' as const }) },
    { weight: 3, arbitrary: fc.constant({ kind: 'begin' as const }) },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('end' as const),
        result: fc.constantFrom('written', 'failed', 'refused', 'none'),
        service: fc.nat({ max: 2 }),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ kind: 'restore' as const }) },
  );

  it('no mark and no version claims what the kernel lacks', () => {
    const seen = { claims: 0, behind: 0 };
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60, size: 'max' }), (actions) => {
        const world = new World();
        for (const one of actions) {
          world.act(one);
          world.check(seen);
        }
      }),
      { numRuns: 500 },
    );
    assert.ok(seen.claims > 1000 && seen.behind > 100, `it was tried: ${JSON.stringify(seen)}`);
  });

  interface Act {
    readonly kind: 'change' | 'pass' | 'begin' | 'end' | 'restore';
    readonly slice?: number;
    readonly result?: string;
    readonly service?: number;
  }

  /** Two slices a Service. Versions are told beside an epoch: after a restore the same number is another state. */
  class World {
    readonly #ledger = new ChangeLedger({ clock: new FakeClock(), hasChanges: () => this.#touched.size > 0 });
    /** Of each slice: all versions that it had, the newest last. */
    readonly #had = new Map<string, number[]>();
    readonly #kernel = new Map<string, number>();
    readonly #touched = new Set<string>();
    /** Services to write: those taken, and those that failed before. */
    #owed = new Set<string>();
    #isRunning = false;
    /** What is written when the sync ends: the state at its beginning. */
    #wanted = new Map<string, number>();
    #version = 100;
    #reached = false;

    act({ kind, slice = 0, result = '', service = 0 }: Act): void {
      if (kind === 'change') this.#change(`s/svc-${slice % 3}`, `s/svc-${slice % 3}-${slice}`);
      else if (kind === 'pass') this.#reach(++this.#version);
      else if (kind === 'begin' && !this.#isRunning) this.#begin();
      else if (kind === 'end' && this.#isRunning) this.#end(result, `s/svc-${service}`);
      else if (kind === 'restore') this.#restore();
    }

    #reach(version: number): void {
      this.#reached = true;
      this.#ledger.reached('slices', String(version));
    }

    #change(service: string, slice: string): void {
      const before = this.#had.get(slice)?.at(-1);
      const version = ++this.#version;
      this.#had.set(slice, [...(this.#had.get(slice) ?? []), version]);
      this.#touched.add(service);
      this.#ledger.changed({ of: 'slices', key: slice, service, before: String(before ?? ''), isGone: false });
      this.#reach(version);
    }

    #begin(): void {
      this.#isRunning = true;
      for (const service of this.#touched) this.#owed.add(service);
      this.#touched.clear();
      this.#wanted = new Map([...this.#had].map(([slice, all]) => [slice, all.at(-1) ?? 0]));
      this.#ledger.syncBegan();
    }

    #end(result: string, refused: string): void {
      this.#isRunning = false;
      // Aborted: the next one begins without the end of this one.
      if (result === 'none') return;
      const without = result === 'refused' && this.#owed.has(refused) ? [refused] : [];
      if (result !== 'failed') {
        for (const service of this.#owed) {
          if (without.includes(service)) continue;
          for (const [slice, version] of this.#wanted)
            if (slice.startsWith(`${service}-`)) this.#kernel.set(slice, version);
        }
        this.#owed = new Set(without);
      }
      this.#ledger.syncEnded(result === 'failed' ? FAILED : refuses(...without));
      this.#ledger.confirmed();
    }

    /** The numbers begin again below; every slice is passed on anew by a list, and the list ends. */
    #restore(): void {
      this.#ledger.reached('slices', '');
      this.#version = Math.max(1, this.#version - 50);
      const before = new Map([...this.#had].map(([slice, all]) => [slice, all.at(-1) ?? 0]));
      this.#had.clear();
      this.#kernel.clear();
      this.#reached = false;
      for (const [slice, version] of before) {
        const service = slice.slice(0, 'svc-0'.length + 2);
        this.#had.set(slice, [++this.#version]);
        this.#touched.add(service);
        this.#ledger.changed({ of: 'slices', key: slice, service, before: String(version), isGone: false });
      }
      this.#reach(++this.#version);
    }

    check(seen: { claims: number; behind: number }): void {
      const mark = this.#ledger.marks.slices;
      const { behind } = this.#ledger.lags;
      assert.ok(mark === '' || this.#reached, 'a mark without anything received');
      for (const [slice, all] of this.#had) {
        const service = slice.slice(0, 'svc-0'.length + 2);
        const inKernel = this.#kernel.get(slice) ?? 0;
        if (behind.has(service)) seen.behind += 1;
        else if (mark !== '') {
          seen.claims += 1;
          const claimed = all.findLast((version) => version <= Number(mark)) ?? 0;
          assert.ok(inKernel >= claimed, `mark ${mark} claims ${slice} at ${claimed}; the kernel has ${inKernel}`);
        }
        const said = this.#ledger.versionOf('slices', slice, { service, received: String(all.at(-1) ?? '') });
        if (said !== '') assert.ok(inKernel >= Number(said), `${slice}: ${said} is claimed, ${inKernel} is there`);
      }
    }
  }
});
