/** Each mutant still changes the code that it means. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { MUTANTS } from './list.ts';

for (const { name, file, from, to } of MUTANTS) {
  it(`${name}: its code is in ${file} once`, () => {
    const source = readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
    assert.equal(source.split(from).length - 1, 1);
    assert.notEqual(from, to);
  });
}

it('names of mutants are all different', () => {
  assert.equal(new Set(MUTANTS.map(({ name }) => name)).size, MUTANTS.length);
});
