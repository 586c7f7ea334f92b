/** The Debian packages of a system, from dpkg's database (deb-control(5), os-release(5)). */

export interface DebianPackage {
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
 * The installed packages of /var/lib/dpkg/status, sorted by name and architecture. Throws when a paragraph has no name, version or
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

/** Fields of one line each; what is continued in further lines is not asked for. */
function fieldsOf(paragraph: string): Map<string, string> {
  const lines = paragraph.split('\n').filter((line) => /^[^\s:]+:/.test(line));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]));
}

/** `debian-12`, of /etc/os-release; undefined where the file does not say. */
export function distribution(osRelease: string): string | undefined {
  const value = (name: string) => new RegExp(`^${name}="?([^"\n]+)"?$`, 'm').exec(osRelease)?.[1];
  const [id, version] = [value('ID'), value('VERSION_ID')];
  return id === undefined || version === undefined ? undefined : `${id}-${version}`;
}
