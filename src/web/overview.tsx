/** The first view: the health of this node, and the events of the last 15 minutes. */

import { clockTime, numberText, timeBetween } from '../inspect/wire/format.ts';
import type { Live } from '../inspect/wire/live.ts';
import { lostText } from '../inspect/wire/status-text.ts';
import { driftText } from '../proxy/model/drift.ts';
import { Card, Empty, Fact, FaultList, Sign, State, Table, Verbatim } from './bits.tsx';
import { LatencyChart } from './chart.tsx';
import { LOOK_BACK_MS, latencyText, sentenceText, signOfHealth } from './page-text.ts';
import { linkTo } from './routes.ts';
import { Timeline } from './timeline.tsx';

const SPAN = { slot: 15, all: LOOK_BACK_MS / 1000 } as const;

interface OverviewProps {
  readonly live: Live;
  /** The agent's time in milliseconds since 1970. */
  readonly now: number;
  readonly theme: string;
}

export function Overview({ live, now, theme }: OverviewProps) {
  const at = new Date(now).toISOString();
  return (
    <>
      <Health live={live} at={at} />
      <Facts live={live} at={at} />
      <Card title="From event to kernel">
        <LatencyChart slots={live.latency} caption={latencyText(live.latency)} span={SPAN} now={now} theme={theme} />
      </Card>
      <Card title="Syncs">
        <Timeline syncs={live.syncs} now={now} />
      </Card>
      <div class="pair">
        <Faults live={live} />
        <Drift live={live} at={at} />
      </div>
      <Heard live={live} at={at} />
    </>
  );
}

function Health({ live, at }: { readonly live: Live; readonly at: string }) {
  const kind = signOfHealth(live);
  return (
    <section class={`health ${kind}`} aria-label="Health">
      <Sign kind={kind} />
      <div>
        <h1 class="sentence" data-testid="sentence">
          <Verbatim>{sentenceText(live, at)}.</Verbatim>
        </h1>
        {live.health.reasons.length > 0 && (
          <ul class="reasons">
            {live.health.reasons.map((reason) => (
              <li key={reason}>
                <Verbatim>{reason}</Verbatim>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

function Facts({ live, at }: { readonly live: Live; readonly at: string }) {
  return (
    <dl class="facts">
      <Fact name="Services" link={linkTo({ view: 'services', search: '' })}>
        {numberText(live.objects.services)}
      </Fact>
      <Fact name="EndpointSlices">{numberText(live.objects.slices)}</Fact>
      <Fact name="Mode">
        {live.by.mode}
        {live.by.modeReason !== undefined && <Verbatim>{` (auto: ${live.by.modeReason})`}</Verbatim>}
      </Fact>
      <Fact name="Running for">{live.startedAt === null ? 'unknown' : timeBetween(live.startedAt, at)}</Fact>
      <Fact name="Source">
        <Verbatim>{live.source}</Verbatim>
      </Fact>
    </dl>
  );
}

function Faults({ live: { faults, refused } }: { readonly live: Live }) {
  const count = faults.length + refused.length;
  return (
    <Card
      title="Faults"
      aside={count > 0 ? <State kind="warn">{count >= 100 ? '100 or more' : String(count)}</State> : undefined}
    >
      {count === 0 && <Empty>No object is set aside, and the kernel refuses no Service.</Empty>}
      {refused.length > 0 && (
        <ul class="list" aria-label="Services that the kernel refuses">
          {refused.map(({ service, cause }) => (
            <li key={service}>
              <State kind="bad">refused by the kernel</State>
              <a href={linkTo({ view: 'service', name: service })}>
                <Verbatim>{service}</Verbatim>
              </a>
              <Verbatim>{cause}</Verbatim>
            </li>
          ))}
        </ul>
      )}
      {faults.length > 0 && <FaultList faults={faults} />}
    </Card>
  );
}

function Drift({ live: { drift }, at }: { readonly live: Live; readonly at: string }) {
  return (
    <Card
      title="Changes by other programs"
      aside={drift.length > 0 ? <State kind="warn">{String(drift.length)}</State> : undefined}
    >
      {drift.length === 0 && <Empty>No other program changed what the agent keeps in the kernel.</Empty>}
      <ul class="list">
        {drift.toReversed().map((one) => (
          <li key={`${one.at} ${driftText(one)}`}>
            <span class="when">{clockTime(one.at, at)}</span>
            <span class="who">
              by <Verbatim class="strong">{one.by === '' ? 'an unknown program' : one.by}</Verbatim>
            </span>
            <Verbatim>{driftText(one)}</Verbatim>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Heard({ live, at }: { readonly live: Live; readonly at: string }) {
  if (live.heard.length === 0) return null;
  return (
    <Card title="Heard from the source">
      <Table label="The last message for each kind of object" heads={['Objects', 'Last message', 'State']}>
        {live.heard.map((one) => (
          <tr key={one.of}>
            <td>
              <Verbatim>{one.of}</Verbatim>
            </td>
            <td class="number">{one.at === null ? 'never' : `${timeBetween(one.at, at)} ago`}</td>
            <td class="wide">
              {one.lost === null ? (
                <State kind="ok">followed</State>
              ) : (
                <State kind="warn">
                  <Verbatim>{lostText(one.lost)}</Verbatim>
                </State>
              )}
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
