/** The record of what an agent left in its tables: used only where it is of this place and program, and the kernel agrees. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../src/base/address.ts';
import type { LeftTable, TableLabels } from '../../src/kernel/nftables-kernel.ts';
import type { RecordFile } from '../../src/kernel/record-file.ts';
import { RulesetRecord } from '../../src/kernel/ruleset-record.ts';

const DIGEST = '0123456789abcdef';

/** A kernel with a table for each family, and a file, both in memory. */
class Node {
  generation = 7;
  readonly handles = new Map<Family, bigint>([
    ['IPv4', 3n],
    ['IPv6', 2n ** 60n],
  ]);
  readonly problems: string[] = [];
  readonly believed: [Family, LeftTable][] = [];
  text: string | undefined;
  place = 'boot namespace';
  writes = 0;
  failure: Error | undefined;
  isSilent = false;

  /** What a new process sees. */
  record(version = '1.2.3'): RulesetRecord {
    const labels = new Map<Family, string>();
    const { handles } = this;
    const now = () => this.generation;
    const kernel: TableLabels = {
      label: (family, digest) => void labels.set(family, digest),
      get labelled() {
        const entries = [...labels].map(([family, digest]) => {
          return [family, { handle: handles.get(family) ?? 0n, generation: now(), digest }] as const;
        });
        return new Map(entries);
      },
      isAsLeft: (family, { handle, generation }) => {
        if (this.isSilent) throw new Error('ENOBUFS: no buffer space available');
        return handle === handles.get(family) && generation === this.generation;
      },
      believe: (family, left) => void this.believed.push([family, left]),
    };
    const options = { labels: kernel, version, onProblem: (text: string) => void this.problems.push(text) };
    return new RulesetRecord({ ...options, file: this.#file });
  }

  readonly #file: RecordFile = {
    path: () => '',
    place: () => this.place,
    read: () => {
      if (this.failure !== undefined) throw this.failure;
      return this.text;
    },
    write: (text) => {
      if (this.failure !== undefined) throw this.failure;
      this.writes += 1;
      this.text = text;
    },
    remove: () => false,
  };
}

function written(): Node {
  const node = new Node();
  const record = node.record();
  record.keep('IPv4', DIGEST);
  record.keep('IPv6', DIGEST);
  return node;
}

describe('the record of the ruleset', () => {
  it('tells the next agent what was left, with the key of the digests', () => {
    const node = new Node();
    const first = node.record();
    assert.match(first.key, /^[0-9a-f]{16}$/);
    assert.notEqual(node.record().key, first.key);
    assert.equal(first.left('IPv4'), undefined);
    first.keep('IPv4', DIGEST);
    const next = node.record();
    assert.equal(next.key, first.key);
    assert.deepEqual(next.left('IPv4'), { handle: 3n, generation: 7, digest: DIGEST });
    assert.equal(next.left('IPv6'), undefined);
    first.keep('IPv6', DIGEST);
    assert.equal(node.record().left('IPv6')?.handle, 2n ** 60n);
    assert.deepEqual(node.problems, []);
  });

  it('is written when something changed, and not else', () => {
    const node = new Node();
    const record = node.record();
    for (const _ of [1, 2, 3]) record.keep('IPv4', DIGEST);
    assert.equal(node.writes, 1);
    node.generation += 1;
    record.keep('IPv4', DIGEST);
    assert.equal(node.writes, 2);
    assert.equal(node.record().left('IPv4')?.generation, 8);
  });

  it('is nothing after a write of another program, or for another table', () => {
    const node = written();
    node.generation += 1;
    assert.equal(node.record().left('IPv4'), undefined);
    node.generation -= 1;
    node.handles.set('IPv4', 4n);
    assert.equal(node.record().left('IPv4'), undefined);
    assert.notEqual(node.record().left('IPv6'), undefined);
    assert.deepEqual(node.problems, []);
  });

  it('is nothing while the kernel does not answer, and says why', () => {
    const node = written();
    node.isSilent = true;
    assert.equal(node.record().left('IPv4'), undefined);
    assert.match(node.problems.join(), /so that the ruleset is read: ENOBUFS/);
  });

  const changed = (what: object) => (text: string) => JSON.stringify({ ...JSON.parse(text), ...what });
  const table = (what: object) =>
    changed({ tables: { IPv4: { handle: '3', generation: 7, digest: DIGEST, ...what } } });
  for (const [what, change, problem] of [
    ['another format', changed({ format: 2 }), /its format is 2, and not 1/],
    ['another version', changed({ version: '1.2.4' }), /slicewire "1\.2\.4" wrote it, and this is 1\.2\.3/],
    ['another place', changed({ place: 'other' }), /it is of another boot or network namespace/],
    ['no object', () => '7', /the record is no object: 7/],
    ['no JSON', () => '{', /JSON/],
    ['nothing', () => '', /JSON/],
    ['a short key', changed({ key: 'abc' }), /key has no 16 hexadecimal digits/],
    ['no tables', changed({ tables: null }), /tables is no object: null/],
    ['a handle that is none', table({ handle: '0x3' }), /IPv4 handle: "0x3"/],
    ['a handle of another kind', table({ handle: 3 }), /IPv4 handle: 3/],
    ['a generation that is none', table({ generation: '7' }), /IPv4 generation: "7"/],
    ['a digest that is none', table({ digest: `${DIGEST}0` }), /IPv4 digest has no 16 hexadecimal digits/],
  ] as const) {
    it(`is not used when it has ${what}, and one line says why`, () => {
      const node = written();
      node.text = change(node.text ?? '');
      const record = node.record();
      assert.equal(record.left('IPv4'), undefined);
      assert.equal(record.left('IPv4'), undefined);
      assert.match(node.problems.join(), problem);
      assert.equal(node.problems.length, 1);
      // The next agent has a record again.
      record.keep('IPv4', DIGEST);
      assert.equal(node.record().left('IPv4')?.digest, DIGEST);
    });
  }

  it('says once that it cannot be written, and goes on', () => {
    const node = new Node();
    const record = node.record();
    assert.equal(record.left('IPv4'), undefined);
    node.failure = new Error('EROFS: read-only file system');
    for (const generation of [8, 9]) {
      node.generation = generation;
      record.keep('IPv4', DIGEST);
    }
    assert.equal(node.problems.length, 1);
    assert.match(node.problems[0] ?? '', /cannot be put on record, so the next start reads it: EROFS/);
    node.failure = undefined;
    record.keep('IPv4', DIGEST);
    assert.equal(node.writes, 1);
  });
});
