/** How large the code may be, so that a file is read in one sitting and a function is seen on one screen. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sourceFiles } from '../scripts/imports.ts';
import { linesOf, type Measure, measuresOf } from '../scripts/measures.ts';

const FILES = sourceFiles('src', 'native', 'scripts');
const MEASURES = FILES.flatMap(measuresOf);

/** The largest of a kind: lines, or members of a class. */
const MOST: Readonly<Record<Measure['kind'], number>> = { file: 350, function: 60, class: 20 };

/** Lines of whole folders. */
const FOLDERS = {
  'src/cli/': 1200,
  'src/modes/iptables/': 700,
  'src/modes/nftables/': 1500,
  'src/modes/ipvs/': 1600,
} as const;

describe('the measures of the code', () => {
  it('finds what there is to measure', () => {
    const count = (kind: Measure['kind']) => MEASURES.filter((measure) => measure.kind === kind).length;
    assert.ok(
      count('file') > 250 && count('class') > 60 && count('function') > 1000,
      JSON.stringify(count('function')),
    );
    const tracker = MEASURES.find(({ file, kind }) => file === 'src/reconcile/tracker.ts' && kind === 'class');
    assert.equal(tracker?.size, 20);
  });

  for (const [kind, most] of Object.entries(MOST)) {
    it(`no ${kind} is larger than ${most} ${kind === 'class' ? 'members' : 'lines'}`, () => {
      assert.deepEqual(
        MEASURES.filter((measure) => measure.kind === kind && measure.size > most),
        [],
      );
    });
  }

  for (const [folder, most] of Object.entries(FOLDERS)) {
    it(`${folder} has at most ${most} lines`, () => {
      const lines = FILES.filter((file) => file.startsWith(folder)).reduce(
        (sum, file) => sum + linesOf(file).length,
        0,
      );
      assert.ok(lines > 0 && lines <= most, `${lines} lines`);
    });
  }
});
