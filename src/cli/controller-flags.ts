/** The flags of `slicewire controller`: those of kube-controller-manager for these three controllers. */
import type { Command } from 'commander';

export function withControllerFlags(command: Command): Command {
  return command
    .optionsGroup('API server:')
    .option('--kubeconfig <file>', 'how to reach the API server; default: the service account of the pod')
    .option('--master <url>', 'address of the API server; overrides the kubeconfig')
    .option('--kube-api-qps <n>', 'most requests a second of each controller; negative: no limit (default: -1)')
    .option('--kube-api-burst <n>', 'requests that may then come at once (default: 30)')
    .optionsGroup('Controllers:')
    .option(
      '--controllers <names>',
      'controllers to run: endpointslice-controller, endpoints-controller, endpointslice-mirroring-controller; * is all, -name leaves one out (default: *)',
    )
    .option('--max-endpoints-per-slice <n>', 'most endpoints in an EndpointSlice, 1 to 1000 (default: 100)')
    .option('--concurrent-service-endpoint-syncs <n>', 'Services whose EndpointSlices sync at a time (default: 5)')
    .option('--concurrent-endpoint-syncs <n>', 'Services whose Endpoints sync at a time (default: 5)')
    .option('--mirroring-concurrent-service-endpoint-syncs <n>', 'Endpoints that sync at a time (default: 5)')
    .option('--mirroring-max-endpoints-per-subset <n>', 'most addresses mirrored of a subset (default: 1000)')
    .option('--endpointslice-updates-batch-period <duration>', 'time to collect changes of Pods (default: 0s)')
    .option('--endpoint-updates-batch-period <duration>', 'the same for Endpoints (default: 0s)')
    .option('--mirroring-endpointslice-updates-batch-period <duration>', 'the same for mirroring (default: 0s)')
    .optionsGroup('Leader election:')
    .option('--leader-elect [bool]', 'only one of several replicas writes (default: true)')
    .option('--leader-elect-lease-duration <duration>', 'another replica takes over after this time (default: 15s)')
    .option('--leader-elect-renew-deadline <duration>', 'a leader that cannot renew stops after this (default: 10s)')
    .option('--leader-elect-retry-period <duration>', 'time between two tries (default: 2s)')
    .option('--leader-elect-resource-name <name>', 'name of the Lease (default: slicewire-controller)')
    .option('--leader-elect-resource-namespace <name>', 'namespace of the Lease (default: kube-system)')
    .optionsGroup('Health, metrics and log:')
    .option('--bind-address <address>', 'address of /healthz, /readyz and /metrics (default: 127.0.0.1:10261)')
    .option('--logging-format <format>', 'json or text (default: text on a terminal)')
    .option('-v, --v <level>', 'log verbosity');
}
