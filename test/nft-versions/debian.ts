/**
 * The versions of nftables and iptables that Debian carries, each unpacked into a folder of its own. apt checks signatures and hashes as
 * for an installation, with lists of its own. Nothing is installed: a program runs by the dynamic loader and the libraries of its folder.
 */
import { globSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { realCommands } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** From the oldest. Backports carry packages that the next suite has, too, and need not have these. */
const SUITES = ['bullseye', 'bookworm', 'bookworm-backports', 'trixie', 'trixie-backports', 'forky', 'sid'] as const;
const BACKPORTS = '-backports';
const ARCHIVE = 'http://deb.debian.org/debian';
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const PACKAGES = ['nftables', 'iptables'] as const;
type Package = (typeof PACKAGES)[number];
/** The programs need these packages alone; others that apt would install with them are for the installation. */
const UNPACKED = /^(nftables|iptables|lib[^_]*)_/;

/** File and first arguments of a program. */
export type Program = readonly [string, ...string[]];

/** A version of a package's programs. */
export interface Version {
  /** As Debian counts, `1.0.6-2+deb12u2`. */
  readonly version: string;
  /** Suites that carry it. */
  readonly suites: readonly string[];
  /** By name: `nft`; `xtables-nft-multi` and `xtables-legacy-multi`. */
  program(name: string): Program;
}

export interface Versions {
  readonly nftables: readonly Version[];
  readonly iptables: readonly Version[];
  /** The versions that this machine has installed. */
  readonly installed: Readonly<Record<Package, string>>;
  /** Suites of which no version could be had, with the cause. */
  readonly missing: readonly Missing[];
}

interface Missing {
  readonly suite: string;
  readonly cause: string;
}

interface Carried {
  readonly suite: string;
  readonly versions: Readonly<Record<Package, string>>;
}

/**
 * Unpacks each version into the folder. The version that this machine has installed is there in any case, and is not unpacked. One that
 * cannot be downloaded is left out, and its suite is among those that are missing.
 */
export async function versionsOfDebian(folder: string): Promise<Versions> {
  const installed = await installedVersions();
  const problems = await updateLists(folder);
  const carried = (await Promise.all(SUITES.map((suite) => carriedBy(folder, suite)))).flat();
  const missing = SUITES.filter(
    (suite) => !suite.endsWith(BACKPORTS) && !carried.some((one) => one.suite === suite),
  ).map((suite): Missing => ({ suite, cause: problems.find((line) => line.includes(suite)) ?? problems[0] ?? '' }));
  // One suite after the other: both packages may be in one folder.
  const roots = new Map<string, string>();
  for (const { suite, versions } of carried) {
    if (PACKAGES.every((name) => carried.find((one) => one.versions[name] === versions[name])?.suite !== suite))
      continue;
    if (PACKAGES.every((name) => versions[name] === installed[name])) continue;
    try {
      roots.set(suite, await unpacked(folder, suite));
    } catch (error) {
      missing.push({ suite, cause: error instanceof Error ? error.message : String(error) });
    }
  }
  const versions = (name: Package): Version[] => {
    const all = new Set(carried.map((one) => one.versions[name]).concat(installed[name]));
    return [...all].sort(byVersion).flatMap((version): Version[] => {
      const suites = carried.filter((one) => one.versions[name] === version).map(({ suite }) => suite);
      if (version === installed[name]) return [{ version, suites, program: (of) => [of] }];
      const root = roots.get(suites[0] ?? '');
      return root === undefined ? [] : [{ version, suites, program: (of) => unpackedProgram(root, of) }];
    });
  };
  return { nftables: versions('nftables'), iptables: versions('iptables'), installed, missing };
}

/** `1.0.6` of `1.0.6-2+deb12u2` */
export function upstream(version: string): string {
  return version.replace(/-[^-]*$/, '');
}

function byVersion(a: string, b: string): number {
  return upstream(a).localeCompare(upstream(b), 'en', { numeric: true }) || a.localeCompare(b, 'en', { numeric: true });
}

async function installedVersions(): Promise<Readonly<Record<Package, string>>> {
  const versions = PACKAGES.map(async (name) => [name, await done('dpkg-query', '-W', '-f', `\${Version}`, name)]);
  return Object.fromEntries(await Promise.all(versions)) as Record<Package, string>;
}

/** Downloads the lists of all suites. Returns what apt said of those that cannot be had. */
async function updateLists(folder: string): Promise<string[]> {
  for (const name of ['lists/partial', 'cache']) await mkdir(join(folder, 'apt', name), { recursive: true });
  await writeFile(join(folder, 'apt/status'), '');
  await writeFile(join(folder, 'apt/apt.conf'), configuration(join(folder, 'apt')));
  const source = (suite: string) => `deb [signed-by=${KEYRING}] ${ARCHIVE} ${suite} main\n`;
  await writeFile(join(folder, 'apt/all.list'), SUITES.map(source).join(''));
  for (const suite of SUITES) {
    const base = suite.replace(BACKPORTS, '');
    await writeFile(join(folder, `apt/${suite}.list`), source(suite) + (base === suite ? '' : source(base)));
  }
  const { stderr } = await apt(folder, 'all', 'apt-get', 'update');
  return stderr.split('\n').filter((line) => /^[EW]: /.test(line));
}

/** Lines of `apt-cache madison`: `nftables | 1.1.3-1 | http://deb.debian.org/debian trixie/main amd64 Packages`. */
async function carriedBy(folder: string, suite: string): Promise<Carried[]> {
  const { stdout } = await apt(folder, suite, 'apt-cache', 'madison', ...PACKAGES);
  const rows = stdout.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
  const of = (name: Package) =>
    rows.find(([what, , where]) => what === name && where?.includes(` ${suite}/`) === true)?.[1];
  const [nftables, iptables] = [of('nftables'), of('iptables')];
  return nftables === undefined || iptables === undefined ? [] : [{ suite, versions: { nftables, iptables } }];
}

/** Of apt: everything in this folder, and only what the packages depend on. */
function configuration(folder: string): string {
  return [
    `Dir::Etc::sourceparts "/dev/null";`,
    `Dir::Etc::preferences "/dev/null";`,
    `Dir::Etc::preferencesparts "/dev/null";`,
    `Dir::State::lists "${folder}/lists";`,
    `Dir::State::status "${folder}/status";`,
    `Dir::Cache "${folder}/cache";`,
    'Acquire::Languages "none";',
    'Acquire::Retries "2";',
    'Acquire::http::Timeout "20";',
    'APT::Sandbox::User "root";',
    // Several suites at once, each into its own folder.
    'Debug::NoLocking "true";',
    'APT::Install-Recommends "false";',
    '',
  ].join('\n');
}

async function unpacked(folder: string, suite: string): Promise<string> {
  const root = join(folder, suite);
  if (globSync(`${root}/usr/sbin/nft`).length > 0) return root;
  const archives = join(folder, 'apt', suite);
  for (const name of [root, join(archives, 'partial')]) await mkdir(name, { recursive: true });
  const words = [
    '-o',
    `Dir::Cache::archives=${archives}`,
    '-t',
    suite,
    '-y',
    '--download-only',
    'install',
    ...PACKAGES,
  ];
  const { exitCode, stderr } = await apt(folder, suite, 'apt-get', ...words);
  if (exitCode !== 0) throw new Error(`apt-get cannot download the packages of ${suite}: ${stderr}`);
  const files = globSync(`${archives}/*.deb`).filter((file) => UNPACKED.test(basename(file)));
  for (const file of files) await done('dpkg-deb', '--extract', file, root);
  return root;
}

/** Its own loader finds its own libraries; libxtables finds its extensions by a variable. */
function unpackedProgram(root: string, name: string): Program {
  const libraries = globSync(`${root}/{usr/,}lib/*-linux-gnu*`);
  const [loader] = libraries.flatMap((folder) => globSync(`${folder}/ld-*.so*`)).sort();
  const extensions = globSync(`${root}/usr/lib/*/xtables`)[0];
  if (loader === undefined || extensions === undefined) throw new Error(`${root} has no loader or no extensions`);
  const by = [loader, '--library-path', libraries.join(':'), `${root}/usr/sbin/${name}`];
  return ['env', `XTABLES_LIBDIR=${extensions}`, ...by];
}

/** With the sources of one suite, or of `all`. */
const apt = (folder: string, sources: string, command: string, ...words: string[]) => {
  const own = [command, '-o', `Dir::Etc::sourcelist=${folder}/apt/${sources}.list`, ...words];
  return realCommands.run({ file: 'env', args: [`APT_CONFIG=${folder}/apt/apt.conf`, ...own] }, NEVER);
};

async function done(file: string, ...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await realCommands.run({ file, args }, NEVER);
  if (exitCode !== 0) throw new Error(`${file} ${args.join(' ')}: ${stderr}`);
  return stdout;
}
