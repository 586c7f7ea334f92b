/**
 * docs/architecture.svg: the folders as boxes in layers, and the imports between them as lines, read from the source.
 * Every line leads downwards. A line that other lines already imply is left out; the tooltip of a box has all imports.
 *
 *   node scripts/architecture-picture.ts      writes the picture; a test compares it with the source
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { importsOf, sourceFiles } from './imports.ts';

const FILE = fileURLToPath(new URL('../docs/architecture.svg', import.meta.url));
const BOX = { width: 144, height: 46 } as const;
const MARGIN = 16;
const LAYER = 92;

/** Descriptions of the wings, in a few words. The picture cannot be drawn while one is missing. */
const FOLDERS: Readonly<Record<string, string>> = {
  'main.ts': 'the process',
  cli: 'commands and their output',
  agent: 'the life of the agent',
  fleet: 'how far the nodes are',
  controller: 'writes slices',
  shadow: 'watches kube-proxy',
  web: 'the pages',
  inspect: 'answers to questions',
  config: 'flags, files → Config',
  serve: 'HTTP servers, health',
  telemetry: 'log and metrics',
  cluster: 'objects, read and kept',
  proxy: 'model, modes, sync',
  kernel: 'this machine',
  native: 'netlink by bytes',
  base: 'addresses, time, text',
};

/** The names of the folders with the folders that they import, both sorted. */
export function folderGraph(): Map<string, Set<string>> {
  const files = sourceFiles('src', 'native');
  const graph = new Map(files.map(folderOf).map((folder) => [folder, new Set<string>()]));
  for (const { from, to } of files.flatMap(importsOf)) {
    const [own, other] = [folderOf(from), folderOf(to)];
    if (own !== other && graph.has(other)) graph.get(own)?.add(other);
  }
  return new Map([...graph].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, to]) => [name, new Set([...to].sort())]));
}

/** `src/proxy/modes/netfilter/plan.ts` is in `proxy`, `native/nft/table-requests.ts` in `native`. */
function folderOf(file: string): string {
  const [top = '', name = ''] = file.split('/');
  return top === 'src' ? name : top;
}

/** The text of the SVG. Throws when a folder has no description, or when folders import each other in a circle. */
export function architecturePicture(graph: ReadonlyMap<string, ReadonlySet<string>>): string {
  const unknown = [...graph.keys()].filter((name) => FOLDERS[name] === undefined);
  if (unknown.length > 0) throw new Error(`scripts/architecture-picture.ts does not describe ${unknown.join(', ')}`);
  const { boxes, lines, width, layers } = place(graph, BOX.width);
  const [wide, high] = [width + 2 * MARGIN, (layers - 1) * LAYER + BOX.height + 2 * MARGIN];
  const top = (layer: number) => MARGIN + layer * LAYER;
  const paths = lines.map((points) => {
    const [first, ...rest] = points.map(({ x, layer }) => ({ x: x + MARGIN, y: top(layer) }));
    let [d, at] = [`M${first?.x} ${(first?.y ?? 0) + BOX.height}`, first];
    for (const [i, { x, y }] of rest.entries()) {
      const from = (at?.y ?? 0) + BOX.height;
      const half = (from + y) / 2;
      d += `C${at?.x} ${half} ${x} ${half} ${x} ${y}${i < rest.length - 1 ? `V${y + BOX.height}` : ''}`;
      at = { x, y };
    }
    return `<path d="${d}"/>`;
  });
  const rooms = boxes.map(({ name, x, layer }) => {
    const imports = [...(graph.get(name) ?? [])].join(', ') || 'nothing of the project';
    const [left, middle, y] = [x + MARGIN - BOX.width / 2, x + MARGIN, top(layer)];
    const path = name === 'native' ? 'native/' : name === 'main.ts' ? name : `src/${name}/`;
    return [
      `<g><title>${path} imports ${imports}</title>`,
      `<rect x="${left}" y="${y}" width="${BOX.width}" height="${BOX.height}" rx="6"/>`,
      `<text class="h" x="${middle}" y="${y + 19}">${name === 'main.ts' ? name : `${name}/`}</text>`,
      `<text class="n" x="${middle}" y="${y + 36}">${FOLDERS[name]}</text></g>`,
    ].join('');
  });
  const style = [
    'text{font:13px system-ui,sans-serif;fill:#1f2937;text-anchor:middle}.h{font-weight:600;font-size:14px}',
    '.n{fill:#4b5563;font-size:11px}rect{fill:#eff6ff;stroke:#2563eb}path{fill:none;stroke:#9ca3af;stroke-width:1.5}',
  ].join('');
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${high}" width="${wide}" height="${high}" role="img">`,
    '<title>The folders of slicewire in layers: a folder imports only folders below it</title>',
    `<style>${style}</style>`,
    `<rect width="${wide}" height="${high}" style="fill:#ffffff;stroke:none"/>`,
    ...paths,
    ...rooms,
    '</svg>',
    '',
  ].join('\n');
}

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

