/** Metrics under kube-proxy's names (its pkg/proxy/metrics), and those of slicewire. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControllerMetrics } from '../../src/controller/monitoring.ts';
import { Metrics, type MetricsOptions, type ReadName } from '../../src/telemetry/metrics.ts';
import type { Samples } from '../../src/telemetry/registry.ts';

/** Every name of its pkg/proxy/metrics that slicewire has, with its labels. */
const OF_ALL: Readonly<Record<string, readonly [type: string, labels: string]>> = {
  sync_proxy_rules_duration_seconds: ['histogram', 'ip_family'],
  sync_full_proxy_rules_duration_seconds: ['histogram', 'ip_family'],
  sync_partial_proxy_rules_duration_seconds: ['histogram', 'ip_family'],
  sync_proxy_rules_last_timestamp_seconds: ['gauge', 'ip_family'],
  sync_proxy_rules_last_queued_timestamp_seconds: ['gauge', 'ip_family'],
  network_programming_duration_seconds: ['histogram', 'ip_family'],
  sync_proxy_rules_endpoint_changes_pending: ['gauge', ''],
  sync_proxy_rules_endpoint_changes_total: ['counter', ''],
  sync_proxy_rules_service_changes_pending: ['gauge', ''],
  sync_proxy_rules_service_changes_total: ['counter', ''],
  sync_proxy_rules_no_local_endpoints_total: ['gauge', 'ip_family,traffic_policy'],
  proxy_healthz_total: ['counter', 'code'],
  proxy_livez_total: ['counter', 'code'],
  sync_proxy_rules_iptables_restore_failures_total: ['counter', 'ip_family'],
  conntrack_reconciler_sync_duration_seconds: ['histogram', 'ip_family'],
  conntrack_reconciler_deleted_entries_total: ['counter', 'ip_family'],
};
const OF_IPTABLES: typeof OF_ALL = {
  sync_proxy_rules_iptables_total: ['gauge', 'ip_family,table'],
  sync_proxy_rules_iptables_last: ['gauge', 'ip_family,table'],
  sync_proxy_rules_iptables_partial_restore_failures_total: ['counter', 'ip_family'],
  iptables_ct_state_invalid_dropped_packets_total: ['counter', ''],
  iptables_localhost_nodeports_accepted_packets_total: ['counter', ''],
};

const F = { ip_family: 'IPv4' };
const SAMPLES: Partial<Record<ReadName, Samples>> = {
  kubeproxy_sync_proxy_rules_iptables_total: () => [{ labels: { table: 'nat', ...F }, value: 7 }],
  kubeproxy_sync_proxy_rules_iptables_last: () => [{ labels: { table: 'nat', ...F }, value: 2 }],
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: () => [
    { labels: { traffic_policy: 'internal', ...F }, value: 1 },
  ],
};

function made(mode: MetricsOptions['mode']): Metrics {
  const read = new Proxy(SAMPLES, {
    get: (target, name: ReadName) => target[name] ?? (() => [{ labels: {}, value: 3 }]),
  });
  const metrics = new Metrics({
    mode,
    families: ['IPv4', 'IPv6'],
    version: '9.9.9',
    read: read as MetricsOptions['read'],
  });
  metrics.queued(100);
  const work = { services: 3, rendered: 9 };
  const sync = { duration: 1500, writing: 1000, steps: 4, work, drift: 1, latencies: [300], outcome: 'partial' };
  metrics.synced({ ...sync, complete: ['IPv4'], failedWrites: ['IPv6'], isFull: false }, 101);
  metrics.synced({ ...sync, complete: ['IPv4', 'IPv6'], failedWrites: [], isFull: true, outcome: 'complete' }, 102);
  metrics.answered('healthz', 503);
  metrics.answered('livez', 200);
  metrics.answered('readyz', 503);
  metrics.swept(20, { udp: new Map([['IPv4', 5]]), opening: new Map([['IPv6', 2]]), gone: new Map([['IPv4', 3]]) });
  return metrics;
}

/** Lines without those of buckets. */
async function linesOf(metrics: Metrics): Promise<string[]> {
  return (await metrics.text()).split('\n');
}

