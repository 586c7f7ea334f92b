/** deploy/monitoring and deploy/grafana: what they ask of Prometheus exists, and what they promise is there. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { agentText, controllerText, MODES, seriesOf } from '../helpers/metric-texts.ts';
import { type Alert, alertsOf, fileOf, PARTS, type Part } from '../helpers/monitoring.ts';
import { askedBy } from '../helpers/promql.ts';
import { anchorsIn } from '../helpers/semantics.ts';

type Series = ReadonlyMap<string, ReadonlySet<string>>;

/** What Prometheus itself adds to the samples of a target that a PodMonitor names. */
const OF_TARGET = ['job', 'instance', 'namespace', 'pod', 'container', 'endpoint'];
const OF_PROMETHEUS: Series = new Map([['up', new Set()]]);

/** The agents' series by mode, and the controller's. */
async function allSeries(): Promise<ReadonlyMap<string, Series>> {
  const texts = await Promise.all(
    MODES.map(async (mode) => [mode as string, seriesOf(await agentText(mode))] as const),
  );
  return new Map([...texts, ['controller', seriesOf(await controllerText())]]);
}

/** Fails when the query names a metric or a label that these series do not have. */
function mustExist(query: string, of: Series): void {
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

describe('a check of queries', () => {
  it('refuses metrics and labels that do not exist, and what is no PromQL', async () => {
    const series = (await allSeries()).get('nftables') ?? assert.fail();
    mustExist('sum by (le) (rate(slicewire_apply_duration_seconds_bucket{job="a"}[5m]))', series);
    for (const wrong of [
      'slicewire_no_such_metric > 0',
      'slicewire_ready{kind="a"}',
      'sum by (kind) (slicewire_ready)',
      'rate(slicewire_apply_duration_seconds[5m])',
      'slicewire_ready{',
      '{job="a"}',
    ])
      assert.throws(() => mustExist(wrong, series), wrong);
  });
});

const JOBS: Readonly<Record<Part, string>> = { agent: 'kube-proxy', controller: 'slicewire-controller' };
const RUNBOOK = 'https://docs.example/slicewire/operations.md#';

for (const part of PARTS) {
  describe(`the alerts of deploy/monitoring/${part}`, () => {
    const alerts = alertsOf(part);
    const each = (check: (alert: Alert) => void) => {
      assert.ok(alerts.length > 0);
      for (const alert of alerts) check(alert);
    };

    it('ask for metrics and labels that there are, in every mode', async () => {
      for (const [of, series] of await allSeries()) {
        if ((of === 'controller') === (part === 'controller')) each(({ expr }) => mustExist(expr, series));
      }
    });

    it('ask for the job of the PodMonitor in each selector', () => {
      each(({ expr }) => {
        for (const { labels } of askedBy(expr).selectors) assert.ok(labels.includes('job'), expr);
        for (const [, job] of expr.matchAll(/job="([^"]*)"/g)) assert.equal(job, JOBS[part]);
      });
    });

    it('wait for some minutes, and have names of their own', () => {
      each((alert) => assert.match(alert.for, /^([5-9]|1\d)m$/, alert.alert));
      assert.equal(new Set(alerts.map(({ alert }) => alert)).size, alerts.length);
    });

    it('say what is wrong in sentences, and where: with labels that the result has', () => {
      each(({ expr, annotations: { summary, description } }) => {
        for (const text of [summary, description]) assert.match(text, /^[A-Z].*\.$/);
        const labels = [...description.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label ?? '');
        assert.ok(labels.every((label) => label === 'instance'));
        // Only an aggregation by other labels would lose it.
        if (labels.length > 0) assert.doesNotMatch(expr, /absent\(|by \((?![^)]*\binstance\b)/);
      });
    });

    it('lead to a section of docs/operations.md that says what to do', () => {
      const manual = fileOf('docs/operations.md');
      const anchors = anchorsIn(manual);
      each(({ alert, annotations: { runbook_url: url } }) => {
        assert.equal(url, `${RUNBOOK}${alert.toLowerCase()}`);
        assert.ok(anchors.has(alert.toLowerCase()), `docs/operations.md has no section ${alert}`);
        const [, section = ''] = new RegExp(`^### ${alert}\\n(.*?)^##`, 'ms').exec(manual) ?? [];
        for (const word of ['**Meaning.**', '**What follows.**', '**Look at.**', '**What to do.**'])
          assert.ok(section.includes(word), `${alert} has no ${word}`);
      });
    });
  });
}