interface Placed {
  /** `x` is the middle of the box. */
  readonly boxes: readonly { readonly name: string; readonly x: number; readonly layer: number }[];
  /** Each line as its point in every layer, from the upper node to the lower one. */
  readonly lines: readonly (readonly { readonly x: number; readonly layer: number }[])[];
  readonly width: number;
  readonly layers: number;
}

/** A node, or the place where a line passes a layer. */
interface Slot {
  readonly name: string | undefined;
  readonly layer: number;
  x: number;
  readonly up: Slot[];
  readonly down: Slot[];
}

const GAP = 20;
const SWEEPS = 24;

/**
 * Places the nodes of a graph in layers, so that every edge leads downwards (Sugiyama's method). `boxWidth` in pixels. Throws when there is
 * a circle. The same graph is placed in the same way each time.
 */
function place(graph: Graph, boxWidth: number): Placed {
  const edges = [...graph].flatMap(([from, to]) => [...to].filter(isNeeded(graph, from)).map((name) => [from, name]));
  const depth = depths(graph);
  const deepest = Math.max(...depth.values());
  const layers: Slot[][] = Array.from({ length: deepest + 1 }, () => []);
  const add = (name: string | undefined, layer: number): Slot => {
    const slot: Slot = { name, layer, x: 0, up: [], down: [] };
    layers[layer]?.push(slot);
    return slot;
  };
  const nodes = new Map([...graph.keys()].map((name) => [name, add(name, deepest - (depth.get(name) ?? 0))]));
  const lines = edges.map(([from = '', to = '']) => {
    const [upper, lower] = [nodes.get(from), nodes.get(to)];
    if (upper === undefined || lower === undefined) throw new Error(`${from} imports ${to}, which is not in the graph`);
    const passed = Array.from({ length: lower.layer - upper.layer - 1 }, (_, i) => add(undefined, upper.layer + 1 + i));
    const line = [upper, ...passed, lower];
    for (const [i, slot] of line.slice(1).entries()) {
      slot.up.push(line[i] as Slot);
      line[i]?.down.push(slot);
    }
    return line;
  });
  const width = arrange(layers, (slot) => (slot.name === undefined ? 0 : boxWidth) + GAP);
  return {
    boxes: [...nodes].map(([name, { x, layer }]) => ({ name, x, layer })),
    lines: lines.map((line) => line.map(({ x, layer }) => ({ x, layer }))),
    width,
    layers: layers.length,
  };
}

/** Whether no longer way leads from `from` to the node. */
function isNeeded(graph: Graph, from: string): (to: string) => boolean {
  return (to) => ![...(graph.get(from) ?? [])].some((other) => other !== to && reaches(graph, other, to));
}

function reaches(graph: Graph, from: string, to: string): boolean {
  return [...(graph.get(from) ?? [])].some((other) => other === to || reaches(graph, other, to));
}

/** The length of the longest way down from each node. */
function depths(graph: Graph): Map<string, number> {
  const found = new Map<string, number>();
  const visit = (name: string, above: readonly string[]): number => {
    if (above.includes(name)) throw new Error(`a circle of imports: ${[...above, name].join(' → ')}`);
    const below = [...(graph.get(name) ?? [])].map((other) => visit(other, [...above, name]));
    const depth = found.get(name) ?? Math.max(0, ...below.map((value) => value + 1));
    found.set(name, depth);
    return depth;
  };
  for (const name of graph.keys()) visit(name, []);
  return found;
}

/** Orders each layer by where its neighbours are, and gives every slot its `x`. Returns the width of all. */
function arrange(layers: readonly Slot[][], widthOf: (slot: Slot) => number): number {
  const widest = Math.max(...layers.map((layer) => layer.reduce((sum, slot) => sum + widthOf(slot), 0)));
  const spread = (layer: Slot[]) => {
    const used = layer.reduce((sum, slot) => sum + widthOf(slot), 0);
    const room = (widest - used) / layer.length;
    let left = 0;
    for (const slot of layer) {
      slot.x = Math.round(left + (widthOf(slot) + room) / 2);
      left += widthOf(slot) + room;
    }
  };
  for (const layer of layers) spread(layer);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    for (const layer of isDown ? layers : layers.toReversed()) {
      const wanted = new Map(layer.map((slot) => [slot, middle(slot, isDown ? slot.up : slot.down)]));
      layer.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
      spread(layer);
    }
  }
  return widest;
}

function middle(slot: Slot, neighbours: readonly Slot[]): number {
  if (neighbours.length === 0) return slot.x;
  return neighbours.reduce((sum, { x }) => sum + x, 0) / neighbours.length;
}

if (import.meta.main) writeFileSync(FILE, architecturePicture(folderGraph()));
