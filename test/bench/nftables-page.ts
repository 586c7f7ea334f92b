/** The part of docs/benchmarks.md that is about nftables mode. */
import { connectionCells, lastBesideSingle } from './connections.ts';
import type { ModesResult } from './modes.ts';
import { isPlain, type NftablesResult, type NftablesStart } from './nftables.ts';
import { type Aim, median, most, ms, quantile, ratio, size, spread, spreadOf, table } from './text.ts';

/** Milliseconds of a cold start, by Services: what is wanted, and what `nft -f` of the same took on the machine where that was said. */
const AIMS: Readonly<Record<number, { readonly wanted: number; readonly floor: number }>> = {
  10000: { wanted: 1500, floor: 580 },
  44000: { wanted: 2500, floor: 760 },
  5000: { wanted: 5000, floor: 2800 },
  8000: { wanted: 5000, floor: 2700 },
};
/** Megabytes, at 250,000 endpoints. */
const MAX_MEMORY = 400;
/** Milliseconds. */
const CHANGE = 5;

function aimsBeside({ shape, cold, floor }: NftablesStart): readonly string[] {
  const aim = AIMS[shape.services];
  if (aim === undefined) return [];
  return [size(shape), ratio(aim.wanted, aim.floor), ratio(median(cold), median(floor))];
}

function nameOf({ shape, asJson }: NftablesStart): string {
  const kind = shape.affinity === 1 ? ', sticky' : shape.nodePorts === undefined ? '' : ', mixed';
  return `${size(shape)}${kind}${asJson ? ', JSON' : ''}`;
}

export function nftablesAims({ starts, change, connections }: NftablesResult): Aim[] {
  const plain = starts.filter(isPlain);
  const cold = plain.flatMap(({ shape, cold, floor }): Aim[] => {
    const { wanted } = AIMS[shape.services] ?? {};
    if (wanted === undefined) return [];
    return [
      {
        ...{ what: 'nftables mode, cold start', at: size(shape), aim: `${wanted / 1000} s` },
        found: `${spread(cold)}; \`nft -f\` of the same state ${spread(floor)}`,
        isReached: median(cold) < wanted,
      },
    ];
  });
  const widest = plain.filter(({ shape }) => shape.services * shape.endpoints >= 240_000);
  const slower = connections.map((result) => lastBesideSingle(result));
  return [
    ...cold,
    {
      what: 'nftables mode, memory at the peak',
      at: widest.map(({ shape }) => size(shape)).join(', '),
      aim: `${MAX_MEMORY} MB`,
      found: widest.map(({ peak }) => `${median(peak).toFixed(0)} MB`).join(', '),
      isReached: widest.every(({ peak }) => median(peak) < MAX_MEMORY),
    },
    ...change.map((result) => ({
      ...{ what: 'nftables mode, one endpoint changed', at: size(result.shape), aim: `${CHANGE} ms` },
      found: `${ms(median(result.change), 1)}, p99 ${ms(quantile(result.change, 0.99), 1)}; bare \`nft\` ${ms(median(result.floor), 1)}`,
      isReached: median(result.change) < CHANGE,
    })),
    {
      what: 'nftables mode, new connection, last Service beside the only one',
      at: connections.map(({ services }) => services.toLocaleString('en')).join(' / '),
      aim: '1.15',
      found: slower.map((times) => times.toFixed(2)).join(' / '),
      isReached: slower.every((times) => times <= 1.15),
    },
  ];
}

