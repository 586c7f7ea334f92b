/** The first view: is this node well, and what happened in the last 15 minutes. */

import type { ComponentChildren } from 'preact';
import { clockTime, numberText, timeBetween } from '../inspect/wire/format.ts';
import type { Live } from '../inspect/wire/live.ts';
import { lostText } from '../inspect/wire/status-text.ts';
import { driftText } from '../proxy/model/drift.ts';
import { Card, Empty, FaultList, Said, Sign, State, Table } from './bits.tsx';
import { LatencyChart } from './chart.tsx';
import { latencyText, sentenceText, signOfHealth } from './page-text.ts';
import { linkTo } from './routes.ts';
import { LOOK_BACK } from './stream.ts';
import { Timeline } from './timeline.tsx';

const SPAN = { slot: 15, all: LOOK_BACK / 1000 } as const;

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
        <LatencyChart slots={live.latency} said={latencyText(live.latency)} span={SPAN} now={now} theme={theme} />
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
          <Said>{sentenceText(live, at)}.</Said>
        </h1>
        {live.health.reasons.length > 0 && (
          <ul class="reasons">
            {live.health.reasons.map((reason) => (
              <li key={reason}>
                <Said>{reason}</Said>
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
        {live.by.modeReason !== undefined && <Said>{` (auto: ${live.by.modeReason})`}</Said>}
      </Fact>
      <Fact name="Running for">{live.startedAt === null ? 'unknown' : timeBetween(live.startedAt, at)}</Fact>
      <Fact name="Source">
        <Said>{live.source}</Said>
      </Fact>
    </dl>
  );
}

function Fact({
  name,
  link,
  children,
}: {
  readonly name: string;
  readonly link?: string;
  readonly children: ComponentChildren;
}) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{link === undefined ? children : <a href={link}>{children}</a>}</dd>
    </div>
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
                <Said>{service}</Said>
              </a>
              <Said>{cause}</Said>
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
              by <Said class="strong">{one.by === '' ? 'an unknown program' : one.by}</Said>
            </span>
            <Said>{driftText(one)}</Said>
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
              <Said>{one.of}</Said>
            </td>
            <td class="number">{one.at === null ? 'never' : `${timeBetween(one.at, at)} ago`}</td>
            <td class="wide">
              {one.lost === null ? (
                <State kind="ok">followed</State>
              ) : (
                <State kind="warn">
                  <Said>{lostText(one.lost)}</Said>
                </State>
              )}
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
