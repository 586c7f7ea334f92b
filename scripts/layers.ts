/** Places the nodes of a graph without circles in layers, so that every edge leads downwards (Sugiyama's method). */

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

export interface Placed {
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

/** `boxWidth` in pixels. Throws when there is a circle. The same graph is placed in the same way each time. */
export function place(graph: Graph, boxWidth: number): Placed {
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
