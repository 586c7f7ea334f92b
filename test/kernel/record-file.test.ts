/** The file in which one agent leaves a record for the next: only root can have written or read it, and nothing is followed. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type RecordFile, rulesetRecordFile } from '../../src/kernel/record-file.ts';

describe('the file of the record', () => {
  let above: string;
  let folder: string;
  let file: RecordFile;

  beforeEach(() => {
    above = mkdtempSync(join(tmpdir(), 'record-'));
    folder = join(above, 'slicewire');
    file = rulesetRecordFile(folder);
  });
  afterEach(() => rmSync(above, { recursive: true }));

  const path = () => join(folder, readdirSync(folder)[0] ?? '');
  const mode = (of: string) => (lstatSync(of).mode & 0o7777).toString(8);

  it('is written as a whole, for this user alone, and read and removed', () => {
    assert.equal(file.read(), undefined);
    assert.equal(file.remove(), false);
    file.write('first');
    file.write('second');
    assert.equal(file.read(), 'second');
    assert.deepEqual([mode(folder), mode(path())], ['700', '600']);
    assert.match(readdirSync(folder).join(' '), /^ruleset-\d+$/);
    assert.equal(file.remove(), true);
    assert.equal(file.remove(), false);
    assert.equal(file.read(), undefined);
    assert.deepEqual(readdirSync(folder), []);
  });

  it('is of this boot and this network namespace', () => {
    const [boot = '', namespace = ''] = file.place().split(' ');
    assert.equal(boot, readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
    assert.match(namespace, /^[1-9]\d*$/);
    assert.equal(file.place(), file.place());
  });

  it('is not read when others could have written or read it', () => {
    file.write('text');
    chmodSync(path(), 0o640);
    assert.throws(() => file.read(), /other users may use .*ruleset-\d+ \(mode 0640\)/);
    chmodSync(path(), 0o600);
    chmodSync(folder, 0o770);
    assert.throws(() => file.read(), /other users may write to .*slicewire \(mode 0770\)/);
    assert.throws(() => file.write('other'), /other users may write/);
    chmodSync(folder, 0o755);
    assert.equal(file.read(), 'text');
  });

  it('is not read when another user owns it or its folder', { skip: process.geteuid?.() !== 0 }, () => {
    file.write('text');
    chownSync(path(), 65_534, 65_534);
    assert.throws(() => file.read(), /ruleset-\d+ belongs to the user 65534, and not to 0/);
    chownSync(folder, 65_534, 65_534);
    assert.throws(() => file.read(), /slicewire belongs to the user 65534, and not to 0/);
    assert.throws(() => file.write('other'), /slicewire belongs to the user 65534/);
    assert.equal(file.remove(), false);
  });

  it('follows no symbolic link', () => {
    file.write('text');
    const name = path();
    const other = join(above, 'other');
    writeFileSync(other, 'of somebody', { mode: 0o600 });
    rmSync(name);
    symlinkSync(other, name);
    assert.throws(() => file.read(), /ELOOP/);
    symlinkSync(other, `${name}.new`);
    file.write('next');
    assert.equal(readFileSync(other, 'utf8'), 'of somebody');
    assert.equal(file.read(), 'next');
    rmSync(folder, { recursive: true });
    mkdirSync(join(above, 'elsewhere'), { mode: 0o700 });
    symlinkSync(join(above, 'elsewhere'), folder);
    assert.throws(() => file.read(), /slicewire is no directory/);
    assert.throws(() => file.write('text'), /slicewire is no directory/);
    assert.deepEqual(readdirSync(join(above, 'elsewhere')), []);
  });

  it('is a regular file of a bounded length', () => {
    file.write('x'.repeat(64 * 1024 - 1));
    assert.equal(file.read()?.length, 64 * 1024 - 1);
    file.write('x'.repeat(64 * 1024));
    assert.throws(() => file.read(), /is longer than/);
    const name = path();
    rmSync(name);
    mkdirSync(name, { mode: 0o700 });
    assert.throws(() => file.read(), /is no regular file/);
  });
});
