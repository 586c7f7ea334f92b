/** The flags of `slicewire controller`, as data: those of kube-controller-manager for these three controllers. */
import { LOGGING_FORMAT, MAX_CONNECTIONS_PER_CLIENT } from './agent-flags.ts';
import { CONTROLLERS } from './controller-config.ts';
import { type FlagGroup, option } from './flags.ts';

export const CONTROLLER_FLAGS: readonly FlagGroup[] = [
  {
    title: 'API server',
    flags: [
      option('--kubeconfig <file>', 'how to reach the API server; default: the service account of the pod'),
      option('--master <url>', 'address of the API server; overrides the kubeconfig'),
      option('--kube-api-qps <n>', 'most requests a second of each controller; negative: no limit', { initial: '-1' }),
      option('--kube-api-burst <n>', 'requests that may then come at once', { initial: '30' }),
    ],
  },
  {
    title: 'Controllers',
    flags: [
      option(
        '--controllers <names>',
        'controllers to run: endpointslice-controller, endpoints-controller, endpointslice-mirroring-controller; * is all, -name leaves one out',
        { initial: '*', values: CONTROLLERS },
      ),
      option('--max-endpoints-per-slice <n>', 'most endpoints in an EndpointSlice, 1 to 1000', { initial: '100' }),
      option('--concurrent-service-endpoint-syncs <n>', 'Services whose EndpointSlices sync at a time', {
        initial: '5',
      }),
      option('--concurrent-endpoint-syncs <n>', 'Services whose Endpoints sync at a time', { initial: '5' }),
      option('--mirroring-concurrent-service-endpoint-syncs <n>', 'Endpoints that sync at a time', { initial: '5' }),
      option('--mirroring-max-endpoints-per-subset <n>', 'most addresses mirrored of a subset', { initial: '1000' }),
      option('--endpointslice-updates-batch-period <duration>', 'time to collect changes of Pods', { initial: '0s' }),
      option('--endpoint-updates-batch-period <duration>', 'the same for Endpoints', { initial: '0s' }),
      option('--mirroring-endpointslice-updates-batch-period <duration>', 'the same for mirroring', {
        initial: '0s',
      }),
    ],
  },
  {
    title: 'Leader election',
    flags: [
      option('--leader-elect [bool]', 'only one of several replicas writes', { initial: 'true' }),
      option('--leader-elect-lease-duration <duration>', 'another replica takes over after this time', {
        initial: '15s',
      }),
      option('--leader-elect-renew-deadline <duration>', 'a leader that cannot renew stops after this', {
        initial: '10s',
      }),
      option('--leader-elect-retry-period <duration>', 'time between two tries', { initial: '2s' }),
      option('--leader-elect-resource-name <name>', 'name of the Lease', { initial: 'slicewire-controller' }),
      option('--leader-elect-resource-namespace <name>', 'namespace of the Lease', { initial: 'kube-system' }),
    ],
  },
  {
    title: 'Health, metrics and log',
    flags: [
      option('--bind-address <address>', 'address of /healthz, /readyz and /metrics', { initial: '127.0.0.1:10261' }),
      option('--scrape-bind-address <address>', 'one more address, for /metrics alone (default: none; port: 10261)'),
      MAX_CONNECTIONS_PER_CLIENT,
      LOGGING_FORMAT,
      option('-v, --v <level>', 'log verbosity'),
    ],
  },
];
