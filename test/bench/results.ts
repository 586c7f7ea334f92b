/** docs/benchmarks.json: the figures of each part, and when, where and of what they were measured. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Measured } from '../reliability/machine.ts';
import type { DriftResult } from './drift.ts';
import type { ExplainResult } from './explain.ts';
import type { FlowsMeasured } from './flows-inside.ts';
import type { LiveResult } from './live.ts';
import type { ModesResult } from './modes.ts';
import type { ProducersResult } from './producers.ts';
import type { ProxiesResult } from './proxies.ts';
import type { RecorderResult } from './recorder.ts';
import type { TrafficResult } from './traffic.ts';

export const DATA = new URL('../../docs/benchmarks.json', import.meta.url);

/** The figures of each part, by the word that `npm run bench` takes for it. */
export interface Figures {
  readonly proxies: ProxiesResult;
  /** Clusters that a real API server does not take within hours. */
  readonly largest: ProxiesResult;
  readonly traffic: TrafficResult;
  readonly modes: ModesResult;
  readonly flows: readonly FlowsMeasured[];
  readonly producers: readonly ProducersResult[];
  readonly explain: readonly ExplainResult[];
  readonly recorder: readonly RecorderResult[];
  readonly live: readonly LiveResult[];
  readonly drift: readonly DriftResult[];
}

export type PartName = keyof Figures;

export interface Part<T> extends Measured {
  /** The API server beside it: `made up`, or the versions of a real one. */
  readonly server: string;
  readonly figures: T;
}

export type Results = { readonly [Name in PartName]: Part<Figures[Name]> };

/** The parts that were ever measured. */
export function readResults(): Partial<Results> {
  return existsSync(DATA) ? (JSON.parse(readFileSync(DATA, 'utf8')) as Partial<Results>) : {};
}

export function writeResults(results: Partial<Results>): void {
  // Tenths of a microsecond are noise.
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Math.round(value * 1e4) / 1e4 : value);
  writeFileSync(DATA, `${JSON.stringify(results, rounded)}\n`);
}
