/** The alerts and the metrics by Prometheus' own program: each alert fires when it should, and is quiet otherwise. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ALERT_CASES, type AlertCase, OF_KUBE_PROMETHEUS } from '../helpers/telemetry/alert-cases.ts';
import { agentText, controllerText, MODES } from '../helpers/telemetry/metric-texts.ts';
import { alertsOf, groupsOf, PARTS } from '../helpers/telemetry/monitoring.ts';
import { OF_UPSTREAM, promtool } from '../helpers/telemetry/promtool.ts';

let folder = '';
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'promtool-'));
});
after(() => rmSync(folder, { recursive: true }));

/** JSON is YAML. */
function write(name: string, content: object): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(content));
  return path;
}

function rulesFile(): string {
  return write('rules.yaml', { groups: [...PARTS.flatMap(groupsOf), OF_KUBE_PROMETHEUS] });
}

/** A file of `promtool test rules`: the alert fires for these labels after that time, or for none. */
function testOf({ alert, series, at, fires }: AlertCase): object {
  const described = [...PARTS.flatMap(alertsOf), ...OF_KUBE_PROMETHEUS.rules].find((one) => one.alert === alert);
  const exp_alerts = fires.map(({ description, labels }) => {
    assert.ok(described !== undefined, alert);
    const { summary, runbook_url } = described.annotations;
    const exp_annotations = { summary, description, ...(runbook_url === undefined ? {} : { runbook_url }) };
    return { exp_labels: { ...described.labels, ...labels }, exp_annotations };
  });
  return {
    rule_files: ['rules.yaml'],
    evaluation_interval: '30s',
    tests: [
      {
        interval: '30s',
        input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
        alert_rule_test: [{ eval_time: at, alertname: alert, exp_alerts }],
      },
    ],
  };
}

describe('promtool', () => {
  it('takes the rules without a complaint', async () => {
    const { exitCode, stdout, stderr } = await promtool(['check', 'rules', '--lint-fatal', rulesFile()]);
    assert.equal(exitCode, 0, stdout + stderr);
  });

  it('has a case that fires and one that does not, for each alert', () => {
    const alerts = PARTS.flatMap(alertsOf);
    assert.ok(alerts.length > 10, `${alerts.length} alerts`);
    for (const { alert } of alerts) {
      const cases = ALERT_CASES.filter((one) => one.alert === alert);
      assert.ok(
        cases.some(({ fires }) => fires.length > 0),
        `${alert} never fires`,
      );
      assert.ok(
        cases.some(({ fires }) => fires.length === 0),
        `${alert} always fires`,
      );
    }
  });

  for (const one of ALERT_CASES) {
    it(`${one.alert}: ${one.name}`, async () => {
      rulesFile();
      const { exitCode, stdout, stderr } = await promtool(['test', 'rules', write('test.yaml', testOf(one))]);
      assert.equal(exitCode, 0, stdout + stderr);
    });
  }

  for (const [name, text] of [
    ...MODES.map((mode) => [`an agent in ${mode} mode`, () => agentText(mode)] as const),
    ['a controller', controllerText] as const,
  ]) {
    it(`reads the metrics of ${name}`, async () => {
      const { stdout, stderr } = await promtool(['check', 'metrics'], await text());
      assert.equal(stdout, '');
      const complaints = stderr.split('\n').filter((line) => line !== '');
      assert.deepEqual(
        complaints.filter((line) => !OF_UPSTREAM.includes(line)),
        [],
      );
    });
  }
});
