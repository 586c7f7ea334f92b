/** For each alert: series under which it fires, and series under which it is quiet. */

export interface AlertCase {
  readonly alert: string;
  readonly name: string;
  /** By their names with labels, a value each 30 s, in promtool's notation: `0+1x3` is 0 1 2 3, `_` is no value. */
  readonly series: Readonly<Record<string, string>>;
  /** The time of the look, such as 11m. */
  readonly at: string;
  readonly fires: readonly { readonly labels: Readonly<Record<string, string>>; readonly description: string }[];
}

/** kube-prometheus has this alert about kube-proxy; both forms of its query. */
const DOWN = {
  for: '15m',
  labels: { severity: 'critical' },
  annotations: {
    summary: 'Target disappeared from Prometheus target discovery.',
    description: 'KubeProxy has disappeared from Prometheus target discovery.',
    runbook_url: undefined,
  },
};
export const OF_KUBE_PROMETHEUS = {
  name: 'kubernetes-system-kube-proxy',
  rules: [
    { alert: 'KubeProxyDown', expr: 'absent(up{job="kube-proxy"})', ...DOWN },
    { alert: 'KubeProxyDownBefore', expr: 'absent(up{job="kube-proxy"} == 1)', ...DOWN },
  ],
};

const TARGET = { job: 'kube-proxy', instance: 'node-a', namespace: 'kube-system', pod: 'slicewire-x7' };
const IN_POD = { ...TARGET, container: 'slicewire' };
const OF_CONTROLLER = { job: 'slicewire-controller', instance: 'node-a', pod: 'slicewire-controller-x7' };
const OF_FLEET = { job: 'slicewire-fleet', instance: 'slicewire-fleet-x7' };
const KUBE_PROXY = { ...TARGET, instance: 'node-b', pod: 'kube-proxy-q2' };

/** `name{a="b"}`. */
function series(name: string, labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return `${name}{${pairs.join(',')}}`;
}

const INFO = { [series('slicewire_build_info', IN_POD)]: '1x80' };
const LAST = 'kubeproxy_sync_proxy_rules_last_timestamp_seconds';
const QUEUED = 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds';
const LATENCY = 'kubeproxy_network_programming_duration_seconds_bucket';
const FLEET_IS_DOWN =
  'For 5 minutes Prometheus has reached no replica of the fleet. Pods whose preStop hook is a command end at its timeout, those with an httpGet at once, without a wait. Connections to them may fail.';
const HAS_NO_LEADER =
  'For 5 minutes no replica of slicewire controller has held the lease. Pods that start get no traffic of Services, and Pods that end are not taken out.';

/** Changes of node-a that took at most half a second, and at most two seconds; each 30 s. */
function latencies(target: Readonly<Record<string, string>>, half: string, two: string): Record<string, string> {
  const bucket = (le: string) => series(LATENCY, { ...target, ip_family: 'IPv4', le });
  return { [bucket('0.5')]: half, [bucket('1')]: half, [bucket('2')]: two, [bucket('+Inf')]: two };
}

/** When the last sync was complete, and when one was asked for, each 30 s. */
function times(target: Readonly<Record<string, string>>, last: string, queued: string): Record<string, string> {
  const of = (name: string) => series(name, { ...target, ip_family: 'IPv4' });
  return { [of(LAST)]: last, [of(QUEUED)]: queued };
}

