/** Prometheus' own program for files of rules and for metrics. */
import { type CommandResult, realCommands } from '../../../src/kernel/commands.ts';
import { NEVER } from '../proxy/rig.ts';

export async function promtool(args: readonly string[], input?: string): Promise<CommandResult> {
  const given = input === undefined ? {} : { input: () => [input] };
  return await realCommands.run({ file: 'promtool', args, ...given }, NEVER);
}

const NO_TOTAL = 'non-counter metrics should not have "_total" suffix';
const TOTAL = 'counter metrics should have "_total" suffix';

/** What it has against names that are Kubernetes' or prom-client's own. */
export const OF_UPSTREAM: readonly string[] = [
  `kubeproxy_sync_proxy_rules_iptables_total ${NO_TOTAL}`,
  `kubeproxy_sync_proxy_rules_no_local_endpoints_total ${NO_TOTAL}`,
  ...['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total ${NO_TOTAL}`),
  `endpoint_slice_controller_changes ${TOTAL}`,
  `endpoint_slice_controller_syncs ${TOTAL}`,
  `endpoint_slice_mirroring_controller_changes ${TOTAL}`,
];
