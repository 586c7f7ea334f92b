/** The lists of Kubernetes' test cases are true: what they name exists, every case says what holds it, and docs/reference/upstream.md shows them. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { STORIES } from '../conformance/stories/index.ts';
import { isFile, type UpstreamCase } from './cases.ts';
import { difference } from './compare.ts';
import { casesOf } from './go-tests.ts';
import { heldBy, UPSTREAM } from './index.ts';
import { UPSTREAM_PAGE, upstreamPage } from './page.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Something wrong in each case, as `PATH: TITLE: PROBLEM`. */
function problems(of: (one: UpstreamCase) => readonly string[]): string[] {
  return UPSTREAM.flatMap(({ path, cases }) =>
    cases.flatMap((one) => of(one).map((problem) => `${path}: ${one.title}: ${problem}`)),
  );
}

describe('the lists of upstream cases', () => {
  it('name stories and test files that there are', () => {
    const ids = new Set(STORIES.map(({ id }) => id));
    assert.deepEqual(
      problems(({ by }) => by.filter((holder) => !(isFile(holder) ? existsSync(join(ROOT, holder)) : ids.has(holder)))),
      [],
    );
  });

  it('have each case once, and each case says what holds it, or why nothing does', () => {
    const paths = UPSTREAM.map(({ path }) => path);
    assert.deepEqual(
      paths.filter((path, i) => paths.indexOf(path) !== i),
      [],
    );
    assert.deepEqual(
      UPSTREAM.filter(({ cases }) => cases.length === 0).map(({ path }) => path),
      [],
    );
    assert.deepEqual(
      problems((one) => [
        ...(one.title.trim() === '' ? ['it has no title'] : []),
        ...(one.not?.trim() === '' || one.differs?.trim() === '' ? ['a reason is empty'] : []),
        ...(heldBy(one) === 'not' && one.not === undefined ? ['nothing holds it, and no reason is given'] : []),
        ...(Number.isInteger(one.rows) && one.rows > 0 ? [] : [`it has ${one.rows} rows`]),
      ]),
      [],
    );
  });

  it('are told in docs/reference/upstream.md as they are now (npm run conformance writes it)', () => {
    assert.equal(readFileSync(UPSTREAM_PAGE, 'utf8'), upstreamPage());
  });
});

describe('cases of a Go test file', () => {
  const source = [
    'func TestPlain(t *testing.T) {',
    '\tname := "x"',
    '}',
    'func TestTable(t *testing.T) {',
    '\ttestCases := []struct {',
    '\t\tname string',
    '\t}{',
    '\t\t{',
    '\t\t\tname: "one, \\"quoted\\"",',
    '\t\t\tflows: []flow{',
    '\t\t\t\t{',
    '\t\t\t\t\tname: `a packet`,',
    '\t\t\t\t},',
    '\t\t\t},',
    '\t\t},',
    '\t\t{name: "two", want: 1},',
    '\t}',
    '\tt.Run("three", func(t *testing.T) {',
    '\t})',
    '\tother := map[string]int{',
    '\t\t"four": {',
    '\t\t\tName: "not a case",',
    '\t\t},',
    '\t}',
    '}',
    'func helper(t *testing.T) {',
    '\tname: "nobody",',
    '}',
  ].join('\n');

  it('are functions and named rows', () => {
    assert.deepEqual(casesOf(source), [
      'TestPlain',
      'TestTable/one, "quoted"/a packet',
      'TestTable/two',
      'TestTable/three',
      'TestTable/four',
    ]);
  });

  it('are compared with a list, in which a case stands for its rows', () => {
    const listed = [
      { title: 'TestPlain', rows: 1 },
      { title: 'TestTable/one, "quoted"', rows: 1 },
      { title: 'TestTable/five', rows: 1 },
    ];
    assert.deepEqual(difference(listed, casesOf(source)), {
      lacks: ['TestTable/two', 'TestTable/three', 'TestTable/four'],
      has: ['TestTable/five'],
      counts: [],
    });
  });

  it('are counted where a function stands for the rows that have no line of their own', () => {
    const listed = [
      { title: 'TestPlain', rows: 1 },
      { title: 'TestTable', rows: 2 },
      { title: 'TestTable/four', rows: 1 },
    ];
    assert.deepEqual(difference(listed, casesOf(source)), {
      lacks: [],
      has: [],
      counts: [{ title: 'TestTable', listed: 2, found: 3 }],
    });
  });
});