export const ALERT_CASES: readonly AlertCase[] = [
  {
    alert: 'KubeProxyDown',
    name: 'is quiet while agents of slicewire have the job',
    series: { [series('up', IN_POD)]: '1x60' },
    at: '25m',
    fires: [],
  },
  {
    alert: 'KubeProxyDownBefore',
    name: 'is quiet while one agent answers',
    series: { [series('up', IN_POD)]: '1x60', [series('up', { ...IN_POD, instance: 'node-b' })]: '0x60' },
    at: '25m',
    fires: [],
  },
  {
    alert: 'KubeProxyDown',
    name: 'fires where no target has the job, as after a swap without the PodMonitor',
    series: { [series('up', { ...IN_POD, job: 'slicewire' })]: '1x60' },
    at: '25m',
    fires: [{ labels: { job: 'kube-proxy' }, description: DOWN.annotations.description }],
  },
  {
    alert: 'SlicewireDown',
    name: 'fires for the node whose agent does not answer',
    series: { [series('up', IN_POD)]: '1x4 0x30', [series('up', { ...IN_POD, instance: 'node-b' })]: '1x40' },
    at: '14m',
    fires: [
      {
        labels: IN_POD,
        description:
          'The agent on node-a has not answered Prometheus for 10 minutes. If it does not run, the rules of that node stay as they are, and changes of Services and endpoints do not reach it.',
      },
    ],
  },
  {
    alert: 'SlicewireDown',
    name: 'is quiet about kube-proxy, and about a restart',
    series: {
      [series('up', { ...KUBE_PROXY, container: 'kube-proxy' })]: '0x40',
      [series('up', IN_POD)]: '1x8 0x10 1x20',
    },
    at: '15m',
    fires: [],
  },
  {
    alert: 'SlicewireNotReady',
    name: 'fires after ten minutes',
    series: { [series('slicewire_ready', IN_POD)]: '0x30' },
    at: '11m',
    fires: [
      {
        labels: IN_POD,
        description:
          'The agent on node-a has not been ready for 10 minutes. Either its first sync is not complete, or it cannot write the kernel. Changes of Services and endpoints do not reach that node.',
      },
    ],
  },
  {
    alert: 'SlicewireNotReady',
    name: 'is quiet when the agent gets ready after five minutes',
    series: { [series('slicewire_ready', IN_POD)]: '0x10 1x20' },
    at: '11m',
    fires: [],
  },
  {
    alert: 'SlicewireSyncsFailing',
    name: 'fires when a change waits and syncs fail',
    series: { ...INFO, ...times(IN_POD, '30x40', '31x40') },
    at: '10m',
    fires: [
      {
        labels: { ...IN_POD },
        description:
          'On node-a changes of Services or endpoints have been waiting, and the last complete sync was 9m 30s ago. Connections may go to endpoints that are gone.',
      },
    ],
  },
  {
    alert: 'SlicewireSyncsFailing',
    name: 'is quiet when nothing changes, however long ago the last sync was',
    series: { ...INFO, ...times(IN_POD, '30x80', '29x80') },
    at: '30m',
    fires: [],
  },
  {
    alert: 'SlicewireSyncsFailing',
    name: 'is quiet when changes come all the time, and each is written a moment later',
    series: { ...INFO, ...times(IN_POD, '0+30x80', '0.5+30x80') },
    at: '30m',
    fires: [],
  },
  {
    alert: 'SlicewireSyncsFailing',
    name: 'is quiet about kube-proxy on another node',
    series: { ...INFO, ...times(KUBE_PROXY, '30x80', '31x80') },
    at: '30m',
    fires: [],
  },
  {
    alert: 'SlicewireProgrammingSlow',
    name: 'fires when two changes in a hundred take two seconds',
    series: { ...INFO, ...latencies(IN_POD, '0+98x80', '0+100x80') },
    at: '20m',
    fires: [
      {
        labels: TARGET,
        description:
          'On node-a one change in a hundred takes 1.5s or longer from the change of a Service or Pod to the kernel. Until then connections go to the endpoints as they were.',
      },
    ],
  },
  {
    alert: 'SlicewireProgrammingSlow',
    name: 'is quiet when one change in a thousand takes two seconds, and when nothing changes',
    series: {
      ...INFO,
      ...latencies(IN_POD, '0+999x80', '0+1000x80'),
      ...latencies({ ...IN_POD, instance: 'node-c' }, '5x80', '9x80'),
    },
    at: '20m',
    fires: [],
  },
  {
    alert: 'SlicewireProgrammingSlow',
    name: 'is quiet about kube-proxy, and about a slow minute',
    series: {
      ...INFO,
      ...latencies(KUBE_PROXY, '0+50x80', '0+100x80'),
      ...latencies(IN_POD, '0+100x20 2000x60', '0+100x20 2100x60'),
    },
    at: '14m',
    fires: [],
  },
  {
    alert: 'SlicewireServicesRefused',
    name: 'fires with the number of Services',
    series: { [series('slicewire_services_refused', IN_POD)]: '0x4 3x40' },
    at: '10m',
    fires: [
      {
        labels: IN_POD,
        description:
          'The kernel of node-a refuses the rules of 3 Services. They stay as they were; all other Services are served.',
      },
    ],
  },
  {
    alert: 'SlicewireServicesRefused',
    name: 'is quiet when the next sync is not refused',
    series: { [series('slicewire_services_refused', IN_POD)]: '0x4 3x2 0x40' },
    at: '10m',
    fires: [],
  },
  {
    alert: 'SlicewireRulesChangedByOthers',
    name: 'fires when rules are changed each minute',
    series: { [series('slicewire_drift_total', IN_POD)]: '0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 10+0.5x60' },
    at: '25m',
    fires: [
      {
        labels: IN_POD,
        description:
          'For 15 minutes another program on node-a has been changing rules of slicewire, which writes them again each time. Until then connections of these Services may fail.',
      },
    ],
  },
  {
    alert: 'SlicewireRulesChangedByOthers',
    name: 'is quiet about one flush that was repaired',
    series: { [series('slicewire_drift_total', IN_POD)]: '0x10 44x60' },
    at: '16m',
    fires: [],
  },
  {
    alert: 'SlicewireTakeoverWentBack',
    name: 'fires when a node took itself back',
    series: {
      [series('slicewire_takeover', { ...IN_POD, stage: 'open' })]: '1x2 0x40',
      [series('slicewire_takeover', { ...IN_POD, stage: 'went back' })]: '0x2 1x40',
    },
    at: '8m',
    fires: [
      {
        labels: { ...IN_POD, stage: 'went back' },
        description:
          'The rules of slicewire did not serve on node-a, and those that were there before are back. Changes of Services and endpoints do not reach that node.',
      },
    ],
  },
  {
    alert: 'SlicewireTakeoverWentBack',
    name: 'is quiet while a takeover is checked, and when it is confirmed',
    series: {
      [series('slicewire_takeover', { ...IN_POD, stage: 'open' })]: '1x4 0x40',
      [series('slicewire_takeover', { ...IN_POD, stage: 'confirmed' })]: '0x4 1x40',
      [series('slicewire_takeover', { ...IN_POD, stage: 'went back' })]: '0x44',
    },
    at: '8m',
    fires: [],
  },
  {
    alert: 'SlicewireDataPathBroken',
    name: 'fires once for a node, however many ways are broken',
    series: {
      [series('slicewire_datapath_broken', { ...IN_POD, from: 'node', ip_family: 'IPv4' })]: '0 1x40',
      [series('slicewire_datapath_broken', { ...IN_POD, from: 'pod', ip_family: 'IPv4' })]: '0 1x40',
      [series('slicewire_datapath_broken', { ...IN_POD, from: 'node', ip_family: 'IPv6' })]: '0x41',
    },
    at: '8m',
    fires: [
      {
        labels: IN_POD,
        description:
          'For 5 minutes connections of the agent on node-a to itself through its rules have failed. Those of Pods and of the node to Services may fail, too.',
      },
    ],
  },
  {
    alert: 'SlicewireDataPathBroken',
    name: 'is quiet about rules that another program flushed and the agent wrote again',
    series: { [series('slicewire_datapath_broken', { ...IN_POD, from: 'node', ip_family: 'IPv4' })]: '0 1 0x40' },
    at: '8m',
    fires: [],
  },
  {
    alert: 'SlicewireSourceNotFollowed',
    name: 'fires once for a node, however many kinds fail',
    series: {
      [series('slicewire_watch_failing', { ...IN_POD, kind: 'Services' })]: '1x40',
      [series('slicewire_watch_failing', { ...IN_POD, kind: 'EndpointSlices' })]: '1x40',
      [series('slicewire_watch_failing', { ...IN_POD, kind: 'Nodes' })]: '0x40',
    },
    at: '12m',
    fires: [
      {
        labels: IN_POD,
        description:
          'The agent on node-a has not been able to follow the API server for 10 minutes. The rules of that node stay as they are, and changes of Services and endpoints do not reach it.',
      },
    ],
  },
  {
    alert: 'SlicewireSourceNotFollowed',
    name: 'is quiet while an API server restarts',
    series: { [series('slicewire_watch_failing', { ...IN_POD, kind: 'Services' })]: '0x4 1x10 0x40' },
    at: '12m',
    fires: [],
  },
  {
    alert: 'SlicewireControllerHasNoLeader',
    name: 'fires when both replicas wait',
    series: {
      [series('leader_election_master_status', { ...OF_CONTROLLER, name: 'slicewire-controller' })]: '0x40',
      [series('leader_election_master_status', { ...OF_CONTROLLER, instance: 'node-b', name: 'slicewire-controller' })]:
        '1x4 0x40',
    },
    at: '10m',
    fires: [{ labels: { job: 'slicewire-controller' }, description: HAS_NO_LEADER }],
  },
  {
    alert: 'SlicewireControllerHasNoLeader',
    name: 'fires when no replica answers',
    series: { [series('up', OF_CONTROLLER)]: '0x40' },
    at: '10m',
    fires: [{ labels: { job: 'slicewire-controller' }, description: HAS_NO_LEADER }],
  },
  {
    alert: 'SlicewireControllerHasNoLeader',
    name: 'is quiet when the lease goes from one replica to the other',
    series: {
      [series('leader_election_master_status', { ...OF_CONTROLLER, name: 'slicewire-controller' })]: '1x10 0x30',
      [series('leader_election_master_status', { ...OF_CONTROLLER, instance: 'node-b', name: 'slicewire-controller' })]:
        '0x11 1x30',
    },
    at: '10m',
    fires: [],
  },
  {
    alert: 'SlicewireControllerSourceNotFollowed',
    name: 'fires for the replica that cannot',
    series: {
      [series('slicewire_watch_failing', { ...OF_CONTROLLER, kind: 'Pods' })]: '1x40',
      [series('slicewire_watch_failing', { ...OF_CONTROLLER, instance: 'node-b', kind: 'Pods' })]: '0x40',
    },
    at: '12m',
    fires: [
      {
        labels: OF_CONTROLLER,
        description:
          'The replica of slicewire controller on node-a has not been able to follow the API server for 10 minutes. If it holds the lease, EndpointSlices are not written.',
      },
    ],
  },
  {
    alert: 'SlicewireControllerSourceNotFollowed',
    name: 'is quiet about the agents',
    series: { [series('slicewire_watch_failing', { ...IN_POD, kind: 'Services' })]: '1x40' },
    at: '12m',
    fires: [],
  },
  {
    alert: 'SlicewireFleetDown',
    name: 'fires when no replica answers',
    series: {
      [series('up', OF_FLEET)]: '1x4 0x40',
      [series('up', { ...OF_FLEET, instance: 'slicewire-fleet-q2' })]: '0x44',
    },
    at: '10m',
    fires: [{ labels: { job: 'slicewire-fleet' }, description: FLEET_IS_DOWN }],
  },
  {
    alert: 'SlicewireFleetDown',
    name: 'fires when there is none',
    series: {},
    at: '10m',
    fires: [{ labels: { job: 'slicewire-fleet' }, description: FLEET_IS_DOWN }],
  },
  {
    alert: 'SlicewireFleetDown',
    name: 'is quiet while one replica answers',
    series: {
      [series('up', OF_FLEET)]: '0x40',
      [series('up', { ...OF_FLEET, instance: 'slicewire-fleet-q2' })]: '1x40',
    },
    at: '10m',
    fires: [],
  },
  {
    alert: 'SlicewireFleetNodesBehind',
    name: 'fires for the replica, with all its nodes that it waits for',
    series: {
      [series('slicewire_fleet_nodes', { ...OF_FLEET, state: 'current' })]: '7x40',
      [series('slicewire_fleet_nodes', { ...OF_FLEET, state: 'behind' })]: '1x40',
      [series('slicewire_fleet_nodes', { ...OF_FLEET, state: 'no answer' })]: '2x40',
      [series('slicewire_fleet_nodes', { ...OF_FLEET, state: 'left out' })]: '4x40',
      [series('slicewire_fleet_nodes', { ...OF_FLEET, instance: 'slicewire-fleet-q2', state: 'behind' })]: '0x40',
    },
    at: '12m',
    fires: [
      {
        labels: OF_FLEET,
        description:
          'For 10 minutes 3 nodes have been behind, or have not told slicewire-fleet-x7 what they have. Pods that end wait for these nodes until their timeout.',
      },
    ],
  },
  {
    alert: 'SlicewireFleetNodesBehind',
    name: 'is quiet about nodes that are left out, and during a roll-out of the agents',
    series: {
      [series('slicewire_fleet_nodes', { ...OF_FLEET, state: 'left out' })]: '2x60',
      [series('slicewire_fleet_nodes', { ...OF_FLEET, state: 'no agent' })]: '0x4 1x10 0x1 1x10 0x40',
    },
    at: '20m',
    fires: [],
  },
];
