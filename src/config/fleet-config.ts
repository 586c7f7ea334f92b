/** `slicewire fleet`: its flags, and the configuration that they make. */
import { LOGGING_FORMAT, MAX_CONNECTIONS_PER_CLIENT } from './agent-flags.ts';
import { type FlagGroup, type Flags, option } from './flags.ts';
import { readServers, readServiceName, type ServerSettings } from './listen.ts';
import { type FlagReader, fromCommandLine, isOn, type LogConfig, readLog, readTimeout } from './readers.ts';

/** The default of --leave-out-after. */
const LEAVE_OUT_AFTER = '1m';

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
      option(
        '--leave-out-after <duration>',
        'leave out a Node that has not been ready for so long: nothing waits for it then',
        {
          initial: LEAVE_OUT_AFTER,
        },
      ),
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

export interface FleetConfig extends ServerSettings {
  readonly kubeconfig: string | undefined;
  readonly master: string | undefined;
  /** The headless Service whose EndpointSlices have the addresses of the agents. */
  readonly agents: { readonly namespace: string; readonly name: string };
  readonly tokenFile: string;
  /** Milliseconds that a Node may be not ready before it is left out: nothing waits for it then. */
  readonly leaveOutAfter: number;
  /** Requests of other machines need a token that the API server knows. */
  readonly authentication: boolean;
  readonly log: LogConfig;
}

const PORT = 10_262;

/** Throws a ConfigError that lists every fault. */
export function fleetConfig(flags: Flags): FleetConfig {
  return fromCommandLine(flags, (read) => ({
    ...readServers(read, PORT),
    kubeconfig: read.text('kubeconfig'),
    master: read.text('master'),
    agents: readAgents(read),
    tokenFile: readTokenFile(read),
    leaveOutAfter: readTimeout(read, 'leave-out-after', LEAVE_OUT_AFTER),
    authentication: isOn(read, 'authentication', true),
    log: readLog(read),
  }));
}

function readAgents(read: FlagReader): FleetConfig['agents'] {
  const [namespace, name] = readServiceName(read, 'agents-service', 'kube-system/slicewire-agents');
  return { namespace, name };
}

function readTokenFile(read: FlagReader): string {
  const file = read.text('token-file') ?? '/var/run/secrets/slicewire/token';
  if (file === '') read.fault('token-file', 'must name a file');
  return file;
}
