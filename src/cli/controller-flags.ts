/** The flags of `slicewire controller`: those of kube-controller-manager that concern its controllers. */
import type { Command } from 'commander';

export function withControllerFlags(command: Command): Command {
  return command
    .option('--kubeconfig <file>', 'how to reach the API server; without it, as a pod in its cluster')
    .option('--master <url>', 'address of the API server; wins over the kubeconfig')
    .option(
      '--controllers <names>',
      'which of endpointslice-controller, endpoints-controller, endpointslice-mirroring-controller; -name for all but it (default: *)',
    )
    .option('--max-endpoints-per-slice <n>', 'endpoints that a slice holds at most, 1 to 1000 (default: 100)')
    .option('--concurrent-service-endpoint-syncs <n>', 'Services whose slices are written at a time (default: 5)')
    .option('--concurrent-endpoint-syncs <n>', 'Services whose Endpoints are written at a time (default: 5)')
    .option('--mirroring-concurrent-service-endpoint-syncs <n>', 'Endpoints that are mirrored at a time (default: 5)')
    .option('--mirroring-max-endpoints-per-subset <n>', 'addresses of a subset that are mirrored (default: 1000)')
    .option('--endpointslice-updates-batch-period <duration>', 'a change of a Pod waits for others (default: 0s)')
    .option('--endpoint-updates-batch-period <duration>', 'the same for Endpoints (default: 0s)')
    .option('--mirroring-endpointslice-updates-batch-period <duration>', 'the same for mirrored ones (default: 0s)')
    .option('--leader-elect [bool]', 'of several replicas one writes (default: true)')
    .option('--leader-elect-lease-duration <duration>', 'others take over after (default: 15s)')
    .option('--leader-elect-renew-deadline <duration>', 'who cannot renew stops after (default: 10s)')
    .option('--leader-elect-retry-period <duration>', 'between two tries (default: 2s)')
    .option('--leader-elect-resource-name <name>', 'of the Lease (default: slicewire-controller)')
    .option('--leader-elect-resource-namespace <name>', 'where it is (default: kube-system)')
    .option('--bind-address <address>', 'where /healthz, /readyz and /metrics are served (default: 127.0.0.1:10261)')
    .option('--logging-format <format>', 'json or text (default: text on a terminal)')
    .option('-v, --v <level>', 'how much to log');
}
