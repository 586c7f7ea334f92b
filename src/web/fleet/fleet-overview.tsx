/** The view of the fleet: the nodes that lack changes, and the latency of the last hour. */
import { useMemo } from 'preact/hooks';
import type { FleetLive } from '../../inspect/wire/fleet.ts';
import { FLEET_RECENT } from '../../inspect/wire/fleet-delta.ts';
import { countText, millisecondsText, numberText, timeBetween } from '../../inspect/wire/format.ts';
import { Card, Empty, Fact, Sign, Verbatim } from '../bits.tsx';
import { LatencyChart } from '../chart.tsx';
import { type Filter, linkTo, shownBy, toggled, useFilter } from './filter.ts';
import { countsOf, type LevelStyle, LOOKS, NODE_STATES, programmingText, signOfFleet } from './fleet-text.ts';
import { NodeMap } from './map.tsx';
import { BehindList, Kinds, OneNode, Slowest, Troubles } from './parts.tsx';

const SPAN = { slot: 60, all: FLEET_RECENT / 1000 } as const;

interface OverviewProps {
  readonly live: FleetLive;
  /** The fleet's time in milliseconds since 1970. */
  readonly now: number;
  readonly theme: string;
}

export function FleetOverview({ live, now, theme }: OverviewProps) {
  const [filter, setFilter] = useFilter();
  const passed = Math.max(0, now - Date.parse(live.at));
  const at = new Date(now).toISOString();
  const linkOf = (node: string) => linkTo({ ...filter, node });
  const { node } = filter;
  const slots = useMemo(
    () => live.minutes.map(({ count, ...times }) => ({ ...times, changes: count })),
    [live.minutes],
  );
  return (
    <>
      <Sentence live={live} passed={passed} />
      <Facts live={live} at={at} />
      <Nodes {...{ live, passed, theme, filter, setFilter }} />
      {node !== '' && (
        <OneNode
          name={node}
          node={live.nodes.find(({ name }) => name === node)}
          passed={passed}
          onClose={() => setFilter({ ...filter, node: '' })}
        />
      )}
      <Card title="From change to kernel, over all nodes">
        <LatencyChart slots={slots} caption={programmingText(live.latency, at)} span={SPAN} now={now} theme={theme} />
      </Card>
      <BehindList nodes={live.nodes} passed={passed} linkOf={linkOf} />
      <Slowest slowest={live.slowest} now={at} linkOf={linkOf} />
      <div class="pair">
        <Troubles nodes={live.nodes} linkOf={linkOf} />
        <Kinds nodes={live.nodes} />
      </div>
    </>
  );
}

function Sentence({ live, passed }: { readonly live: FleetLive; readonly passed: number }) {
  const kind = signOfFleet(live.nodes, passed);
  return (
    <section class={`health ${kind}`} aria-label="The fleet">
      <Sign kind={kind} />
      <h1 class="sentence" data-testid="sentence">
        <Verbatim>{live.sentence}</Verbatim>
      </h1>
    </section>
  );
}

function Facts({ live, at }: { readonly live: FleetLive; readonly at: string }) {
  const { latency, waiting, drained } = live;
  return (
    <dl class="facts even">
      <Fact name="Nodes">{numberText(live.nodes.length)}</Fact>
      <Fact name="99 % of changes within">{latency === null ? '–' : millisecondsText(latency.p99)}</Fact>
      <Fact name="Drains that wait">
        <span data-testid="waiting">{numberText(waiting)}</span>
      </Fact>
      <Fact name="Drains answered">{`${numberText(drained.yes)} in time, ${numberText(drained.late)} late`}</Fact>
      <Fact name="Running for">{timeBetween(live.startedAt, at)}</Fact>
      <Fact name="Source">
        <Verbatim>{live.source}</Verbatim>
      </Fact>
    </dl>
  );
}

interface NodesProps {
  readonly live: FleetLive;
  readonly passed: number;
  readonly theme: string;
  readonly filter: Filter;
  readonly setFilter: (filter: Filter) => void;
}

function Nodes({ live: { nodes }, passed, theme, filter, setFilter }: NodesProps) {
  const shown = useMemo(() => shownBy(filter, nodes), [nodes, filter]);
  const counts = useMemo(() => countsOf(nodes), [nodes]);
  return (
    <Card title="Nodes" class="nodes">
      <div class="search">
        <input
          id="search"
          type="search"
          value={filter.name}
          aria-label="Search nodes by name"
          placeholder="Name of a node, or a part of it"
          autocomplete="off"
          spellcheck={false}
          maxLength={253}
          onInput={(event) => setFilter({ ...filter, name: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key !== 'ArrowDown' && event.key !== 'Enter') return;
            event.preventDefault();
            document.getElementById('map')?.focus();
          }}
        />
        <p role="status" class="count">
          {shown.length === nodes.length
            ? countText(nodes.length, 'node')
            : `${numberText(shown.length)} of ${countText(nodes.length, 'node')}`}
        </p>
      </div>
      <fieldset class="states">
        <legend class="hidden">Show only nodes that are</legend>
        {NODE_STATES.map((state) => (
          <button
            key={state}
            type="button"
            aria-pressed={filter.states.includes(state)}
            onClick={() => setFilter(toggled(filter, state))}
          >
            {LOOKS.filter((look) => look.state === state && look.level !== 'unwell').map((look) => (
              <Swatch key={look.level} look={look} />
            ))}
            {state} <b>{numberText(counts.get(state) ?? 0)}</b>
          </button>
        ))}
      </fieldset>
      {nodes.length === 0 && <Empty>The fleet knows no node with an agent yet.</Empty>}
      {nodes.length > 0 && shown.length === 0 && <Empty>No node fits this filter.</Empty>}
      <NodeMap nodes={shown} passed={passed} theme={theme} onChoose={(node) => setFilter({ ...filter, node })} />
      <details>
        <summary>The meaning of the cells</summary>
        <ul class="key">
          {LOOKS.map((look) => (
            <li key={look.level}>
              <Swatch look={look} /> {look.name}
            </li>
          ))}
        </ul>
      </details>
    </Card>
  );
}

/** A cell as the map draws it. */
function Swatch({ look: { level, mark, isFilled } }: { readonly look: LevelStyle }) {
  const box = isFilled ? { x: 0, y: 0, width: 16, height: 16 } : { x: 0.75, y: 0.75, width: 14.5, height: 14.5 };
  return (
    <svg class={`swatch ${level.replace(' ', '-')}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <rect {...box} rx="2.5" />
      <path d={mark} />
    </svg>
  );
}
