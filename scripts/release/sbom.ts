/**
 * The software bill of materials of an executable or an image, as SPDX 2.3 in JSON (https://spdx.github.io/spdx-spec/v2.3/).
 * The same input makes the same text: the only time in it is given, and its namespace has the hash of the rest.
 */

import { createHash } from 'node:crypto';
import lock from '../../package-lock.json' with { type: 'json' };
import { bundledPackages } from '../bundle.ts';
import { DRAINED_PROGRAM } from '../executable/drained-program.ts';
import type { TargetPlatform } from '../executable/platform.ts';
import runtime from '../runtime.json' with { type: 'json' };
import { RuntimeRefused, sha256 } from '../runtime.ts';

interface Shipped {
  readonly platform: TargetPlatform;
  /** Path of the executable. */
  readonly executable: string;
  /** Path of slicewire-drained. */
  readonly drained: string;
  /** Seconds since 1970. */
  readonly epoch: number;
  /** Texts of /var/lib/dpkg/status and /usr/lib/os-release; only of an image. */
  readonly system?: { readonly status: string; readonly osRelease: string };
}

/**
 * The contents of an executable or an image. Throws when the lock file does not know a package of the bundle, and RuntimeRefused when this
 * is not the pinned Node.js.
 */
export async function contentsOf({ platform, executable, drained, epoch, system }: Shipped): Promise<Contents> {
  if (process.versions.node !== runtime.version) {
    throw new RuntimeRefused(
      `this is Node.js ${process.versions.node}, but the executable has ${runtime.version}: run this script by npm`,
    );
  }
  const sums: Readonly<Record<string, string>> = runtime.sha256;
  const parts = Object.entries(process.versions).filter(
    (part): part is [string, string] => typeof part[1] === 'string' && part[1] !== '',
  );
  const { name, version, license } = lock.packages[''];
  return {
    ...{ name, version, license, epoch, architecture: platform.architecture },
    executable: await sha256(executable),
    drained: await sha256(drained),
    node: { version: runtime.version, sha256: sums[platform.name] ?? '', parts: Object.fromEntries(parts) },
    npm: (await bundledPackages('src/main.ts')).map(lockedPackage),
    ...(system === undefined
      ? {}
      : { image: { packages: installedPackages(system.status), distribution: distribution(system.osRelease) } }),
  };
}

