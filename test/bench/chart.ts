/** The chart of docs/benchmarks.md, as SVG: ratios to the floor of the same run, so that it says the same on any machine. */
import type { ModesResult } from './modes.ts';
import { isPlain, type NftablesResult } from './nftables.ts';
import type { Results } from './page.ts';
import type { RivalMeasured, RivalsResult } from './rivals.ts';
import { rivalName } from './rivals-page.ts';
import { median, size } from './text.ts';

interface Bar {
  readonly label: string;
  /** In multiples of the floor. */
  readonly value: number;
  readonly text: string;
}

interface Panel {
  readonly title: string;
  readonly note: string;
  readonly bars: readonly Bar[];
}

const WIDTH = 760;
const LEFT = 250;
const BAR = 18;
const GAP = 8;
const HEAD = 48;

export function chart(results: Results): string {
  const panels = panelsOf(results);
  let top = 12;
  const parts: string[] = [];
  for (const panel of panels) {
    parts.push(panelText(panel, top));
    top += HEAD + panel.bars.length * (BAR + GAP) + 24;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}" height="${top}" role="img">`,
    '<title>slicewire beside kube-proxy, beside its layout and beside the bare tool</title>',
    '<style>text{font:13px system-ui,sans-serif;fill:#1f2937}.h{font-weight:600;font-size:15px}.n{fill:#6b7280;font-size:12px}</style>',
    `<rect width="${WIDTH}" height="${top}" fill="#ffffff"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

function panelsOf({ cold, change, connections, large, modes, nftables, rivals }: Results): Panel[] {
  const nft = cold.filter(({ backend, shape }) => backend === 'nft' && shape.nodePorts === undefined);
  const starts = nft.flatMap(({ shape, cold: own, floor, rival }) => {
    const name = `${shape.services.toLocaleString('en')} × ${shape.endpoints}`;
    const least = median(floor);
    const bars = [bar(`slicewire, ${name}`, median(own) / least, seconds(median(own)))];
    return rival.length > 0
      ? [...bars, bar(`kube-proxy's layout, ${name}`, median(rival) / least, seconds(median(rival)))]
      : bars;
  });
  const changes = change.map(({ shape, change: own, floor }) =>
    bar(
      `slicewire, ${shape.services.toLocaleString('en')} × ${shape.endpoints}`,
      median(own) / median(floor),
      `${median(own).toFixed(0)} ms`,
    ),
  );
  const connects = connections.flatMap(({ services, last, single, list }) => {
    const least = median(single.map(({ p50 }) => p50));
    const own = median(last.map(({ p50 }) => p50));
    const name = `${services.toLocaleString('en')} Services`;
    return [
      bar(`slicewire, ${name}`, own / least, `${own.toFixed(0)} µs`),
      ...(list === undefined
        ? []
        : [bar(`one rule a Service, ${name}`, list.p50 / least, `${list.p50.toFixed(0)} µs`)]),
    ];
  });
  const flaps = [
    bar('slicewire, in groups', median(large.flaps) / median(large.flat), `${median(large.flaps).toFixed(0)} ms`),
    bar('one flat chain, the restore alone', 1, `${median(large.flat).toFixed(0)} ms`),
  ];
  return [
    ...besideRival(rivals),
    ...sideBySide(modes),
    againstLayout(nftables),
    {
      title: 'Cold start, exec to all rules',
      note: '1 = one iptables-restore of the same rules, nothing else',
      bars: starts,
    },
    {
      title: 'One endpoint changed, event to kernel',
      note: '1 = iptables-restore of one chain in the same table',
      bars: changes,
    },
    { title: 'New connection through the last Service', note: '1 = through the only Service', bars: connects },
    {
      title: `A flap in a Service of ${large.endpoints.toLocaleString('en')} endpoints`,
      note: '1 = one restore of a flat chain',
      bars: flaps,
    },
  ];
}

