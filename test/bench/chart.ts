/** The chart of docs/benchmarks.md, as SVG: what slicewire and kube-proxy cost by the size of the cluster, in nftables mode. */

import type { ProxiesResult, ProxyMeasured, ProxyName } from './proxies.ts';
import { rivalName } from './proxies-page.ts';
import { duration, median } from './text.ts';

interface Panel {
  readonly title: string;
  readonly value: (one: ProxyMeasured) => number | undefined;
  readonly text: (value: number) => string;
}

/** The smaller is the better in all of them. */
const PANELS: readonly Panel[] = [
  { title: 'Start to all rules', value: ({ cold }) => median(cold), text: duration },
  { title: 'Processor time of that', value: ({ processor }) => median(processor), text: duration },
  { title: 'One endpoint changed', value: ({ change }) => change && median(change), text: duration },
  {
    title: 'Anonymous memory',
    value: ({ anonymous }) => anonymous,
    text: (value) => `${value.toFixed(0)} MB`,
  },
];
const COLOURS: Readonly<Record<ProxyName, string>> = { slicewire: '#2563eb', 'kube-proxy': '#9ca3af' };

const WIDTH = 760;
const COLUMN = WIDTH / 2;
const ROW = 240;
const HEAD = 40;
/** Of a panel: around the lines. */
const MARGIN = { left: 70, right: 60, top: 34, bottom: 40 };

export function chart(proxies: ProxiesResult): string {
  const height = HEAD + ROW * (PANELS.length / 2);
  const legend = (['slicewire', 'kube-proxy'] as const).map((proxy, i) => {
    const [x, name] = [12 + i * 140, proxy === 'slicewire' ? proxy : rivalName(proxies)];
    return `<rect x="${x}" y="14" width="14" height="14" rx="2" fill="${COLOURS[proxy]}"/><text x="${x + 20}" y="26">${name}</text>`;
  });
  const panels = PANELS.map((panel, i) => panelText(proxies, panel, (i % 2) * COLUMN, HEAD + Math.floor(i / 2) * ROW));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    '<title>The cost of slicewire and of kube-proxy by the size of the cluster, nftables mode</title>',
    '<style>text{font:12px system-ui,sans-serif;fill:#1f2937}.h{font-weight:600;font-size:14px}.n{fill:#6b7280;font-size:11px}</style>',
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...legend,
    `<text class="n" x="${WIDTH - 12}" y="26" text-anchor="end">by Services and endpoints; both axes grow tenfold at each line</text>`,
    ...panels,
    '</svg>',
    '',
  ].join('\n');
}

interface Point {
  readonly proxy: ProxyName;
  /** Services and endpoints. */
  readonly size: number;
  readonly value: number;
}

/** Clusters in the order of their Services and endpoints. */
function pointsOf(proxies: ProxiesResult, { value }: Panel): Point[] {
  const points = proxies.measured.flatMap((one): Point[] => {
    const { proxy, mode, shape } = one;
    const found = value(one);
    if (mode !== 'nftables' || found === undefined) return [];
    return [{ proxy, size: shape.services * (1 + shape.endpoints), value: found }];
  });
  return points.sort((a, b) => a.size - b.size);
}

/** The powers of ten around the values. */
function decades(values: readonly number[]): { readonly from: number; readonly to: number } {
  const from = Math.floor(Math.log10(Math.min(...values)));
  return { from, to: Math.max(from + 1, Math.ceil(Math.log10(Math.max(...values)))) };
}

function panelText(proxies: ProxiesResult, panel: Panel, left: number, top: number): string {
  const points = pointsOf(proxies, panel);
  if (points.length === 0) return '';
  const [across, up] = [decades(points.map(({ size }) => size)), decades(points.map(({ value }) => value))];
  const [width, height] = [COLUMN - MARGIN.left - MARGIN.right, ROW - MARGIN.top - MARGIN.bottom];
  const xOf = (size: number) =>
    left + MARGIN.left + ((Math.log10(size) - across.from) / (across.to - across.from)) * width;
  const yOf = (value: number) => top + MARGIN.top + (1 - (Math.log10(value) - up.from) / (up.to - up.from)) * height;
  const powers = ({ from, to }: typeof up) => Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
  const grid = powers(up).flatMap((value) => {
    const y = yOf(value).toFixed(1);
    return [
      `<line x1="${left + MARGIN.left}" x2="${left + MARGIN.left + width}" y1="${y}" y2="${y}" stroke="#e5e7eb"/>`,
      `<text class="n" x="${left + MARGIN.left - 6}" y="${y}" dy="4" text-anchor="end">${panel.text(value)}</text>`,
    ];
  });
  const sizes = powers(across).map(
    (size) =>
      `<text class="n" x="${xOf(size).toFixed(1)}" y="${top + ROW - MARGIN.bottom + 18}" text-anchor="middle">${size.toLocaleString('en')}</text>`,
  );
  const lines = (['kube-proxy', 'slicewire'] as const).flatMap((proxy) => {
    const own = points.filter((one) => one.proxy === proxy);
    const last = own.at(-1);
    if (last === undefined) return [];
    const colour = COLOURS[proxy];
    const path = own.map(({ size, value }) => `${xOf(size).toFixed(1)},${yOf(value).toFixed(1)}`).join(' ');
    return [
      `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>`,
      ...own.map(
        ({ size, value }) =>
          `<circle cx="${xOf(size).toFixed(1)}" cy="${yOf(value).toFixed(1)}" r="3" fill="${colour}"/>`,
      ),
      `<text x="${(xOf(last.size) + 6).toFixed(1)}" y="${yOf(last.value).toFixed(1)}" dy="4">${panel.text(last.value)}</text>`,
    ];
  });
  return [`<text class="h" x="${left + 12}" y="${top + 18}">${panel.title}</text>`, ...grid, ...sizes, ...lines].join(
    '\n',
  );
}
