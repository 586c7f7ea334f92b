/** Queries held against what agents and controllers serve. */
import assert from 'node:assert/strict';
import { agentText, controllerText, fleetText, MODES, seriesOf } from './metric-texts.ts';
import { askedBy } from './promql.ts';

export type Series = ReadonlyMap<string, ReadonlySet<string>>;

/** What Prometheus itself adds to the samples of a target that a PodMonitor names. */
const OF_TARGET = ['job', 'instance', 'namespace', 'pod', 'container', 'endpoint'];
const OF_PROMETHEUS: Series = new Map([
  ['up', new Set()],
  ['ALERTS', new Set(['alertname', 'alertstate'])],
]);

/** The agents' series by mode, the controller's and the fleet's. */
export function allSeries(): Promise<ReadonlyMap<string, Series>> {
  found ??= readAll();
  return found;
}

let found: ReturnType<typeof readAll> | undefined;

async function readAll(): Promise<ReadonlyMap<string, Series>> {
  const texts = await Promise.all(
    MODES.map(async (mode) => [mode as string, seriesOf(await agentText(mode))] as const),
  );
  const others = [
    ['controller', seriesOf(await controllerText())],
    ['fleet', seriesOf(await fleetText())],
  ] as const;
  return new Map([...texts, ...others]);
}

/** Fails when the query names a metric or a label that these series do not have. */
export function mustExist(query: string, of: Series): void {
  const { selectors, grouping } = askedBy(query);
  const labels = new Set(OF_TARGET);
  for (const { metric, labels: matched } of selectors) {
    const known = of.get(metric) ?? OF_PROMETHEUS.get(metric) ?? assert.fail(`${metric} is no metric: ${query}`);
    for (const label of known) labels.add(label);
    for (const label of matched)
      assert.ok(known.has(label) || OF_TARGET.includes(label), `${metric} has no label ${label}: ${query}`);
  }
  for (const label of grouping) assert.ok(labels.has(label), `no metric has the label ${label}: ${query}`);
}
