/** The flags of `slicewire fleet`, by subject. */
import { LOGGING_FORMAT, MAX_CONNECTIONS_PER_CLIENT } from './agent-flags.ts';
import { type FlagGroup, option } from './flags.ts';

export const FLEET_FLAGS: readonly FlagGroup[] = [
  {
    title: 'API server',
    flags: [
      option('--kubeconfig <file>', 'how to reach the API server; default: the service account of the pod'),
      option('--master <url>', 'address of the API server; overrides the kubeconfig'),
    ],
  },
  {
    title: 'Agents',
    flags: [
      option('--agents-service <name>', 'headless Service of the pods of the agents, as NAMESPACE/NAME', {
        initial: 'kube-system/slicewire-agents',
      }),
      option('--token-file <file>', 'token for the agents, read for each connection', {
        initial: '/var/run/secrets/slicewire/token',
      }),
      option('--leave-out-after <duration>', 'nobody waits for a Node that has not been ready for so long', {
        initial: '1m',
      }),
    ],
  },
  {
    title: 'Questions, health, metrics and log',
    flags: [
      option('--bind-address <address>', 'address of questions, page, /healthz, /readyz and /metrics', {
        initial: '127.0.0.1:10262',
      }),
      option('--authentication [bool]', 'ask the API server who may ask from other machines', { initial: 'true' }),
      option('--scrape-bind-address <address>', 'one more address, for /metrics alone (default: none; port: 10262)'),
      MAX_CONNECTIONS_PER_CLIENT,
      LOGGING_FORMAT,
      option('-v, --v <level>', 'log verbosity'),
    ],
  },
];
