/** The chart of latency from event to kernel, drawn by uPlot. Its figures are beside it as a table. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { clockTime, millisecondsText, numberText } from '../inspect/wire/format.ts';
import type { LatencySlot } from '../inspect/wire/live.ts';
import { Table } from './bits.tsx';
import { useWidth } from './hooks.ts';
import { colourOf } from './theme.ts';

const HEIGHT = 210;
/** The lines in the legend, in the styles of the series. */
const DASHES = ['none', 'solid', 'dashed', 'dotted'] as const;
/** The lowest value of the axis. A logarithm takes no zero. */
const MIN_AXIS_MS = 0.1;

/** The axis of time, in seconds. */
export interface Span {
  readonly slot: number;
  readonly all: number;
}

interface ChartProps {
  readonly slots: readonly LatencySlot[];
  /** The chart in one sentence. */
  readonly caption: string;
  readonly span: Span;
  /** The time of the agent or of the fleet, in milliseconds since 1970. */
  readonly now: number;
  /** Changes with the colours. */
  readonly theme: string;
}

export function LatencyChart({ slots, caption, span, now, theme }: ChartProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot>(undefined);
  const end = Math.ceil(now / 1000 / span.slot) * span.slot;
  useEffect(() => {
    if (box.current === null || width === 0) return;
    const made = new uPlot(optionsOf(width, box.current), columnsOf(slots, end, span), box.current);
    plot.current = made;
    return () => made.destroy();
  }, [width, theme]);
  useEffect(() => plot.current?.setData(columnsOf(slots, end, span)), [slots, end]);
  return (
    <figure class="chart">
      <figcaption>{caption}</figcaption>
      <div ref={box} class="plot" role="img" aria-label={caption} />
      <details>
        <summary>The figures</summary>
        <Table label="Latency by time" heads={['Time', 'Changes', 'Half within', '99 % within', 'At most']}>
          {slots.toReversed().map((slot) => (
            <tr key={slot.at}>
              <td>{clockTime(slot.at, slot.at).slice(0, 8)}</td>
              <td class="number">{numberText(slot.changes)}</td>
              <td class="number">{millisecondsText(slot.p50)}</td>
              <td class="number">{millisecondsText(slot.p99)}</td>
              <td class="number">{millisecondsText(slot.most)}</td>
            </tr>
          ))}
        </Table>
      </details>
    </figure>
  );
}

/** Columns of uPlot with each slot of the span, or null for a slot without changes. `end` in seconds. */
function columnsOf(slots: readonly LatencySlot[], end: number, { slot, all }: Span): uPlot.AlignedData {
  const bySlot = new Map(slots.map((one) => [Math.floor(Date.parse(one.at) / 1000 / slot) * slot, one]));
  const times = Array.from({ length: all / slot + 1 }, (_, i) => end - all + i * slot);
  const column = (field: 'p50' | 'p99' | 'most') => times.map((time) => aboveZero(bySlot.get(time)?.[field]));
  return [times, column('p50'), column('p99'), column('most')];
}

function optionsOf(width: number, box: HTMLElement): uPlot.Options {
  const [text, grid] = [colourOf('--muted', box), colourOf('--line', box)];
  const axis = {
    stroke: text,
    font: '12px system-ui, sans-serif',
    grid: { stroke: grid, width: 1 },
    ticks: { show: false },
  };
  const value = (_plot: uPlot, given: number | null) => (given === null ? '–' : millisecondsText(given));
  const series = (label: string, colour: string, more: Partial<uPlot.Series>): uPlot.Series => {
    const stroke = colourOf(colour, box);
    return { label, stroke, value, width: 2, points: { show: true, size: 5, fill: stroke, stroke }, ...more };
  };
  return {
    width,
    height: HEIGHT,
    // Logarithmic, so that one slow change does not hide the others.
    scales: { y: { distr: 3, range: (_plot, least, most) => [powerBelow(least), powerAbove(most)] } },
    series: [
      { label: 'Time', value: '{HH}:{mm}:{ss}' },
      series('half within', '--chart-1', { fill: colourOf('--chart-fill', box) }),
      series('99 % within', '--chart-2', { dash: [6, 4] }),
      series('at most', '--chart-3', {
        width: 0,
        points: { show: true, size: 7, width: 2, fill: 'transparent', stroke: colourOf('--chart-3', box) },
      }),
    ],
    axes: [
      { ...axis, values: '{HH}:{mm}', space: 70, size: 28 },
      {
        ...axis,
        grid: { ...axis.grid, filter: powersAlone },
        size: 64,
        values: (_plot, splits) => splits.map((split) => (isPower(split) ? millisecondsText(split) : '')),
      },
    ],
    cursor: { y: false, points: { size: 8 } },
    legend: { markers: { width: 2, dash: (_plot, i) => DASHES[i] ?? 'solid', fill: () => 'transparent' } },
  };
}

/** A value for the logarithmic axis; null without a value. */
function aboveZero(value: number | undefined): number | null {
  return value === undefined ? null : Math.max(value, MIN_AXIS_MS);
}

/** The next lower power of ten of the lowest value, in milliseconds; null without values. */
function powerBelow(least: number | null): number {
  return 10 ** Math.floor(Math.log10(Math.max(least ?? 1, MIN_AXIS_MS)));
}

function powerAbove(most: number | null): number {
  return 10 ** Math.ceil(Math.log10(Math.max(most ?? 100, 10 * MIN_AXIS_MS) * 1.05));
}

/** A logarithmic axis has grid lines at powers of ten alone. */
function powersAlone(_plot: uPlot, splits: number[]): (number | null)[] {
  return splits.map((split) => (isPower(split) ? split : null));
}

function isPower(value: number): boolean {
  const power = Math.log10(value);
  return Math.abs(power - Math.round(power)) < 1e-9;
}
