/** docs/benchmarks.md, from the results. */
import { driftAims, driftSection } from './drift.ts';
import { explainAims, explainSection } from './explain.ts';
import { flowsSection } from './flows.ts';
import { liveAims, liveSection } from './live.ts';
import { modesSection } from './modes.ts';
import { producersAims, producersSection } from './producers.ts';
import { largestAims, largestSection, proxiesAims, proxiesSection } from './proxies-page.ts';
import { recorderAims, recorderSection } from './recorder.ts';
import type { PartName, Results } from './results.ts';
import { type Aim, table } from './text.ts';
import { trafficAims, trafficSection } from './traffic-page.ts';

/** What the page says of a part. */
interface Said {
  readonly section: string;
  readonly aims?: readonly Aim[];
}

/** In the order of the page. */
const PARTS: { readonly [Name in PartName]: (part: Results[Name]) => Said } = {
  proxies: ({ figures, server }) => ({ section: proxiesSection(figures, server), aims: proxiesAims(figures) }),
  largest: ({ figures, server }) => ({ section: largestSection(figures, server), aims: largestAims(figures) }),
  traffic: ({ figures, server }) => ({ section: trafficSection(figures, server), aims: trafficAims(figures) }),
  modes: ({ figures }) => ({ section: modesSection(figures) }),
  drift: ({ figures }) => ({ section: driftSection(figures), aims: driftAims(figures) }),
  flows: ({ figures }) => ({ section: flowsSection(figures) }),
  producers: ({ figures }) => ({ section: producersSection(figures), aims: producersAims(figures) }),
  explain: ({ figures }) => ({ section: explainSection(figures), aims: explainAims(figures) }),
  recorder: ({ figures }) => ({ section: recorderSection(figures), aims: recorderAims(figures) }),
  live: ({ figures }) => ({ section: liveSection(figures), aims: liveAims(figures) }),
};

export const PART_NAMES = Object.keys(PARTS) as PartName[];

export function page(results: Results): string {
  const said = PART_NAMES.map((name) => ({ name, ...saidOf(name, results) }));
  const sections = said.map(({ name, section }) => `${section}\n\nMeasured by \`npm run bench -- ${name}\`.`);
  return `${[head(results), aimsText(said), ...sections].join('\n\n')}\n`;
}

function saidOf<Name extends PartName>(name: Name, results: Results): Said {
  return PARTS[name](results[name]);
}

/** The commits of the parts: more than one is no page of one state. */
export function commitsOf(results: Partial<Results>): ReadonlySet<string> {
  return new Set(Object.values(results).map(({ commit }) => commit));
}

function head(results: Results): string {
  const machines = new Set(PART_NAMES.map((name) => results[name].machine));
  const days = PART_NAMES.map((name) => results[name].ranAt.slice(0, 10)).sort();
  return `# Benchmarks

\`npm run bench\` writes this page, its chart and [its figures](benchmarks.json); do not edit it.
The source of commit ${[...commitsOf(results)].join(', ')}, measured on ${[...new Set(days)].join(', ')}.
Machine: ${[...machines].join('; ')}.
Machines are noisy: read the ratios.
Where there is a floor or a rival, it is measured in the same run; several runs are given as the median, with the least and the most.
IPVS mode has [its own page](benchmarks-ipvs.md).

The agent is the executable of \`npm run build\`, a process in a network namespace.
The cluster is an API server in another process; the made-up one has TLS, lists in pages, watches with bookmarks, and objects as long as real ones.
"N × E" is N Services of E endpoints, pods of 100 nodes.

![The cost of slicewire and of kube-proxy by the size of the cluster](benchmarks.svg)`;
}

function aimsText(said: readonly (Said & { readonly name: PartName })[]): string {
  const aims = said.flatMap(({ name, aims: all = [] }) => all.map((aim) => ({ ...aim, part: name })));
  const reasons = aims.filter(({ isReached, inTheWay }) => isReached === false && inTheWay !== undefined);
  const rows = aims.map(({ what, at, aim, found, beside, isReached, part }) => [
    ...[
      what,
      at,
      aim,
      found,
      beside,
      isReached === undefined ? 'not compared' : isReached ? 'reached' : '**missed**',
      part,
    ],
  ]);
  const missed = reasons.map(({ what, at, inTheWay }) => `- ${what}, ${at}: ${inTheWay}`);
  return [
    '## Aims',
    table(['measure', 'at', 'aim', 'found', 'beside it in the same run', '', 'part'], rows),
    ...(missed.length === 0 ? [] : [`Reasons for the missed ones:\n\n${missed.join('\n')}`]),
  ].join('\n\n');
}
