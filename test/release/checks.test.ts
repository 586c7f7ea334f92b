/** No release is made of a tree that differs from its commit, or under another version than it has. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { epochOf } from '../../scripts/release/archive.ts';
import { checkBaseImage, checkChart, checkRepository, ReleaseRefused } from '../../scripts/release/checks.ts';

const CLEAN = { version: '0.1.0', changes: '', tags: ['v0.1.0'] };
const refused = (check: () => unknown, message: RegExp) =>
  assert.throws(check, (error) => error instanceof ReleaseRefused && message.test(error.message));

describe('before a release', () => {
  it('accepts a commit with the tag of its version, and other tags beside', () => {
    checkRepository(CLEAN);
    checkRepository({ ...CLEAN, tags: ['nightly', 'v0.1.0'] });
  });

  it('names the files that are not committed, the first five of them', () => {
    const changes = [' M a.ts', '?? b c.txt', ...[1, 2, 3, 4].map((n) => ` M ${n}.ts`), ''].join('\n');
    refused(
      () => checkRepository({ ...CLEAN, changes }),
      /differs from the commit: a\.ts, b c\.txt, 1\.ts, 2\.ts, 3\.ts and 1 more\. Commit these files/,
    );
  });

  it('wants the tag of the version that package.json has', () => {
    refused(
      () => checkRepository({ ...CLEAN, tags: ['nightly'] }),
      /has no tag: set it with git tag --annotate v0\.1\.0/,
    );
    refused(
      () => checkRepository({ ...CLEAN, tags: ['v0.2.0'] }),
      /has the tag v0\.2\.0, but package\.json has the version 0\.1\.0$/,
    );
  });

  it('wants this version in both fields of Chart.yaml', () => {
    checkChart({ version: '0.1.0', appVersion: '0.1.0' }, '0.1.0');
    refused(() => checkChart({ version: '0.1.0', appVersion: '0.0.9' }, '0.1.0'), /appVersion is 0\.0\.9, but/);
    refused(() => checkChart({ appVersion: '0.1.0' }, '0.1.0'), /Chart\.yaml: version is undefined, but/);
  });

  it('takes a base image by its digest, or one of this machine', () => {
    const named = `docker.io/library/debian@sha256:${'0a'.repeat(32)}`;
    assert.equal(checkBaseImage(named), named);
    assert.equal(checkBaseImage('localhost/base'), 'localhost/base');
    refused(() => checkBaseImage('debian:bookworm'), /^--base-image debian:bookworm: name this image by its digest/);
    refused(() => checkBaseImage('debian@sha256:12'), /by its digest/);
    refused(() => checkBaseImage(undefined), /^the images need a base: --base-image .*--without-images/);
  });

  it('reads SOURCE_DATE_EPOCH, and refuses what is no number of seconds', () => {
    assert.equal(epochOf({}), undefined);
    assert.equal(epochOf({ SOURCE_DATE_EPOCH: '1795000000' }), 1_795_000_000);
    for (const value of ['-1', '1e9', 'yesterday', '123456789012'])
      assert.throws(() => epochOf({ SOURCE_DATE_EPOCH: value }), new RegExp(`SOURCE_DATE_EPOCH=${value}: must be`));
  });
});
