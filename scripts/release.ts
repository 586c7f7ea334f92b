/**
 * `npm run release`: everything that a version hands out, in one folder, from one commit: for amd64 and arm64 an archive with the
 * executable, manual pages and completions, an image archive, and their bills of materials; the Helm chart; the notes of the version;
 * SHA256SUMS of all of it. Two runs on the same commit make the same bytes (docs/releasing.md has the conditions).
 *
 *   --output FOLDER            an empty folder, or one that does not exist (dist/release)
 *   --base-image IMAGE         what the images begin with, named by digest
 *   --without-images           makes no images
 *   --trial                    accepts changed files, a commit without a tag, and the section [Unreleased] of CHANGELOG.md
 *
 * SOURCE_DATE_EPOCH is the time in all files, in seconds since 1970; without it, the time of the commit.
 */

import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ReleaseRefused } from './release/refused.ts';
import { makeRelease } from './release/release.ts';
import { RuntimeRefused } from './runtime.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

try {
  const { values } = parseArgs({
    options: {
      output: { type: 'string', default: join(ROOT, 'dist/release') },
      'base-image': { type: 'string' },
      'without-images': { type: 'boolean', default: false },
      trial: { type: 'boolean', default: false },
    },
  });
  await makeRelease({
    output: resolve(values.output),
    baseImage: values['base-image'],
    hasImages: !values['without-images'],
    isTrial: values.trial,
    environment: process.env,
    print: (line) => process.stdout.write(`${line}\n`),
  });
} catch (error) {
  const isTheirs = error instanceof ReleaseRefused || error instanceof RuntimeRefused;
  const isArgument = error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
  if (!isTheirs && !isArgument) throw error;
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}
