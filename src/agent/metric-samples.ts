/** The samples of metrics that are read on each scrape. */
import type { Clock } from '../base/clock.ts';
import type { ConnectionCount, EnlargedSet, PacketCount, RuleCount } from '../proxy/modes/mode.ts';
import type { HealthState } from '../serve/health-judgement.ts';
import type { ReadName } from '../telemetry/metrics.ts';
import { type Sample, type Samples, type TurnedAwayCount, turnedAwaySamples } from '../telemetry/registry.ts';
import type { ObjectFeed } from './feed.ts';
import type { RelayCounts } from './relay/relay.ts';

export interface SampleSources {
  readonly feed: () => ObjectFeed;
  readonly rules: () => readonly RuleCount[];
  readonly enlargedSets: () => readonly EnlargedSet[];
  readonly connections: () => Promise<readonly ConnectionCount[]>;
  /** Packets that rules counted so far, by kind. */
  readonly packets: (what: PacketCount['what']) => Promise<number>;
  readonly clock: Clock;
  readonly health: () => HealthState;
  /** Services that the kernel refuses. */
  readonly refused: () => number;
  readonly gaps: () => readonly (readonly [policy: string, family: string, count: number])[];
  readonly reloads: () => ReadonlyMap<string, number>;
  readonly faults: () => Readonly<Record<string, number>>;
  readonly relay: () => RelayCounts;
  /** Of the versions in the kernel: Services that are behind, and questions that wait. */
  readonly programmed: () => { readonly behind: number; readonly waiters: number };
  readonly turnedAway: () => readonly TurnedAwayCount[];
}

export function metricSamples({
  feed,
  rules: ruleCounts,
  enlargedSets,
  connections,
  packets,
  clock,
  health,
  refused,
  gaps,
  reloads,
  faults,
  relay,
  programmed,
  turnedAway,
}: SampleSources): Record<ReadName, Samples> {
  const one = (value: number): readonly Sample[] => [{ labels: {}, value }];
  const counts = (of: 'services' | 'slices') => feed().cache.counts(of);
  const rules = (field: 'total' | 'last') =>
    ruleCounts()
      .filter(({ table }) => table === 'filter' || table === 'nat')
      .map(({ family, table, ...count }) => ({ labels: { table, ip_family: family }, value: count[field] }));
  const inNftables = (field: 'total' | 'elements') =>
    ruleCounts().map(({ family, ...count }) => ({ labels: { ip_family: family }, value: count[field] ?? 0 }));
  const watches = () => feed().watches();
  const relayed = (field: 'listeners' | 'failed' | 'connections') => () =>
    relay().families.map(({ family, ...count }) => ({ labels: { ip_family: family }, value: count[field] }));
  return {
    kubeproxy_sync_proxy_rules_endpoint_changes_pending: () => one(counts('slices').pending),
    kubeproxy_sync_proxy_rules_endpoint_changes_total: () => one(counts('slices').total),
    kubeproxy_sync_proxy_rules_service_changes_pending: () => one(counts('services').pending),
    kubeproxy_sync_proxy_rules_service_changes_total: () => one(counts('services').total),
    kubeproxy_sync_proxy_rules_no_local_endpoints_total: () =>
      gaps().map(([traffic_policy, ip_family, value]) => ({ labels: { traffic_policy, ip_family }, value })),
    kubeproxy_sync_proxy_rules_iptables_total: () => rules('total'),
    kubeproxy_sync_proxy_rules_iptables_last: () => rules('last'),
    kubeproxy_iptables_ct_state_invalid_dropped_packets_total: async () => one(await packets('invalid-dropped')),
    kubeproxy_iptables_localhost_nodeports_accepted_packets_total: async () =>
      one(await packets('localhost-node-ports')),
    kubeproxy_nftables_localhost_nodeport_listeners: relayed('listeners'),
    kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: relayed('failed'),
    slicewire_relay_listeners: relayed('listeners'),
    slicewire_relay_listen_failures_total: relayed('failed'),
    slicewire_relay_connections: relayed('connections'),
    slicewire_relay_connections_total: () =>
      [...relay().outcomes].map(([result, value]) => ({ labels: { result }, value })),
    slicewire_nftables_rules: () => inNftables('total'),
    slicewire_nftables_elements: () => inNftables('elements'),
    slicewire_ipvs_enlarged_set_maxelem: () =>
      enlargedSets().map(({ set, maxelem }) => ({ labels: { set }, value: maxelem })),
    slicewire_connections_total: async () =>
      (await connections()).map(({ service, family, address = '', protocol = '', port, count }) => ({
        labels: { service, address, protocol, port: String(port), ip_family: family },
        value: count,
      })),
    slicewire_http_clients_turned_away_total: () => turnedAwaySamples(turnedAway()),
    slicewire_faults: () => Object.entries(faults()).map(([effect, value]) => ({ labels: { effect }, value })),
    slicewire_watch_age_seconds: () =>
      watches().map(({ of, heardAt }) => ({ labels: { kind: of }, value: (clock.now() - heardAt) / 1000 })),
    slicewire_watch_failing: () =>
      watches().map(({ of, failure }) => ({ labels: { kind: of }, value: failure === undefined ? 0 : 1 })),
    slicewire_failover_suspects: () => one(feed().cache.own.suspects.length),
    slicewire_failover_ejections_total: () => one(feed().cache.own.ejections),
    slicewire_services_refused: () => one(refused()),
    slicewire_programmed_behind_services: () => one(programmed().behind),
    slicewire_programmed_waiters: () => one(programmed().waiters),
    slicewire_healthy: () => one(health().healthy ? 1 : 0),
    slicewire_ready: () => one(health().reasons.readyz.length === 0 ? 1 : 0),
    slicewire_config_reloads_total: () => [...reloads()].map(([result, value]) => ({ labels: { result }, value })),
  };
}
