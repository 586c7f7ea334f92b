/** The section of CHANGELOG.md that becomes the notes of a release. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ReleaseRefused, sectionOf, UNRELEASED } from '../../scripts/release/checks.ts';

const TEXT = `# Changelog

## [Unreleased]

### Added

- Later.

## [0.2.0] - 2026-12-01

### Fixed

- One thing.

## [0.1.0] - 2026-11-01

First.

[0.1.0]: https://example.org/0.1.0
`;

const refused = (text: string, version: string, message: RegExp) =>
  assert.throws(
    () => sectionOf(text, version),
    (error) => error instanceof ReleaseRefused && message.test(error.message),
  );

describe('the section of a version', () => {
  it('ends before the next one, and has neither heading nor links', () => {
    assert.equal(sectionOf(TEXT, '0.2.0'), '### Fixed\n\n- One thing.');
    assert.equal(sectionOf(TEXT, '0.1.0'), 'First.');
    assert.equal(sectionOf(TEXT, UNRELEASED), '### Added\n\n- Later.');
  });

  it('is refused where it is missing, twice, without a date, or empty, with what to write', () => {
    refused(TEXT, '0.3.0', /^CHANGELOG\.md has no section \[0\.3\.0\]: .*## \[0\.3\.0\] - YYYY-MM-DD$/);
    refused(`${TEXT}\n## [0.1.0] - 2026-11-02\n\nAgain.`, '0.1.0', /2 sections \[0\.1\.0\]/);
    refused('## [0.1.0]\n\nText.', '0.1.0', /«## \[0\.1\.0\]» has no date/);
    refused('## [0.1.0] - 2026-11-01\n\n## [0.0.9] - 2026-10-01\n\nText.', '0.1.0', /\[0\.1\.0\] is empty/);
  });

  it('of this repository is there for the version in package.json', () => {
    const text = readFileSync(fileURLToPath(new URL('../../CHANGELOG.md', import.meta.url)), 'utf8');
    const { version } = JSON.parse(readFileSync(fileURLToPath(new URL('../../package.json', import.meta.url)), 'utf8'));
    assert.match(sectionOf(text, version), /### Added/);
  });
});
