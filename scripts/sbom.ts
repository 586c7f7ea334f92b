/**
 * Writes the bill of materials of an executable, or of the image with it, as SPDX 2.3 in JSON. deploy/Dockerfile and the release use it.
 *
 *   --executable FILE      the executable
 *   --drained FILE         slicewire-drained
 *   --platform PLATFORM    of the executable: linux-x64 or linux-arm64 (this machine's)
 *   --system FOLDER        the image's files, of which var/lib/dpkg/status and usr/lib/os-release are read; only for an image
 *   --output FILE
 *
 * SOURCE_DATE_EPOCH is its time, in seconds since 1970; without it the document says 1970.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { OWN_PLATFORM, platformNamed } from './executable/platform.ts';
import { epochOf } from './release/archive.ts';
import { contentsOf, sbomText } from './release/sbom.ts';

const { values } = parseArgs({
  options: {
    executable: { type: 'string' },
    drained: { type: 'string' },
    platform: { type: 'string', default: OWN_PLATFORM },
    system: { type: 'string' },
    output: { type: 'string' },
  },
});
const { executable, drained, platform, system, output } = values;
if (executable === undefined || drained === undefined || output === undefined)
  throw new Error('--executable, --drained and --output must be given');
const text = (path: string) => readFileSync(path, 'utf8');
const contents = await contentsOf({
  ...{ executable, drained, platform: platformNamed(platform), epoch: epochOf(process.env) ?? 0 },
  ...(system === undefined
    ? {}
    : {
        system: {
          status: text(join(system, 'var/lib/dpkg/status')),
          osRelease: text(join(system, 'usr/lib/os-release')),
        },
      }),
});
writeFileSync(output, sbomText(contents));
