/** Syncs of the last 15 minutes: a lane for each trigger, a mark for each sync, and a table of the latest ones. */
import { useState } from 'preact/hooks';
import { clockTime, countText, firstOf, millisecondsText, numberText } from '../inspect/wire/format.ts';
import type { RecordedSync } from '../inspect/wire/history.ts';
import { triggerText } from '../inspect/wire/status-text.ts';
import { Empty, State, Table, Verbatim } from './bits.tsx';
import { useWidth } from './hooks.ts';
import { LOOK_BACK_MS, signOfOutcome, syncsText } from './page-text.ts';
import { linkTo } from './routes.ts';

const LANE_HEIGHT = 30;
const AXIS_HEIGHT = 22;
/** Rows of the table at first. */
const FIRST_ROWS = 8;
const MARKS = { complete: 'M0-5a5 5 0 1 0 .01 0z', partial: 'M0-6 6 5H-6z', failed: 'M-5-5 5 5M5-5-5 5' } as const;

interface TimelineProps {
  readonly syncs: readonly RecordedSync[];
  /** The agent's time in milliseconds since 1970. */
  readonly now: number;
}

export function Timeline({ syncs, now }: TimelineProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [isLong, setLong] = useState(false);
  const shown = syncs.toReversed().slice(0, isLong ? undefined : FIRST_ROWS);
  return (
    <>
      <p class="caption">{syncsText([...syncs])}</p>
      <div ref={box} class="lanes">
        {width > 0 && syncs.length > 0 && <Lanes syncs={syncs} now={now} width={width} />}
      </div>
      {syncs.length === 0 ? (
        <Empty>The agent syncs when an object changes, and from time to time without a change.</Empty>
      ) : (
        <Table label="The latest syncs" heads={['Time', 'Outcome', 'Trigger', 'Changes', 'Steps', 'Took', 'Services']}>
          {shown.map((sync) => (
            <Row key={sync.number} sync={sync} now={new Date(now).toISOString()} />
          ))}
        </Table>
      )}
      {syncs.length > FIRST_ROWS && (
        <button type="button" class="quiet" onClick={() => setLong(!isLong)} aria-expanded={isLong}>
          {isLong ? 'Show the latest alone' : `Show all ${syncs.length}`}
        </button>
      )}
    </>
  );
}

function Row({ sync, now }: { readonly sync: RecordedSync; readonly now: string }) {
  return (
    <>
      <tr>
        <td class="number">{clockTime(sync.at, now)}</td>
        <td>
          <State kind={signOfOutcome(sync.outcome)}>{sync.outcome}</State>
        </td>
        <td>
          <Verbatim>{triggerText(sync)}</Verbatim>
        </td>
        <td class="number">{numberText(sync.changes)}</td>
        <td class="number">{numberText(sync.steps)}</td>
        <td class="number">{millisecondsText(sync.milliseconds.all)}</td>
        <td class="wide">
          {sync.services.length === 0 && <span class="muted">–</span>}
          {sync.services.slice(0, 3).map((name) => (
            <a key={name} class="chip" href={linkTo({ view: 'service', name })}>
              {name}
            </a>
          ))}
          {sync.services.length > 3 && <span class="muted">and more</span>}
        </td>
      </tr>
      {sync.failed.map((text) => (
        <tr key={text} class="detail">
          <td />
          <td colSpan={6}>
            <Verbatim>{text}</Verbatim>
          </td>
        </tr>
      ))}
    </>
  );
}

function Lanes({ syncs, now, width }: TimelineProps & { readonly width: number }) {
  const lanes = [...new Set(syncs.map(({ trigger }) => trigger))].sort();
  const left = width < 520 ? 92 : 156;
  const room = width - left - 10;
  const height = lanes.length * LANE_HEIGHT + AXIS_HEIGHT;
  const at = (time: number) => left + (1 - (now - time) / LOOK_BACK_MS) * room;
  const minutes = width < 520 ? [15, 0] : [15, 10, 5, 0];
  return (
    <svg
      width={width}
      height={height}
      role="img"
      aria-label={`${syncsText([...syncs])} Triggers: ${firstOf(lanes, 6)}.`}
    >
      {minutes.map((ago) => (
        <g key={ago}>
          <path class="grid" d={`M${at(now - ago * 60_000)} 0V${height - AXIS_HEIGHT + 2}`} />
          <text
            class="tick"
            x={at(now - ago * 60_000)}
            y={height - 4}
            text-anchor={ago === 0 ? 'end' : ago === 15 ? 'start' : 'middle'}
          >
            {ago === 0 ? 'now' : `${ago} min ago`}
          </text>
        </g>
      ))}
      {lanes.map((lane, i) => (
        <g key={lane}>
          <text class="lane" x="0" y={i * LANE_HEIGHT + LANE_HEIGHT / 2 + 4}>
            <title>{lane}</title>
            {lane.length > left / 7 ? `${lane.slice(0, Math.floor(left / 7) - 1)}…` : lane}
          </text>
          <path class="grid" d={`M${left} ${i * LANE_HEIGHT + LANE_HEIGHT / 2}H${width - 10}`} />
        </g>
      ))}
      {syncs.map((sync) => (
        <path
          key={sync.number}
          class={`mark ${signOfOutcome(sync.outcome)}`}
          d={MARKS[sync.outcome]}
          transform={`translate(${Math.max(left, at(Date.parse(sync.at)))} ${lanes.indexOf(sync.trigger) * LANE_HEIGHT + LANE_HEIGHT / 2})`}
        >
          <title>{`${clockTime(sync.at, sync.at)}: ${triggerText(sync)}, ${countText(sync.changes, 'change')}, ${sync.outcome}, ${millisecondsText(sync.milliseconds.all)}`}</title>
        </path>
      ))}
    </svg>
  );
}
