/**
 * The table of figures in the README, from docs/benchmarks.json. `npm run bench` writes it at its end; a test fails when it is stale.
 *
 *   node test/bench/readme-figures.ts      writes it
 */
import { readFileSync, writeFileSync } from 'node:fs';
import type { Results } from './page.ts';
import type { ProxyName, RivalMeasured, RivalMode } from './rivals.ts';
import { rivalName } from './rivals-page.ts';
import { duration, median, percent, size, table } from './text.ts';
import type { WayMeasured } from './traffic.ts';

const README = new URL('../../README.md', import.meta.url);
const DATA = new URL('../../docs/benchmarks.json', import.meta.url);
const BEGIN = '<!-- figures: node test/bench/readme-figures.ts -->';
const END = '<!-- end of figures -->';
const PAGE = 'docs/benchmarks.md';
const NOT_RUN = 'not run';

type Figures = Pick<Results, 'rivals' | 'traffic'>;

/** The README with the figures of now. Throws when it has no place for them. */
export function withFigures(readme: string, results: Figures): string {
  const [before, rest] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (before === -1 || rest < before) throw new Error(`README.md has no lines "${BEGIN}" and "${END}"`);
  return `${readme.slice(0, before + BEGIN.length)}\n\n${figures(results)}\n\n${readme.slice(rest)}`;
}

function figures(results: Figures): string {
  const { rivals } = results;
  return `${table(['', rivalName(rivals), 'slicewire'], [...rivalRows(results), trafficRow(results)])}

Measured in one run, one proxy after the other beside the same simulated API server. [The benchmarks](${PAGE}) have the machine, all
sizes and modes, the floors, and the aims that slicewire misses.`;
}

const seconds = (value: number) =>
  value < 10_000 ? `${(value / 1000).toFixed(2)} s` : `${(value / 1000).toFixed(0)} s`;
const megabytes = (value: number) => `${value.toFixed(0)} MB`;

interface Row {
  readonly what: string;
  readonly mode: RivalMode;
  readonly services: number;
  readonly text: (one: RivalMeasured) => string | undefined;
}

const cold = (one: RivalMeasured) => seconds(median(one.cold));
const memory = (one: RivalMeasured) => megabytes(one.anonymous);
const change = (one: RivalMeasured) => (one.change === undefined ? undefined : duration(median(one.change)));
const churn = (one: RivalMeasured) =>
  one.churn === undefined ? undefined : `${percent(one.churn.processor)} of a core`;

/** One row for each question of a reader who has half a minute; docs/benchmarks.md has all. */
const ROWS: readonly Row[] = [
  { what: 'start to all rules', mode: 'nftables', services: 10_000, text: cold },
  { what: 'one change', mode: 'nftables', services: 10_000, text: change },
  { what: '100 changes a second', mode: 'nftables', services: 10_000, text: churn },
  { what: 'anonymous memory', mode: 'nftables', services: 10_000, text: memory },
];

function rivalRows({ rivals: { measured } }: Figures): string[][] {
  return ROWS.map(({ what, mode, services, text }) => {
    const of = (proxy: ProxyName) =>
      measured.find((one) => one.proxy === proxy && one.mode === mode && one.shape.services === services);
    const [own, theirs] = [of('slicewire'), of('kube-proxy')];
    const cluster = own === undefined ? services.toLocaleString('en') : size(own.shape);
    const value = (one: RivalMeasured | undefined) => (one === undefined ? undefined : text(one));
    return [`${mode}, ${cluster}, ${what}`, value(theirs) ?? NOT_RUN, link(value(own) ?? NOT_RUN, 'beside-kube-proxy')];
  });
}

/** CPU of a new connection in the mode where it matters, beside one to the bare Pod. */
function trafficRow({ traffic: { clusters } }: Figures): string[] {
  const { services, ways } = clusters.at(-1) ?? { services: 0, ways: [] };
  const bare = ways.find(({ proxy }) => proxy === 'none')?.connects.pod;
  const cost = (own: boolean) => costOf(ways.find((way) => way.mode === 'iptables' && isOf(way, own)));
  const floor = bare === undefined ? '' : `, ${median(bare.processor).toFixed(0)} µs without a Service`;
  const what = `iptables, ${services.toLocaleString('en')} Services, CPU per connection`;
  return [what, cost(false), `${link(cost(true), 'connections-a-second-and-a-long-one')}${floor}`];
}

const isOf = ({ proxy }: WayMeasured, own: boolean) =>
  own ? proxy === 'slicewire' : proxy === 'kube-proxy' || proxy === 'layout';

function costOf(way: WayMeasured | undefined): string {
  const service = way?.connects.service;
  return service === undefined ? NOT_RUN : `${median(service.processor).toFixed(0)} µs`;
}

const link = (text: string, section: string) => `[${text}](${PAGE}#${section})`;

/** Writes README.md. */
export function writeFigures(): void {
  const results = JSON.parse(readFileSync(DATA, 'utf8')) as Results;
  writeFileSync(README, withFigures(readFileSync(README, 'utf8'), results));
}

if (import.meta.main) writeFigures();
