/**
 * `npm run release`: everything that a version hands out, in one folder, from one commit: for amd64 and arm64 an archive with the
 * executable, manual pages and completions, an image archive, and their bills of materials; the Helm chart; the notes of the version;
 * SHA256SUMS of all of it. Two runs on the same commit make the same bytes (docs/releasing.md has the conditions).
 * `npm run release -- --help` says what it takes.
 */

import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from './arguments.ts';
import { ReleaseRefused } from './release/refused.ts';
import { makeRelease } from './release/release.ts';
import { RuntimeRefused } from './runtime.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const { values } = commandLine({
  command: 'npm run release',
  about:
    'Makes everything that a version hands out, for amd64 and arm64, in one folder (docs/releasing.md). SOURCE_DATE_EPOCH is the time in all files, in seconds since 1970; without it, the time of the commit.',
  options: {
    output: {
      type: 'string',
      value: 'FOLDER',
      help: 'an empty folder, or one that does not exist; without it dist/release of this repository',
    },
    'base-image': { type: 'string', value: 'IMAGE', help: 'begins the images; named by digest' },
    'without-images': { type: 'boolean', help: 'makes no images' },
    trial: {
      type: 'boolean',
      help: 'accepts changed files, a commit without a tag, and the section [Unreleased] of CHANGELOG.md',
    },
  },
});
try {
  await makeRelease({
    output: resolve(values.output ?? join(ROOT, 'dist/release')),
    baseImage: values['base-image'],
    hasImages: !values['without-images'],
    isTrial: values.trial,
    environment: process.env,
    print: (line) => process.stdout.write(`${line}\n`),
  });
} catch (error) {
  const isTheirs = error instanceof ReleaseRefused || error instanceof RuntimeRefused;
  if (!isTheirs) throw error;
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}
