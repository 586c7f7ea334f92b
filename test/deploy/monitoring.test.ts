/** deploy/monitoring: what they ask of Prometheus exists, and what they promise is there. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { controllerConfig } from '../../src/config/controller-config.ts';
import { camel, type Flags } from '../../src/config/flags.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { kustomize, NO_KUBECTL, type ObjectOf } from '../helpers/deploy/deployed.ts';
import { anchorsIn } from '../helpers/docs/semantics.ts';
import { MODES } from '../helpers/telemetry/metric-texts.ts';
import { type Alert, alertsOf, fileOf, PARTS, type Part } from '../helpers/telemetry/monitoring.ts';
import { askedBy } from '../helpers/telemetry/promql.ts';
import { allSeries, mustExist } from '../helpers/telemetry/queries.ts';

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

const JOBS: Readonly<Record<Part, string>> = {
  agent: 'kube-proxy',
  controller: 'slicewire-controller',
  fleet: 'slicewire-fleet',
};
const RUNBOOK = 'https://docs.example/slicewire/troubleshoot.md#';

for (const part of PARTS) {
  describe(`the alerts of deploy/monitoring/${part}`, () => {
    const alerts = alertsOf(part);
    const each = (check: (alert: Alert) => void) => {
      assert.ok(alerts.length > 0);
      for (const alert of alerts) check(alert);
    };

    it('ask for metrics and labels that there are, in every mode', async () => {
      const all = await allSeries();
      for (const of of part === 'agent' ? MODES : [part]) {
        const series = all.get(of) ?? assert.fail(of);
        each(({ expr }) => mustExist(expr, series));
      }
    });

    it('ask for the job of the PodMonitor in each selector', () => {
      each(({ expr }) => {
        const { selectors } = askedBy(expr);
        assert.notEqual(selectors.length, 0, expr);
        for (const { labels } of selectors) assert.ok(labels.includes('job'), expr);
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

    it('lead to a section of docs/troubleshoot.md that says what to do', () => {
      const manual = fileOf('docs/troubleshoot.md');
      const anchors = anchorsIn(manual);
      each(({ alert, annotations: { runbook_url: url } }) => {
        assert.equal(url, `${RUNBOOK}${alert.toLowerCase()}`);
        assert.ok(anchors.has(alert.toLowerCase()), `docs/troubleshoot.md has no section ${alert}`);
        const [, section = ''] = new RegExp(`^### ${alert}\\n(.*?)^##`, 'ms').exec(manual) ?? [];
        for (const word of ['**Meaning.**', '**What follows.**', '**Look at.**', '**What to do.**'])
          assert.ok(section.includes(word), `${alert} has no ${word}`);
      });
    });
  });
}

interface Container {
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly valueFrom?: unknown }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number; readonly hostPort: number }[];
}

/** Of what the PodMonitor and the pods' owner have, the fields that must fit. */
type Deployed = ObjectOf & {
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: { readonly hostNetwork: boolean; readonly containers: readonly Container[] };
    };
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly podMetricsEndpoints: readonly {
      readonly port: string;
      readonly path: string;
      readonly relabelings: readonly { readonly targetLabel: string; readonly replacement?: string }[];
    }[];
  };
};

function deployed(objects: readonly object[] = []): readonly Deployed[] {
  return objects as readonly Deployed[];
}

/** The flags of a container on a node with this address. */
function flagsOf({ args }: Container, hostIp: string): Flags {
  const pairs = args.slice(1).map((arg) => {
    const [, name = '', value = 'true'] = /^--([^=]+)(?:=(.*))?$/.exec(arg) ?? assert.fail(arg);
    return [camel(name), value.replace('$(HOST_IP)', hostIp)] as const;
  });
  return Object.fromEntries(pairs);
}

for (const [overlay, part, port] of [
  ['iptables', 'agent', 10_249],
  ['ipvs', 'agent', 10_249],
  ['nftables', 'agent', 10_249],
  ['kubeadm', 'agent', 10_249],
  ['controller', 'controller', 10_261],
] as const) {
  describe(`deploy/monitoring/overlays/${overlay}`, async () => {
    const found = await kustomize(`monitoring/overlays/${overlay}`);
    const options = found === undefined ? NO_KUBECTL : {};
    const all = deployed(found);
    const one = (...kinds: readonly string[]) =>
      all.find(({ kind }) => kinds.includes(kind)) ?? assert.fail(kinds.join());

    it('serves /metrics where the PodMonitor looks for it: at the address of the node', options, () => {
      const monitor = one('PodMonitor');
      const owner = one('DaemonSet', 'Deployment');
      const { metadata, spec } = owner.spec.template;
      const [container = assert.fail()] = spec.containers;
      assert.deepEqual(monitor.spec.selector.matchLabels, metadata.labels);
      assert.equal(monitor.metadata.namespace, owner.metadata.namespace);
      const [endpoint = assert.fail(), ...others] = monitor.spec.podMetricsEndpoints;
      assert.deepEqual([others.length, endpoint.path, spec.hostNetwork], [0, '/metrics', true]);
      const named = container.ports.filter(({ name }) => name === endpoint.port);
      assert.deepEqual(
        named.map(({ containerPort, hostPort }) => [containerPort, hostPort]),
        [[port, port]],
      );
      // An API server refuses one port that is declared twice.
      assert.equal(new Set(container.ports.map(({ hostPort }) => hostPort)).size, container.ports.length);
      const hostIp = container.env.find(({ name }) => name === 'HOST_IP');
      assert.deepEqual(hostIp?.valueFrom, { fieldRef: { fieldPath: 'status.hostIP' } });
      for (const [address, text] of [
        ['192.0.2.7', `192.0.2.7:${port}`],
        ['fd00::7', `[fd00::7]:${port}`],
      ] as const) {
        const flags = flagsOf(container, address);
        const scrape =
          part === 'agent' ? configFromFlags(flags, { file: 'f' }).serve.scrape : controllerConfig(flags).scrape;
        assert.equal(scrape?.text, text);
      }
    });

    it('names the job as the alerts do', options, () => {
      const { relabelings } = one('PodMonitor').spec.podMetricsEndpoints[0] ?? assert.fail();
      assert.equal(relabelings.find(({ targetLabel }) => targetLabel === 'job')?.replacement, JOBS[part]);
      assert.ok(relabelings.some(({ targetLabel }) => targetLabel === 'instance'));
      assert.equal(one('PrometheusRule').metadata.namespace, 'kube-system');
    });

    it('changes nothing else of the overlay without monitoring', options, async () => {
      const plain = deployed(await kustomize(part === 'agent' ? `overlays/${overlay}` : overlay));
      const others = (objects: readonly Deployed[]) =>
        objects.filter(({ kind }) => !['PodMonitor', 'PrometheusRule', 'DaemonSet', 'Deployment'].includes(kind));
      assert.deepEqual(others(all), others(plain));
      const before = plain.find(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment') ?? assert.fail();
      const argsOf = ({ spec }: Deployed) => spec.template.spec.containers[0]?.args ?? [];
      assert.deepEqual(argsOf(one('DaemonSet', 'Deployment')), [...argsOf(before), '--scrape-bind-address=$(HOST_IP)']);
    });
  });
}