export function nftablesSection({ starts, change, connections }: NftablesResult): string {
  return `## nftables mode

The time from exec to the end of the first sync, the API server's lists included.

- Floor: one \`nft -f\` of the same state into an empty namespace, from a prepared text: it reads no list.
- kube-proxy's layout (up to 1.35; since then without the endpoints' chains): one \`nft -f\` of the same Services with a chain a Service,
  an anonymous map in each, and a chain an endpoint; then the time of one such chain more.
- "Sticky": all Services have ClientIP affinity; "mixed" as below; "JSON": lists in JSON instead of protobuf.
- Memory is in megabytes, the agent at its peak and at rest.

${table(
  [
    'cluster',
    'elements',
    'chains',
    'cold start',
    'floor, `nft -f`',
    'cold / floor',
    "kube-proxy's layout",
    'one chain more in it',
    'first',
    'health',
    'peak',
    'at rest',
    'restart',
  ],
  starts.map((m) => [
    nameOf(m),
    `${m.elements}`,
    `${m.chains}`,
    spread(m.cold),
    spread(m.floor),
    ratio(median(m.cold), median(m.floor)),
    m.rival.length > 0 ? spread(m.rival) : 'not run',
    m.rivalChange.length > 0 ? ms(median(m.rivalChange)) : 'not run',
    m.first.length > 0 ? ms(most(m.first)) : 'with all',
    ms(most(m.health)),
    spreadOf(m.peak),
    m.resident.toFixed(0),
    `${spread(m.restart)}, "${m.restartSaid}"`,
  ]),
)}

The aims were set on a machine where \`nft -f\` of the same state took 0.58, 0.76, 2.8 and 2.7 s.
As multiples of that time:

${table(
  ['cluster', 'aim / floor there', 'cold / floor here'],
  starts
    .filter(isPlain)
    .map(aimsBeside)
    .filter(({ length }) => length > 0),
)}

The parts of a cold start, by a profile at 10,000 × 5: a tenth starts the program; a quarter reads the lists (TLS, protobuf, decoding);
a quarter selects, renders and writes, of which the kernel takes a quarter; a third is garbage collection.
\`nft -f\` reads no list.
Many chains are slow for \`nft\` ("mixed", "sticky"), less so for the kernel.

A restart reads all elements.
Above 200,000 that takes longer than writing them: for each part of a listing (32 KB) the kernel walks the map from its beginning
(nft_set_hash.c, nft_rhash_walk).
Services work meanwhile as before.

One endpoint changed: the time from the API server's event to the kernel's notification of the element, minSyncPeriod 0.
Floor: one \`nft -f\` that adds one element to the same table.

${table(
  ['cluster', 'p50', 'p99', 'floor, p50', 'p50 / floor'],
  change.map((m) => [
    size(m.shape),
    ms(median(m.change), 2),
    ms(quantile(m.change, 0.99), 2),
    ms(median(m.floor), 2),
    ratio(median(m.change), median(m.floor)),
  ]),
)}

The time of \`connect()\` in microseconds, as below for iptables mode.

${table(['Services', 'through the last', 'through the only one', 'last / only'], connections.map(connectionCells))}`;
}

export function modesSection({ shape, modes, rival, isMachine }: ModesResult): string {
  const where = isMachine ? 'the virtual machine (test/vm/machine), whose processors are emulated' : 'this kernel';
  const least = modes.find(({ mode }) => mode === 'nftables');
  const row = (name: string, cold: number, change: readonly number[]) => [
    name,
    spread([cold]),
    ratio(cold, least?.cold ?? Number.NaN),
    ms(median(change), 1),
    ratio(median(change), median(least?.change ?? [])),
  ];
  return `## The three modes side by side

${size(shape)} on one kernel that has all three: ${where}; read the ratios.
Cold start: from exec to the end of the first sync, lists included.
One change: one endpoint, from event to kernel, minSyncPeriod 0.
The last row is kube-proxy's nftables layout of the same Services: one \`nft -f\` of a prepared text, and one chain more.

${table(
  ['', 'cold start', 'beside nftables mode', 'one change, p50', 'beside nftables mode'],
  [
    ...modes.map(({ mode, cold, change }) => row(`slicewire, ${mode}`, cold, change)),
    row("kube-proxy's nftables layout, `nft -f` alone", median(rival.load), rival.change),
  ],
)}`;
}
