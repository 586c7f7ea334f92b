/** The conditions for a release: the state of the repository, the chart, the base image and CHANGELOG.md. */

/** The release cannot be made of what is here; the message says what to do. */
export class ReleaseRefused extends Error {}

interface Repository {
  /** The version of package.json. */
  readonly version: string;
  /** Output of `git status --porcelain`. */
  readonly changes: string;
  /** The tags of the commit that is checked out. */
  readonly tags: readonly string[];
}

/** Longest list of changed files in a message. */
const MAX_NAMED = 5;

/** Throws ReleaseRefused: the tree has changes, or the commit is not the one that is tagged with the version. */
export function checkRepository({ version, changes, tags }: Repository): void {
  const files = changes.split('\n').filter((line) => line !== '');
  if (files.length > 0) {
    const named = files.slice(0, MAX_NAMED).map((line) => line.slice(3));
    const more = files.length > MAX_NAMED ? ` and ${files.length - MAX_NAMED} more` : '';
    throw new ReleaseRefused(
      `the working tree differs from the commit: ${named.join(', ')}${more}. Commit these files, or make a trial with --trial`,
    );
  }
  const tag = `v${version}`;
  const versions = tags.filter((one) => /^v\d/.test(one));
  if (versions.length === 0)
    throw new ReleaseRefused(
      `the commit has no tag: set it with git tag --annotate ${tag}, or make a trial with --trial`,
    );
  if (!versions.includes(tag))
    throw new ReleaseRefused(
      `the commit has the tag ${versions.join(', ')}, but package.json has the version ${version}`,
    );
}

/** Throws ReleaseRefused when the versions of Chart.yaml are not the given one. */
export function checkChart(
  chart: { readonly version?: unknown; readonly appVersion?: unknown },
  version: string,
): void {
  for (const field of ['version', 'appVersion'] as const)
    if (chart[field] !== version)
      throw new ReleaseRefused(
        `deploy/chart/Chart.yaml: ${field} is ${String(chart[field])}, but package.json has the version ${version}`,
      );
}

/** Throws ReleaseRefused unless the image is named by its digest, or was built on this machine (localhost/). */
export function checkBaseImage(image: string | undefined): string {
  if (image === undefined)
    throw new ReleaseRefused(
      'the images need a base: --base-image debian@sha256:…, with the digest of a Debian for amd64 and arm64. --without-images makes a release without them',
    );
  if (/@sha256:[0-9a-f]{64}$/.test(image) || image.startsWith('localhost/')) return image;
  throw new ReleaseRefused(`--base-image ${image}: name this image by its digest, as in debian@sha256:…`);
}

/** The heading of changes without a version yet (CHANGELOG.md has the form of Keep a Changelog). */
export const UNRELEASED = 'Unreleased';

/**
 * The text under `## [version] - YYYY-MM-DD`, or under `## [Unreleased]`, without the heading. Throws ReleaseRefused when there is no such
 * section, when there are two, when it has no date, or when it is empty.
 */
export function sectionOf(changelog: string, version: string): string {
  const lines = changelog.split('\n');
  const isHeading = (line: string) => line.startsWith('## ');
  const starts = lines.flatMap((line, at) => (isHeading(line) && line.startsWith(`## [${version}]`) ? [at] : []));
  const [start] = starts;
  if (start === undefined)
    throw new ReleaseRefused(
      `CHANGELOG.md has no section [${version}]: give the section [${UNRELEASED}] this heading: ## [${version}] - YYYY-MM-DD`,
    );
  if (starts.length > 1) throw new ReleaseRefused(`CHANGELOG.md has ${starts.length} sections [${version}]: leave one`);
  const heading = lines[start] ?? '';
  const isWhole = version === UNRELEASED || /^## \[[^\]]+\] - \d{4}-\d{2}-\d{2}$/.test(heading);
  if (!isWhole) throw new ReleaseRefused(`CHANGELOG.md: «${heading}» has no date: write ## [${version}] - YYYY-MM-DD`);
  const rest = lines.slice(start + 1);
  const end = rest.findIndex(isHeading);
  const text = rest
    .slice(0, end < 0 ? undefined : end)
    .filter((line) => !/^\[[^\]]+\]: /.test(line))
    .join('\n')
    .trim();
  if (text === '') throw new ReleaseRefused(`CHANGELOG.md: the section [${version}] is empty`);
  return text;
}