/** In the clusters where both proxies were measured, as multiples of slicewire. */
function besideRival(rivals: RivalsResult): Panel[] {
  const pairs = rivals.measured.flatMap((own) => {
    const isSame = ({ mode, shape }: RivalMeasured) =>
      mode === own.mode && shape.services === own.shape.services && shape.endpoints === own.shape.endpoints;
    const theirs = rivals.measured.find((one) => one.proxy === 'kube-proxy' && isSame(one));
    return own.proxy === 'slicewire' && theirs !== undefined ? [[own, theirs] as const] : [];
  });
  if (pairs.length === 0) return [];
  const note = `1 = slicewire in the same cluster; ${rivalName(rivals)} is its binary`;
  const bars = (value: (one: RivalMeasured) => number, text: (value: number) => string) =>
    pairs.flatMap(([own, theirs]) =>
      [own, theirs].map((one) =>
        bar(`${one.proxy}, ${one.mode}, ${size(one.shape)}`, value(one) / value(own), text(value(one))),
      ),
    );
  const cold = bars((one) => median(one.cold), seconds);
  const memory = bars(
    ({ anonymous }) => anonymous,
    (value) => `${value.toFixed(0)} MB`,
  );
  return [
    { title: 'Beside kube-proxy: cold start', note, bars: cold },
    { title: 'Beside kube-proxy: memory at rest, not of a file', note, bars: memory },
  ];
}

/** All three modes on one kernel, beside nftables mode. */
function sideBySide({ shape, modes, rival, isMachine }: ModesResult): Panel[] {
  const least = modes.find(({ mode }) => mode === 'nftables');
  const note = `${size(shape)}, 1 = nftables mode${isMachine ? ' (emulated machine: read the ratios)' : ''}`;
  const change = median(least?.change ?? []);
  return [
    {
      title: 'All modes: one endpoint changed',
      note,
      bars: [
        ...modes.map(({ mode, change: own }) =>
          bar(`slicewire, ${mode} mode`, median(own) / change, `${median(own).toFixed(0)} ms`),
        ),
        bar('one chain, kube-proxy nftables', median(rival.change) / change, `${median(rival.change).toFixed(0)} ms`),
      ],
    },
    {
      title: 'All modes: cold start',
      note,
      bars: [
        ...modes.map(({ mode, cold }) =>
          bar(`slicewire, ${mode} mode`, cold / (least?.cold ?? Number.NaN), seconds(cold)),
        ),
        bar(
          'nft -f alone, kube-proxy nftables',
          median(rival.load) / (least?.cold ?? Number.NaN),
          seconds(median(rival.load)),
        ),
      ],
    },
  ];
}

/** nftables mode with its reading of lists, beside `nft -f` of the same state and of kube-proxy's layout. */
function againstLayout({ starts }: NftablesResult): Panel {
  return {
    title: 'nftables mode: cold start, exec to all elements',
    note: '1 = nft -f of the same state, without reading any list',
    bars: starts.filter(isPlain).flatMap(({ shape, cold, floor, rival }) => {
      const least = median(floor);
      const own = bar(`slicewire, ${size(shape)}`, median(cold) / least, seconds(median(cold)));
      if (rival.length === 0) return [own];
      return [own, bar(`kube-proxy's layout, ${size(shape)}`, median(rival) / least, seconds(median(rival)))];
    }),
  };
}

function bar(label: string, value: number, text: string): Bar {
  return { label, value, text };
}

const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`;

function panelText({ title, note, bars }: Panel, top: number): string {
  const most = Math.max(1, ...bars.map(({ value }) => value));
  const scale = (WIDTH - LEFT - 130) / most;
  const lines = [
    `<text class="h" x="12" y="${top + 16}">${title}</text>`,
    `<text class="n" x="12" y="${top + 34}">${note}</text>`,
  ];
  for (const [i, { label, value, text }] of bars.entries()) {
    const y = top + HEAD + i * (BAR + GAP);
    const colour = label.startsWith('slicewire') ? '#2563eb' : '#9ca3af';
    lines.push(
      `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${label.replace('&', '&amp;')}</text>`,
      `<rect x="${LEFT}" y="${y}" width="${Math.max(1, value * scale).toFixed(1)}" height="${BAR}" rx="2" fill="${colour}"/>`,
      `<text x="${(LEFT + value * scale + 6).toFixed(1)}" y="${y + 13}">${value.toFixed(2)} (${text})</text>`,
    );
  }
  const base = LEFT + scale;
  const bottom = top + HEAD + bars.length * (BAR + GAP) - GAP + 3;
  lines.push(
    `<line x1="${base.toFixed(1)}" x2="${base.toFixed(1)}" y1="${top + HEAD - 4}" y2="${bottom}" stroke="#111827" stroke-dasharray="3 3"/>`,
  );
  return lines.join('\n');
}