describe('metrics', () => {
  for (const mode of ['iptables', 'ipvs'] as const) {
    it(`have kube-proxy’s names, types and labels in ${mode} mode`, async () => {
      const lines = await linesOf(made(mode));
      for (const [name, [type, labels]] of Object.entries({ ...OF_ALL, ...(mode === 'iptables' ? OF_IPTABLES : {}) })) {
        assert.ok(lines.includes(`# TYPE kubeproxy_${name} ${type}`), `${name} is no ${type}`);
        const sample =
          lines.find((line) => new RegExp(`^kubeproxy_${name}(_count)?[{ ]`).test(line)) ?? assert.fail(name);
        const found = [...sample.matchAll(/(\w+)="/g)].map(([, label]) => label);
        assert.equal(found.sort().join(), labels, sample);
      }
    });
  }

  it('of rules exist in iptables mode alone', async () => {
    const text = await made('ipvs').text();
    for (const name of ['proxy_rules_iptables_total', 'ct_state_invalid_dropped', 'localhost_nodeports_accepted'])
      assert.ok(!text.includes(name), name);
  });

  it('of failed writes and of the table have names of their own in nftables mode, as kube-proxy’s', async () => {
    const lines = await linesOf(made('nftables'));
    const has = (name: string) => lines.some((line) => line.startsWith(`# TYPE ${name} `));
    assert.ok(has('kubeproxy_sync_proxy_rules_nftables_sync_failures_total'));
    assert.ok(lines.includes('kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 1'));
    assert.ok(!lines.some((line) => line.includes('_iptables_')));
    for (const name of ['nftables_rules', 'nftables_elements', 'connections_total'])
      assert.ok(has(`slicewire_${name}`));
  });

  it('of sets that kube-proxy cannot take over exist in IPVS mode alone', async () => {
    for (const mode of ['iptables', 'ipvs', 'nftables'] as const)
      assert.equal((await made(mode).text()).includes('slicewire_ipvs_enlarged_set_maxelem'), mode === 'ipvs', mode);
  });

  it('of node ports on loopback exist where they are relayed, by kube-proxy’s names in its mode alone (KEP-6032)', async () => {
    const has = async (mode: MetricsOptions['mode'], part: string) =>
      (await linesOf(made(mode))).some((line) => line.startsWith('# TYPE ') && line.includes(part));
    for (const [mode, relayed, named] of [
      ['iptables', false, false],
      ['ipvs', true, false],
      ['nftables', true, true],
    ] as const) {
      assert.equal(await has(mode, ' slicewire_relay_connections_total counter'), relayed, mode);
      assert.equal(await has(mode, ' kubeproxy_nftables_localhost_nodeport_listeners gauge'), named, mode);
      const failures = ' kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total counter';
      assert.equal(await has(mode, failures), named, mode);
    }
  });

  it('of packets have kube-proxy’s words, without a label', async () => {
    const lines = await linesOf(made('iptables'));
    for (const [name, help] of [
      ['ct_state_invalid_dropped', 'packets dropped by iptables to work around conntrack problems'],
      ['localhost_nodeports_accepted', 'Number of packets accepted on nodeports of loopback interface'],
    ]) {
      assert.ok(lines.includes(`# HELP kubeproxy_iptables_${name}_packets_total ${help}`));
      assert.ok(lines.includes(`kubeproxy_iptables_${name}_packets_total 3`));
    }
  });

  it('name the version by a name that is not Kubernetes’ own: KubeVersionMismatch of the kubernetes-mixin compares those', async () => {
    const controller = new ControllerMetrics({
      version: '9.9.9',
      queues: () => [],
      isLeader: () => true,
      leaseName: '',
      watches: () => [],
      turnedAway: () => [],
    });
    const platform = `${process.platform}/${process.arch}`;
    const wanted = `slicewire_build_info{version="9.9.9",node_version="${process.versions.node}",platform="${platform}"} 1`;
    for (const text of [await made('iptables').text(), await controller.text()]) {
      assert.ok(text.split('\n').includes(wanted), text.slice(-2000));
      assert.doesNotMatch(text, /kubernetes_build_info|git_version/);
    }
  });

  it('have kube-proxy’s buckets', async () => {
    const lines = await linesOf(made('iptables'));
    const bounds = (name: string) =>
      lines
        .filter((line) => line.startsWith(`kubeproxy_${name}_bucket{`) && line.includes('IPv4'))
        .map((line) => /le="([^"]+)"/.exec(line)?.[1]);
    assert.deepEqual(bounds('sync_proxy_rules_duration_seconds').slice(0, 3), ['0.001', '0.002', '0.004']);
    assert.equal(bounds('sync_proxy_rules_duration_seconds').length, 16);
    const latency = bounds('network_programming_duration_seconds');
    assert.deepEqual(
      [latency.slice(0, 4), latency.slice(-3), latency.length],
      [['0.25', '0.5', '1', '2'], ['270', '300', '+Inf'], 81],
    );
  });

  it('count syncs and changes as they happened', async () => {
    const lines = await linesOf(made('iptables'));
    for (const line of [
      'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 2',
      'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1',
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 102',
      'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 2',
      'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv6"} 1',
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"} 1',
      'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv6"} 1',
      'kubeproxy_proxy_healthz_total{code="503"} 1',
      'slicewire_readyz_total{code="503"} 1',
      'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 5',
      'slicewire_unanswered_connections_deleted_total{ip_family="IPv4"} 0',
      'slicewire_unanswered_connections_deleted_total{ip_family="IPv6"} 2',
      'kubeproxy_sync_proxy_rules_iptables_total{table="nat",ip_family="IPv4"} 7',
      'slicewire_steps_total 8',
      'slicewire_sync_services_visited_total 6',
      'slicewire_sync_objects_rendered_total 18',
      'slicewire_drift_total 2',
      'slicewire_syncs_total{outcome="partial"} 1',
    ])
      assert.ok(
        lines.includes(line),
        `${line}\nnot in\n${lines.filter((one) => one.startsWith(line.slice(0, 40))).join('\n')}`,
      );
    assert.ok(lines.some((line) => line.startsWith('process_resident_memory_bytes')));
  });
});
