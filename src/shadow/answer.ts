/** Makes the answer of a shadow from its findings. Pure. */
import type { Latency } from '../base/latencies.ts';
import { API_VERSION, momentOf } from '../inspect/wire/envelope.ts';
import { type Shadow, shadowSchema } from '../inspect/wire/shadow.ts';
import type { Findings } from './findings.ts';

const MAX_LISTED = 1000;

export interface ShadowFacts
  extends Pick<Shadow, 'by' | 'pid' | 'startedAt' | 'source' | 'heard' | 'objects' | 'cost'> {
  readonly findings: Findings;
  readonly sight: Shadow['latency']['sight'];
  /** The clock of the findings. */
  readonly now: number;
  /** Milliseconds since 1970 when that clock was 0. */
  readonly wallAtZero: number;
}

export function shadowOf({ findings, sight, now, wallAtZero, ...facts }: ShadowFacts): Shadow {
  const { differences, programming, planned, round, plan, problem } = findings;
  const at = (time: number) => momentOf(wallAtZero + time);
  const latency = (one: Latency | undefined) => (one === undefined ? null : { ...one, since: at(one.since) });
  const waiting = programming.waiting();
  const listed = differences.all.slice(0, MAX_LISTED);
  return {
    ...{ apiVersion: API_VERSION, kind: shadowSchema.shape.kind.value, ...facts },
    problem: problem ?? '',
    compared:
      round === undefined
        ? null
        : { at: at(round.at), connections: round.connections, milliseconds: round.milliseconds },
    differences: listed.map(({ since, ...one }) => ({ ...one, since: at(since) })),
    count: differences.count,
    onPurpose: [...(round?.onPurpose ?? [])],
    onPurposeCount: round?.onPurposeCount ?? 0,
    waiting: { services: waiting.services, oldest: waiting.oldest === undefined ? null : at(waiting.oldest) },
    latency: {
      theirs: latency(programming.latencies.summary(now)),
      plan: latency(planned.summary(now)),
      sight,
      unmeasured: programming.unmeasured,
    },
    change: plan === undefined ? null : { ...plan, at: at(plan.at), connections: plan.connections ?? null },
  };
}
