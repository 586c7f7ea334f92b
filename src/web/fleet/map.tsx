/** The map, with a cell for each node. The cell at the pointer, or at the keyboard, shows a tip about its node. */
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { FleetNode } from '../../inspect/wire/fleet.ts';
import { State, Verbatim } from '../bits.tsx';
import { useWidth } from '../hooks.ts';
import { colourOf } from '../theme.ts';
import {
  cellAfter,
  cellAt,
  cornerOf,
  type Drawing,
  draw,
  type Grid,
  gridFor,
  type Palette,
  placeOf,
  sizeOf,
} from './draw.ts';
import { LOOKS, lagOf, lookOf, nodeText, signOfNode, stateText } from './fleet-text.ts';

interface MapProps {
  readonly nodes: readonly FleetNode[];
  /** Milliseconds since the message that has the nodes. */
  readonly passed: number;
  /** Changes with the colours. */
  readonly theme: string;
  readonly onChoose: (name: string) => void;
}

export function NodeMap({ nodes, passed, theme, onChoose }: MapProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const palette = usePalette(box, theme);
  // Kept by name, because other nodes may come before it.
  const [current, setCurrent] = useState('');
  const [pointed, setPointed] = useState('');
  const [isFocused, setFocused] = useState(false);
  const grid = useMemo(() => gridFor(width, nodes.length), [width, nodes.length]);
  const tipped = pointed === '' ? (isFocused ? current : '') : pointed;
  const indexOf = (name: string) => (name === '' ? -1 : nodes.findIndex((node) => node.name === name));
  const [at, ringed] = [Math.max(0, indexOf(current)), indexOf(tipped)];
  const canvas = useDrawn({ nodes, passed, grid, width, palette });
  const nameAt = (event: MouseEvent) =>
    nodes[cellAt(event.offsetX, event.offsetY, grid, nodes.length) ?? -1]?.name ?? '';
  const onKeyDown = (event: KeyboardEvent) => {
    const node = nodes[at];
    if (event.key === 'Enter' && node !== undefined) return onChoose(node.name);
    const next = cellAfter(event.key, at, grid, nodes.length);
    if (next === undefined) return;
    event.preventDefault();
    setPointed('');
    setCurrent(nodes[next]?.name ?? '');
    scrollTo(box.current, grid, next);
  };
  const focused = nodes[at];
  return (
    <div
      ref={box}
      id="map"
      class="map"
      role="listbox"
      aria-label="Nodes: arrow keys move, Enter shows all about one"
      aria-activedescendant={focused === undefined ? undefined : `cell-${at}`}
      tabIndex={0}
      onKeyDown={onKeyDown}
      onFocus={() => {
        setFocused(true);
        if (focused !== undefined) setCurrent(focused.name);
      }}
      onBlur={() => setFocused(false)}
      onPointerLeave={() => setPointed('')}
    >
      <canvas
        ref={canvas}
        style={{ width: `${width}px`, height: `${grid.height}px` }}
        onPointerMove={(event) => setPointed(nameAt(event))}
        onClick={(event) => {
          const name = nameAt(event);
          if (name === '') return;
          setCurrent(name);
          onChoose(name);
        }}
      />
      {focused !== undefined && <Option node={focused} at={at} of={nodes.length} passed={passed} />}
      {ringed >= 0 && <div class="ring" style={ringPlace(ringed, grid)} />}
      {ringed >= 0 && <Tip node={nodes[ringed]} place={tipPlace(ringed, grid, width)} passed={passed} />}
    </div>
  );
}

interface DrawnProps extends Pick<MapProps, 'nodes' | 'passed'>, Pick<Drawing, 'grid' | 'width'> {
  readonly palette: Palette | undefined;
}

/** The canvas is drawn again when one of the arguments changes. */
function useDrawn({ nodes, passed, grid, width, palette }: DrawnProps): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (canvas.current === null || width === 0 || palette === undefined) return;
    const cells = nodes.map((node) => ({ name: node.name, look: lookOf(node, lagOf(node, passed)) }));
    draw(canvas.current, { grid, width, cells, palette });
  }, [grid, width, nodes, passed, palette]);
  return canvas;
}

interface OptionProps {
  readonly node: FleetNode;
  readonly at: number;
  readonly of: number;
  readonly passed: number;
}

/** The node at the keyboard, for screen readers: the canvas has no elements for them. */
function Option({ node, at, of, passed }: OptionProps) {
  return (
    <div
      id={`cell-${at}`}
      class="hidden"
      role="option"
      tabIndex={-1}
      aria-selected="true"
      aria-posinset={at + 1}
      aria-setsize={of}
    >
      {nodeText(node, passed)}
    </div>
  );
}

interface TipProps {
  readonly node: FleetNode | undefined;
  readonly place: Readonly<Record<string, string>>;
  readonly passed: number;
}

function Tip({ node, place, passed }: TipProps) {
  if (node === undefined) return null;
  const lag = lagOf(node, passed);
  return (
    <div class="tip" style={place} aria-hidden="true">
      <Verbatim class="strong">{node.name}</Verbatim>
      <State kind={signOfNode(node.state, lag)}>{stateText(node.state, lag)}</State>
      {node.why !== '' && <Verbatim>{node.why}</Verbatim>}
      {!node.healthy && node.reasons.map((reason) => <Verbatim key={reason}>{reason}</Verbatim>)}
    </div>
  );
}

/** The ring around a cell. It is no part of the canvas, so that the map is not drawn again when the pointer moves. */
function ringPlace(index: number, grid: Grid): Record<string, string> {
  const size = sizeOf(grid);
  const { x, y } = cornerOf(index, grid, size);
  return { left: `${x - 1}px`, top: `${y - 1}px`, width: `${size + 2}px`, height: `${size + 2}px` };
}

/** The tip is below the cell, on the side with room. */
function tipPlace(index: number, grid: Grid, width: number): Record<string, string> {
  const { x, y } = placeOf(index, grid);
  const top = `${y + grid.cellHeight + 4}px`;
  return x > width / 2
    ? { top, right: `${Math.max(0, width - x - grid.cellHeight)}px`, left: 'auto' }
    : { top, left: `${x}px`, right: 'auto' };
}

/** Makes a cell visible in a map that is higher than the window. */
function scrollTo(box: HTMLElement | null, grid: Grid, index: number): void {
  if (box === null) return;
  const top = box.getBoundingClientRect().top + placeOf(index, grid).y;
  const room = 24;
  if (top < room) scrollBy(0, top - room);
  else if (top + grid.cellHeight + 4 * room > innerHeight) scrollBy(0, top + grid.cellHeight + 4 * room - innerHeight);
}

/** The colours, read when the theme changes; undefined before the first time. */
function usePalette(box: { readonly current: HTMLElement | null }, theme: string): Palette | undefined {
  const [palette, setPalette] = useState<Palette>();
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const of = (name: string) => colourOf(name, element);
    setPalette({
      cells: new Map(LOOKS.map(({ colour }) => [colour, of(colour)])),
      ...{ mark: of('--surface'), text: of('--text') },
      font: `13px ${getComputedStyle(element).fontFamily}`,
    });
  }, [theme]);
  return palette;
}
