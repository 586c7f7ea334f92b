/** The section of one version in CHANGELOG.md, whose form is that of Keep a Changelog. */
import { ReleaseRefused } from './refused.ts';

/** The heading of what has no version yet. */
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
