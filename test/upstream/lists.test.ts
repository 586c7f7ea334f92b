/** The lists of Kubernetes' test cases are true: what they name exists, every case says what holds it, and docs/reference/upstream.md shows them. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { STORIES } from '../conformance/stories/index.ts';
import type { UpstreamCase } from './cases.ts';
import { difference } from './compare.ts';
import { casesOf } from './go-tests.ts';
import { heldBy, UPSTREAM } from './index.ts';
import { UPSTREAM_PAGE, upstreamPage } from './page.ts';
import { hasTitle } from './titles.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Something wrong in each case, as `PATH: TITLE: PROBLEM`. */
function problems(of: (one: UpstreamCase) => readonly string[]): string[] {
  return UPSTREAM.flatMap(({ path, cases }) =>
    cases.flatMap((one) => of(one).map((problem) => `${path}: ${one.title}: ${problem}`)),
  );
}

describe('the lists of upstream cases', () => {
  it('name stories that there are', () => {
    const titles = new Set(STORIES.map(({ title }) => title));
    assert.deepEqual(
      problems(({ stories = [] }) => stories.filter((title) => !titles.has(title))),
      [],
    );
  });

  it('name tests that there are', () => {
    const texts = new Map<string, string>();
    const textOf = (file: string) => {
      const text = texts.get(file) ?? readFileSync(join(ROOT, file), 'utf8');
      texts.set(file, text);
      return text;
    };
    const missing = (file: string, titles: readonly string[]) => {
      if (!file.startsWith('test/') || !existsSync(join(ROOT, file))) return [`${file} is no file in test/`];
      if (titles.length === 0) return [`${file} has no title beside it`];
      return titles.filter((title) => !hasTitle(textOf(file), title)).map((title) => `${file} has no "${title}"`);
    };
    assert.deepEqual(
      problems(({ tests = {} }) => Object.entries(tests).flatMap(([file, titles]) => missing(file, titles))),
      [],
    );
  });

  it('have each case once, and each case says what holds it, or why nothing does', () => {
    for (const { path, cases } of UPSTREAM) {
      const titles = cases.map(({ title }) => title);
      assert.deepEqual(
        titles.filter((title, i) => titles.indexOf(title) !== i),
        [],
        path,
      );
      assert.notEqual(titles.length, 0, path);
    }
    assert.deepEqual(
      problems((one) => [
        ...(one.title.trim() === '' ? ['it has no title'] : []),
        ...(one.not?.trim() === '' || one.differs?.trim() === '' ? ['a reason is empty'] : []),
        ...(heldBy(one) === 'not' && one.not === undefined ? ['nothing holds it, and no reason is given'] : []),
      ]),
      [],
    );
  });

  it('are told in docs/reference/upstream.md as they are now (npm run conformance writes it)', () => {
    assert.equal(readFileSync(UPSTREAM_PAGE, 'utf8'), upstreamPage());
  });
});

describe('titles in a test file', () => {
  const source = `
    it('says it\\'s so', () => {});
    for (const mode of MODES) it(\`\${mode.name}: keeps \${count({ a: 1 })} rules\`, run);
    it(\`\${a}: \${b}\`, run);
    const TABLE = { 'a row': 1 };
    const text = \`no \${title} at all\`;
  `;

  it('are texts, or what a template can give', () => {
    for (const title of ["says it's so", 'nftables: keeps 3 rules', 'a row', "a row > says it's so"])
      assert.ok(hasTitle(source, title), title);
  });

  it('are not parts of texts, other templates, or templates of expressions alone', () => {
    for (const title of [
      'says it',
      'row',
      'no word at all',
      'one: two',
      'keeps 3 rules',
      'a row > another',
      'another > a row',
    ])
      assert.ok(!hasTitle(source, title), title);
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
    assert.deepEqual(difference(['TestPlain', 'TestTable/one, "quoted"', 'TestTable/five'], casesOf(source)), {
      lacks: ['TestTable/two', 'TestTable/three', 'TestTable/four'],
      has: ['TestTable/five'],
    });
  });
});