/** `path` has the form of the lock file: `node_modules/pino`. */
function lockedPackage(path: string): NpmPackage {
  const packages: Readonly<Record<string, { version?: string; license?: string; integrity?: string }>> = lock.packages;
  const { version, license, integrity } = packages[path] ?? {};
  if (version === undefined || license === undefined || integrity === undefined)
    throw new Error(`package-lock.json has no version, no licence or no hash of ${path}`);
  return { name: path.replace(/^.*node_modules\//, ''), version, license, integrity };
}

interface NpmPackage {
  /** `@kubernetes/client-node` */
  readonly name: string;
  readonly version: string;
  /** SPDX' name of the licence. */
  readonly license: string;
  /** As the lock file has it: `sha512-` and base64. */
  readonly integrity: string;
}

export interface Contents {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** amd64 or arm64. */
  readonly architecture: string;
  /** Seconds since 1970. */
  readonly epoch: number;
  /** SHA-256 of the executable. */
  readonly executable: string;
  /** SHA-256 of slicewire-drained, which has no part of others. */
  readonly drained: string;
  readonly node: {
    readonly version: string;
    /** SHA-256 of bin/node. */
    readonly sha256: string;
    /** Versions of the parts of Node.js, from process.versions. */
    readonly parts: Readonly<Record<string, string>>;
  };
  readonly npm: readonly NpmPackage[];
  /** Only of an image. */
  readonly image?: { readonly packages: readonly DebianPackage[]; readonly distribution: string | undefined };
}

interface SpdxPackage {
  readonly SPDXID: string;
  readonly name: string;
  readonly versionInfo?: string;
  readonly licenseDeclared: string;
  readonly checksums?: readonly { readonly algorithm: string; readonly checksumValue: string }[];
  readonly purl?: string;
  readonly rest?: Readonly<Record<string, string>>;
}

/** The value for unknown facts (SPDX 2.3, clause 7). */
const NO_ASSERTION = 'NOASSERTION';
/** Versions of interfaces, which process.versions has beside those of the parts. */
const INTERFACES: ReadonlySet<string> = new Set(['node', 'modules', 'napi']);

/** The text of the document. */
export function sbomText(contents: Contents): string {
  const { name, version, architecture, epoch, image } = contents;
  const title = `${name}-${version}${image === undefined ? '' : '-image'}-linux-${architecture}`;
  const [own, drained, node] = [ownPackage(contents), drainedPackage(contents), nodePackage(contents)];
  const parts = partsOf(contents);
  const npm = contents.npm.map(npmPackage);
  const debian = image?.packages.map((one) => debianPackage(one, image.distribution)) ?? [];
  const whole = image === undefined ? [] : [imagePackage(title, version)];
  const packages = [...whole, own, drained, node, ...parts, ...npm, ...debian];
  const contains = (from: SpdxPackage, to: readonly SpdxPackage[]) =>
    to.map(({ SPDXID }) => relation(from.SPDXID, 'CONTAINS', SPDXID));
  const body = {
    name: title,
    creationInfo: { created: timeOf(epoch), creators: [`Tool: ${name}-sbom-${version}`] },
    packages: packages.map(written),
    relationships: [
      ...(whole.length > 0 ? whole : [own, drained]).map(({ SPDXID }) =>
        relation('SPDXRef-DOCUMENT', 'DESCRIBES', SPDXID),
      ),
      ...whole.flatMap((from) => contains(from, [own, drained, ...debian])),
      ...contains(own, [node, ...npm]),
      ...contains(node, parts),
    ],
  };
  const hash = createHash('sha256').update(JSON.stringify(body)).digest('hex');
  const head = { spdxVersion: 'SPDX-2.3', dataLicense: 'CC0-1.0', SPDXID: 'SPDXRef-DOCUMENT' };
  const documentNamespace = `https://spdx.org/spdxdocs/${title}-${hash}`;
  return `${JSON.stringify({ ...head, documentNamespace, ...body }, undefined, 2)}\n`;
}

/** SPDX has no milliseconds. */
const timeOf = (epoch: number) => new Date(epoch * 1000).toISOString().replace('.000Z', 'Z');

const relation = (from: string, relationshipType: string, to: string) => ({
  spdxElementId: from,
  relationshipType,
  relatedSpdxElement: to,
});

function ownPackage({ name, version, license, executable, architecture }: Contents): SpdxPackage {
  return {
    SPDXID: idOf('Application', name),
    ...{ name, versionInfo: version, licenseDeclared: license },
    checksums: [{ algorithm: 'SHA256', checksumValue: executable }],
    purl: `pkg:generic/${name}@${version}?arch=${architecture}`,
    rest: { primaryPackagePurpose: 'APPLICATION' },
  };
}

function drainedPackage({ name, version, license, drained, architecture }: Contents): SpdxPackage {
  return {
    SPDXID: idOf('Application', DRAINED_PROGRAM),
    ...{ name: DRAINED_PROGRAM, versionInfo: version, licenseDeclared: license },
    checksums: [{ algorithm: 'SHA256', checksumValue: drained }],
    purl: `pkg:generic/${name}@${version}?arch=${architecture}#${DRAINED_PROGRAM}`,
    rest: { primaryPackagePurpose: 'APPLICATION' },
  };
}

function imagePackage(title: string, version: string): SpdxPackage {
  return {
    SPDXID: idOf('Image', title),
    ...{ name: title, versionInfo: version, licenseDeclared: NO_ASSERTION },
    rest: { primaryPackagePurpose: 'CONTAINER' },
  };
}

function nodePackage({ node: { version, sha256 } }: Contents): SpdxPackage {
  return {
    SPDXID: idOf('Runtime', 'node'),
    ...{ name: 'node', versionInfo: version, licenseDeclared: 'MIT' },
    checksums: [{ algorithm: 'SHA256', checksumValue: sha256 }],
    purl: `pkg:generic/node@${version}`,
    rest: { downloadLocation: `https://nodejs.org/dist/v${version}/`, primaryPackagePurpose: 'FRAMEWORK' },
  };
}

/** OpenSSL, V8 and others, so that known weaknesses in them can be found. */
function partsOf({ node: { parts } }: Contents): SpdxPackage[] {
  const own = Object.entries(parts).filter(([name]) => !INTERFACES.has(name));
  return own.sort(byName).map(([name, version]) => ({
    SPDXID: idOf('NodePart', name),
    ...{ name, versionInfo: version, licenseDeclared: NO_ASSERTION },
    purl: `pkg:generic/${encodeURIComponent(name)}@${encodeURIComponent(version)}`,
  }));
}

const byName = ([a]: readonly [string, string], [b]: readonly [string, string]) => (a < b ? -1 : 1);

function npmPackage({ name, version, license, integrity }: NpmPackage): SpdxPackage {
  const hash = Buffer.from(integrity.replace(/^sha512-/, ''), 'base64').toString('hex');
  return {
    SPDXID: idOf('Npm', `${name}-${version}`),
    ...{ name, versionInfo: version, licenseDeclared: license },
    checksums: [{ algorithm: 'SHA512', checksumValue: hash }],
    // The scope's @ is escaped, its slash is not (purl's type npm).
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
  };
}

function debianPackage(
  { name, version, architecture, source, maintainer, homepage }: DebianPackage,
  distro: string | undefined,
): SpdxPackage {
  const qualifiers = `arch=${architecture}${distro === undefined ? '' : `&distro=${distro}`}`;
  return {
    SPDXID: idOf('Debian', `${name}-${architecture}`),
    ...{ name, versionInfo: version, licenseDeclared: NO_ASSERTION },
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?${qualifiers}`,
    rest: {
      ...(maintainer === undefined ? {} : { supplier: `Organization: ${maintainer.replace(/\s*<([^>]*)>/, ' ($1)')}` }),
      ...(homepage === undefined ? {} : { homepage }),
      sourceInfo: `built from the source package ${source}; licences: /usr/share/doc/${name}/copyright`,
    },
  };
}

/** Letters, digits, dots and dashes (SPDX 2.3, clause 7.2); `+` and others are their number, so that names stay different. */
function idOf(kind: string, name: string): string {
  const escaped = name.replace(/[^A-Za-z0-9.-]/g, (letter) => `-${letter.charCodeAt(0)}-`);
  return `SPDXRef-${kind}-${escaped}`;
}

function written({ SPDXID, name, versionInfo, licenseDeclared, checksums, purl, rest }: SpdxPackage): object {
  const reference = { referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl', referenceLocator: purl };
  return {
    SPDXID,
    name,
    ...(versionInfo === undefined ? {} : { versionInfo }),
    downloadLocation: NO_ASSERTION,
    filesAnalyzed: false,
    licenseConcluded: NO_ASSERTION,
    licenseDeclared,
    copyrightText: NO_ASSERTION,
    ...(checksums === undefined ? {} : { checksums }),
    ...(purl === undefined ? {} : { externalRefs: [reference] }),
    ...rest,
  };
}

interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  /** The source package, with its version: `gcc-12 12.2.0-14`. */
  readonly source: string;
  /** `Debian GCC Maintainers <debian-gcc@lists.debian.org>` */
  readonly maintainer: string | undefined;
  readonly homepage: string | undefined;
}

/**
 * The installed packages of /var/lib/dpkg/status (deb-control(5)), sorted by name and architecture. Throws when a paragraph has no name, version or
 * architecture, or when there is none at all.
 */
export function installedPackages(status: string): DebianPackage[] {
  const paragraphs = status.split(/\n{2,}/).filter((paragraph) => paragraph.trim() !== '');
  const packages = paragraphs.map(fieldsOf).filter((fields) => fields.get('Status')?.endsWith(' installed') === true);
  if (packages.length === 0) throw new Error('the database of dpkg names no installed package');
  const key = ({ name, architecture }: DebianPackage) => `${name} ${architecture}`;
  return packages.map(packageOf).sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

function packageOf(fields: ReadonlyMap<string, string>): DebianPackage {
  const field = (name: string): string => {
    const value = fields.get(name);
    if (value !== undefined) return value;
    throw new Error(`the database of dpkg has a package without the field ${name}: ${[...fields].flat().join(' ')}`);
  };
  const [name, version] = [field('Package'), field('Version')];
  // `Source` is missing where it has the same name and version, and has the version only where that differs.
  const [, source = name, sourceVersion = version] = /^(\S+)(?: \((.+)\))?$/.exec(fields.get('Source') ?? name) ?? [];
  return {
    ...{ name, version },
    architecture: field('Architecture'),
    source: `${source} ${sourceVersion}`,
    maintainer: fields.get('Maintainer'),
    homepage: fields.get('Homepage'),
  };
}

/** Fields of one line. Continuation lines are left out, because no field that is needed has one. */
function fieldsOf(paragraph: string): Map<string, string> {
  const lines = paragraph.split('\n').filter((line) => /^[^\s:]+:/.test(line));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]));
}

/** Such as `debian-12`, from os-release(5); undefined without these fields. */
export function distribution(osRelease: string): string | undefined {
  const value = (name: string) => new RegExp(`^${name}="?([^"\n]+)"?$`, 'm').exec(osRelease)?.[1];
  const [id, version] = [value('ID'), value('VERSION_ID')];
  return id === undefined || version === undefined ? undefined : `${id}-${version}`;
}
