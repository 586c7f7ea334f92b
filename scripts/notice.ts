/**
 * NOTICE: the software of others in the executable and the image, with its licences. The packages are those in the bundle, their versions
 * come from package-lock.json, and their texts from node_modules.
 *
 *   node scripts/notice.ts      writes the file; a test compares it with what is installed
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import lock from '../package-lock.json' with { type: 'json' };
import { bundledPackages } from './bundle.ts';
import runtime from './runtime.json' with { type: 'json' };

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const RULE = '-'.repeat(80);

/** Licences of the Debian packages that deploy/Dockerfile installs. Debian has no field for them. */
const DEBIAN: Readonly<Record<string, string>> = {
  iptables: 'GPL-2.0-or-later',
  kmod: 'GPL-2.0-or-later, its library LGPL-2.1-or-later',
  libatomic1: 'GPL-3.0-or-later with the GCC Runtime Library Exception',
  'libstdc++6': 'GPL-3.0-or-later with the GCC Runtime Library Exception',
};

interface Package {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** The lines that name who has the copyright. */
  readonly holders: readonly string[];
  /** The licence without these lines and its title. */
  readonly terms: string;
  /** The package's own NOTICE, which Apache-2.0 (section 4d) asks to pass on. */
  readonly notice: string | undefined;
}

/** The text of NOTICE. Throws when the licence of something is not known. */
export async function noticeText(): Promise<string> {
  const packages = (await bundledPackages('src/main.ts')).map(packageOf);
  const own = lock.packages[''];
  return [
    `${own.name}\nCopyright 2026 The ${own.name} authors`,
    'Licensed under the Apache License, Version 2.0: see LICENSE.\nWritten by scripts/notice.ts; not edited by hand.',
    heading('In the executable: Node.js'),
    `Node.js ${runtime.version} (MIT), with what it is made of, under their own licences.\nTheir texts are LICENSE in https://nodejs.org/dist/v${runtime.version}/, /usr/share/doc/slicewire/LICENSE-nodejs\nin the image, and node_modules/node-linux-*/LICENSE after npm ci.`,
    heading('In the executable: npm packages'),
    packages.map(entry).join('\n'),
    heading('In the image: Debian packages'),
    'Beside the base image, which the builder of the image chooses. Their texts are in /usr/share/doc/PACKAGE/copyright.\n',
    debianPackages()
      .map((name) => `${name} (${debianLicence(name)})`)
      .join('\n'),
    ...terms(packages),
    '',
  ]
    .join('\n\n')
    .replace(/\n{3,}/g, '\n\n')
    .replace(/\n*$/, '\n');
}

const heading = (title: string) => `${RULE}\n${title}\n${RULE}`;

/** `path` as the lock file has it: `node_modules/pino`. */
function packageOf(path: string): Package {
  const locked = (lock.packages as Readonly<Record<string, { version?: string; license?: string }>>)[path];
  const { version, license } = locked ?? {};
  const name = path.replace(/^.*node_modules\//, '');
  if (version === undefined || license === undefined) throw new Error(`package-lock.json has no licence of ${path}`);
  const files = readdirSync(join(ROOT, path)).sort();
  const text = (pattern: RegExp) => {
    const file = files.find((one) => pattern.test(one));
    return file === undefined ? undefined : readFileSync(join(ROOT, path, file), 'utf8').replaceAll('\r', '');
  };
  const paragraphs = (text(/^licen[cs]e/i) ?? '')
    .split('\n')
    .filter((line) => !TITLE.test(line.trim()))
    .join('\n')
    .split(/\n\s*\n/);
  // Apache-2.0 has an item (c) of its own, and an appendix with an example of such a line.
  const isHolders = (paragraph: string) =>
    /^\W*(?:copyright\b|©)|^\(c\) \d/i.test(paragraph) && !/[[{]yyyy[\]}]/.test(paragraph);
  return {
    ...{ name, version, license },
    holders: paragraphs.filter(isHolders).flatMap((paragraph) => paragraph.trim().split('\n')),
    // Apache-2.0 has one text, which is in LICENSE.
    terms:
      license === 'Apache-2.0'
        ? ''
        : paragraphs
            .filter((one) => !isHolders(one))
            .join('\n\n')
            .trim(),
    notice: text(/^notice/i)?.trim(),
  };
}

const TITLE = /^[#(\s]*(?:the\s+)?(?:mit|isc|bsd)\b.*licen[cs]e\W*(?:\(mit\)|\(isc\))?\W*$|^licen[cs]e$/i;

function entry({ name, version, license, holders, notice }: Package): string {
  const lines = [...holders, ...(notice?.split('\n') ?? [])].map((line) => `    ${line.trim()}`.trimEnd());
  return [`${name} ${version} (${license})`, ...lines].join('\n');
}

/** Names of the packages that the last stage of deploy/Dockerfile installs. */
function debianPackages(): string[] {
  const text = readFileSync(join(ROOT, 'deploy/Dockerfile'), 'utf8').replaceAll('\\\n', ' ');
  const installs = [...text.matchAll(/apt-get install ((?:(?!&&|\n).)*)/g)].flatMap(([, words = '']) =>
    words.split(/\s+/),
  );
  return installs.filter((word) => word !== '' && !word.startsWith('-')).sort();
}

function debianLicence(name: string): string {
  const licence = DEBIAN[name];
  if (licence === undefined)
    throw new Error(`scripts/notice.ts does not know the licence of Debian's ${name}: see its copyright file`);
  return licence;
}

/** Each text of a licence once, with the packages that have it. */
function terms(packages: readonly Package[]): string[] {
  const texts = new Map<string, Package[]>();
  for (const one of packages) {
    if (one.terms === '') continue;
    const same = one.terms
      .toLowerCase()
      .replace(/[^a-z]+/g, ' ')
      .trim();
    texts.set(same, [...(texts.get(same) ?? []), one]);
  }
  const largest = [...texts.values()].sort((a, b) => b.length - a.length);
  return largest.flatMap((having) => [
    heading(
      `${having[0]?.license}: ${having.map(({ name }) => name).join(', ')}`
        .replace(/(.{1,100})(?: |$)/g, '$1\n')
        .trim(),
    ),
    having[0]?.terms ?? '',
  ]);
}

if (import.meta.main) writeFileSync(join(ROOT, 'NOTICE'), await noticeText());
