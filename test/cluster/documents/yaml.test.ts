/** YAML as values: what the library's own way would give, and lists item by item. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { readParts } from '../../../src/cluster/documents/documents.ts';
import { BadDocument, parseYaml, yamlText } from '../../../src/cluster/documents/yaml.ts';
import { readDocuments } from '../../helpers/cluster/documents/documents.ts';

const TEXTS = [
  'a: 1\nb: [x, "y", {z: ~}]\nc: |\n  text\n   more\n',
  'a: &a {x: 1, y: [2]}\nb: *a\nc: {<<: *a, x: 3}\nd: {<<: [*a, {w: 4}], z: 5}\n',
  '? a\n: b\n1: one\ntrue: yes\n"<<": plain\n',
  'date: 2026-11-21T00:28:06Z\noctal: 0o14\nbig: 9007199254740993\nfloat: 1e3\n',
];

/** As kubectl prints it, and indented. */
const LIST = `apiVersion: v1
items:
- kind: Service # one
  metadata: {name: a}
  text: |
    - no item
  folded: "over
    lines"
- kind: Service
  metadata:
    name: b

# between
- {kind: Service, metadata: {name: c}}
kind: List
metadata:
  resourceVersion: ""
`;

describe('YAML', () => {
  for (const text of TEXTS) {
    it(`is what it says: ${JSON.stringify(text)}`, () => {
      assert.deepEqual(parseYaml(text).value, parse(text, { merge: true }));
    });
  }

  it('is the same after it was written and read', () => {
    const value = { a: ['x: y', '', null, 1.5, 'yes', '0o7', { b: 'long '.repeat(100) }], 'no: key': {} };
    assert.deepEqual(parseYaml(yamlText(value)).value, value);
  });

  for (const [what, text] of [
    ['as kubectl prints it', LIST],
    ['indented', LIST.replace(/^([- #].*)$/gm, '  $1')],
    ['with an alias from one item to another', LIST.replace('{name: a}', '&n {name: a}').replace('{name: c}', '*n')],
  ] as const) {
    it(`in a list ${what} is read whole`, () => {
      assert.deepEqual([...readParts(text)], [{ kind: 'value', value: parse(text), line: 1, repeated: [] }]);
    });
  }

  it('that is wrong in an item of a list names its line', () => {
    const { faults } = readDocuments(LIST.replace('name: b', 'name: ]'), 'f');
    assert.deepEqual(
      faults.map(({ field }) => field),
      ['line 11, column 11'],
    );
  });

  it('says where it is wrong', () => {
    assert.throws(
      () => parseYaml('a:\n  b: *x\n'),
      (error) => error instanceof BadDocument && error.line === 2 && error.column === 6,
    );
  });
});
