/** The table of figures in the README, from docs/benchmarks.json. */
import type { ProxiesResult, ProxyMeasured, ProxyMode, ProxyName } from './proxies.ts';
import { measuredOf, rivalName } from './proxies-page.ts';
import type { Results } from './results.ts';
import { duration, mean, median, NOT_RUN, percent, size, table } from './text.ts';
import type { Rules } from './traffic.ts';
import { connectCost } from './traffic-page.ts';

const BEGIN = '<!-- figures: node test/bench/write-pages.ts -->';
const END = '<!-- end of figures -->';
const PAGE = 'docs/benchmarks.md';

type Figures = Pick<Results, 'proxies' | 'traffic'>;

/** Whether a kube-proxy that reads its table by `nft list` was measured. */
const isBefore137 = ({ kubeProxy }: ProxiesResult) => /^v1\.([0-9]|[12][0-9]|3[0-6])\./.test(kubeProxy ?? '');

/** The README with the figures of now. Throws when it has no place for them. */
export function withFigures(readme: string, results: Figures): string {
  const [before, rest] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (before === -1 || rest < before) throw new Error(`README.md has no lines "${BEGIN}" and "${END}"`);
  return `${readme.slice(0, before + BEGIN.length)}\n\n${figures(results)}\n\n${readme.slice(rest)}`;
}

function figures(results: Figures): string {
  const { figures: proxies, server } = results.proxies;
  const newer =
    'kube-proxy 1.37 reads its table over netlink and syncs large clusters faster (k8s#137536); it was not measured.';
  return `${table(['', rivalName(proxies), 'slicewire'], [...proxyRows(proxies), trafficRow(results)])}

Measured in one run, one proxy after the other beside the same API server (${server}).
[The benchmarks](${PAGE}) have the machine, all sizes and modes, the floors, and the aims that slicewire misses.${isBefore137(proxies) ? `\n${newer}` : ''}`;
}

const seconds = (value: number) =>
  value < 10_000 ? `${(value / 1000).toFixed(2)} s` : `${(value / 1000).toFixed(0)} s`;
const megabytes = (value: number) => `${value.toFixed(0)} MB`;

interface Row {
  readonly what: string;
  readonly mode: ProxyMode;
  readonly services: number;
  readonly endpoints: number;
  readonly text: (one: ProxyMeasured) => string | undefined;
}

const cold = (one: ProxyMeasured) => seconds(median(one.cold));
const memory = (one: ProxyMeasured) => megabytes(one.anonymous);
const change = (one: ProxyMeasured) => (one.change === undefined ? undefined : duration(median(one.change)));
const churn = ({ churn: [flow] = [] }: ProxyMeasured) =>
  flow === undefined ? undefined : `${percent(flow.processor)} of a core`;

/** One row for each question of a reader who has half a minute; docs/benchmarks.md has all. */
const ROWS: readonly Row[] = [
  { what: 'start to all rules', mode: 'nftables', services: 10_000, endpoints: 5, text: cold },
  { what: 'one change', mode: 'nftables', services: 10_000, endpoints: 5, text: change },
  { what: '100 changes a second', mode: 'nftables', services: 10_000, endpoints: 5, text: churn },
  { what: 'anonymous memory', mode: 'nftables', services: 10_000, endpoints: 5, text: memory },
];

function proxyRows(proxies: ProxiesResult): string[][] {
  return ROWS.map(({ what, text, ...at }) => {
    const value = (proxy: ProxyName) => {
      const one = measuredOf(proxies, proxy, at);
      return (one && text(one)) ?? NOT_RUN;
    };
    return [`${at.mode}, ${size(at)}, ${what}`, value('kube-proxy'), link(value('slicewire'), 'beside-kube-proxy')];
  });
}

/** The processor time of a new connection in the mode where it matters, beside one to the bare Pod. */
function trafficRow({ traffic }: Figures): string[] {
  const { clusters } = traffic.figures;
  const largest = clusters.toSorted((a, b) => a.shape.services - b.shape.services).at(-1);
  if (largest === undefined) return ['iptables, CPU per connection', NOT_RUN, NOT_RUN];
  const text = (proxy: Rules['proxy']) => {
    const cost = connectCost(largest, (rules) => rules.mode === 'iptables' && rules.proxy === proxy);
    return cost === undefined ? undefined : `${cost.toFixed(0)} µs`;
  };
  // The real one does not come to an end with very many Services.
  const layout = text('layout');
  const theirs = text('kube-proxy') ?? (layout === undefined ? NOT_RUN : `${layout} (its layout as text)`);
  const pod = largest.measured.find(({ proxy, kind, way }) => proxy === 'none' && kind === 'connects' && way === 'pod');
  const floor = pod === undefined ? '' : `, ${mean(pod.processor).toFixed(0)} µs without a Service`;
  const what = `iptables, ${largest.shape.services.toLocaleString('en')} Services, CPU per connection`;
  return [what, theirs, `${link(text('slicewire') ?? NOT_RUN, 'traffic')}${floor}`];
}

const link = (text: string, section: string) => `[${text}](${PAGE}#${section})`;
