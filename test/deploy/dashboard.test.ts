/** deploy/grafana/slicewire.json: each query is PromQL and asks for what there is, and the panels are whole. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { z } from 'zod';
import { fileOf } from '../helpers/telemetry/monitoring.ts';
import { askedBy } from '../helpers/telemetry/promql.ts';
import { allSeries, mustExist, type Series } from '../helpers/telemetry/queries.ts';

const panelForm = z.looseObject({
  id: z.number(),
  type: z.enum(['row', 'stat', 'timeseries', 'heatmap']),
  title: z.string().min(1),
  description: z.string().optional(),
  gridPos: z.strictObject({ h: z.number(), w: z.number(), x: z.number(), y: z.number() }),
  targets: z.array(z.looseObject({ refId: z.string(), expr: z.string(), legendFormat: z.string() })).optional(),
});
const form = z.looseObject({
  templating: z.looseObject({ list: z.array(z.looseObject({ name: z.string(), query: z.string() })) }),
  panels: z.array(panelForm).min(1),
});

const TEXT = fileOf('deploy/grafana/slicewire.json');
const { panels, templating } = form.parse(JSON.parse(TEXT));
const charts = panels.filter(({ type }) => type !== 'row');
const targets = charts.flatMap(({ title, targets: all = [] }) => all.map((target) => ({ title, ...target })));
const variables = templating.list.map(({ name }) => name);

/** What Grafana sends to Prometheus: variables in strings stay as they are, which is a string too. */
function sent(expr: string): string {
  return expr.replaceAll('$__rate_interval', '5m');
}

/** Parts beside the agent, which are the variables of their jobs too. */
const OTHERS: readonly string[] = ['controller', 'fleet'];

/** The series of all agents, whatever their mode, of the controllers, or of the fleet. */
async function seriesBehind(expr: string): Promise<Series> {
  const all = await allSeries();
  for (const part of OTHERS) if (expr.includes(`$${part}`)) return all.get(part) ?? assert.fail(part);
  return new Map([...all].filter(([of]) => !OTHERS.includes(of)).flatMap(([, series]) => [...series]));
}

describe('the dashboard', () => {
  it('asks for metrics and labels that agents of some mode have, controllers, or the fleet', async () => {
    assert.ok(targets.length > 40);
    for (const { expr } of targets) mustExist(sent(expr), await seriesBehind(expr));
    for (const { name, query } of templating.list) {
      const [, selector = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(query) ?? [];
      if (name === 'datasource') continue;
      mustExist(`sum by (${label}) (${selector})`, await seriesBehind(OTHERS.includes(name) ? `$${name}` : ''));
    }
  });

  it('asks in each selector for the chosen jobs and nodes, with variables that there are', () => {
    assert.ok(targets.length > 40 && variables.length > 3, `${targets.length} targets, ${variables.length} variables`);
    for (const { expr } of targets) {
      const { selectors } = askedBy(sent(expr));
      assert.notEqual(selectors.length, 0, expr);
      for (const { metric, labels } of selectors) assert.ok(metric === 'ALERTS' || labels.includes('job'), expr);
      for (const [, name = ''] of expr.replaceAll('$__rate_interval', '').matchAll(/\$(\w+)/g))
        assert.ok(variables.includes(name), `${expr}: there is no variable ${name}`);
    }
    for (const name of variables) assert.ok(TEXT.includes(`$${name}`) || TEXT.includes(`$\{${name}}`), name);
  });

  it('names curves by labels that the result has', async () => {
    let named = 0;
    for (const { expr, legendFormat } of targets) {
      const { selectors, grouping } = askedBy(sent(expr));
      const series = await seriesBehind(expr);
      const [{ metric } = assert.fail()] = selectors;
      const isWhole = !/\b(?:sum|max|min|count|histogram_quantile)\b/.test(expr);
      const has = new Set(isWhole ? [...(series.get(metric) ?? []), 'instance', 'job'] : grouping);
      for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
        assert.ok(has.has(label), `${expr}: the result has no label ${label}`);
        named += 1;
      }
    }
    assert.ok(named > 20, `${named} curves are named by a label`);
  });

  it('shows each metric of agents and fleet that is slicewire’s or kube-proxy’s', async () => {
    const shown = new Set(targets.flatMap(({ expr }) => askedBy(sent(expr)).selectors.map(({ metric }) => metric)));
    const base = (name: string) => name.replace(/_(?:bucket|sum|count)$/, '');
    const bases = new Set([...shown].map(base));
    const missing = [...(await seriesBehind('')).keys(), ...(await seriesBehind('$fleet')).keys()]
      .filter((name) => /^(?:slicewire|kubeproxy)_/.test(name))
      .filter((name) => !shown.has(name) && !bases.has(base(name)));
    assert.deepEqual(missing, []);
  });

  it('explains each panel, and has room for it', () => {
    for (const { title, description = '', targets: all = [], gridPos } of charts) {
      assert.match(description, /^[A-Z0-9].*\.$/, title);
      assert.ok(all.length > 0, title);
      assert.equal(new Set(all.map(({ refId }) => refId)).size, all.length, title);
      assert.ok(gridPos.x >= 0 && gridPos.x + gridPos.w <= 24, title);
    }
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    for (const [i, { gridPos: a, title }] of panels.entries()) {
      for (const { gridPos: b, title: other } of panels.slice(i + 1)) {
        const isApart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
        assert.ok(isApart, `${title} lies over ${other}`);
      }
    }
  });
});
