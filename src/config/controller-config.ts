/** `slicewire controller`: its flags, which are kube-controller-manager's for these three controllers, and the configuration that they make. */
import { hostname } from 'node:os';
import { durationText } from '../base/duration.ts';
import type { EndpointsSettings } from '../controller/endpoints-controller.ts';
import type { LeaderSettings } from '../controller/leader.ts';
import type { MirrorSettings } from '../controller/mirror-controller.ts';
import type { RequestRate } from '../controller/pace.ts';
import type { SlicesSettings } from '../controller/slices-controller.ts';
import { LOGGING_FORMAT, MAX_CONNECTIONS_PER_CLIENT } from './agent-flags.ts';
import { type FlagGroup, type Flags, option } from './flags.ts';
import { readServers, type ServerSettings } from './listen.ts';
import {
  checkOrder,
  type FlagReader,
  fromCommandLine,
  isOn,
  type LogConfig,
  readDuration,
  readInteger,
  readLog,
  readTimeout,
} from './readers.ts';

/** The default of --kube-api-qps: no limit. */
const KUBE_API_QPS = '-1';
/** The default of --kube-api-burst. */
const KUBE_API_BURST = 30;

/** Names of the controllers in kube-controller-manager's --controllers. */
export const CONTROLLERS = [
  'endpointslice-controller',
  'endpoints-controller',
  'endpointslice-mirroring-controller',
] as const;
type Controller = (typeof CONTROLLERS)[number];

export const CONTROLLER_FLAGS: readonly FlagGroup[] = [
  {
    title: 'API server',
    flags: [
      option('--kubeconfig <file>', 'how to reach the API server; default: the service account of the pod'),
      option('--master <url>', 'address of the API server; overrides the kubeconfig'),
      option('--kube-api-qps <n>', 'most requests a second of each controller; negative: no limit', {
        initial: KUBE_API_QPS,
      }),
      option('--kube-api-burst <n>', 'requests that may then come at once', { initial: String(KUBE_API_BURST) }),
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

export interface ControllerConfig extends ServerSettings {
  readonly kubeconfig: string | undefined;
  readonly master: string | undefined;
  readonly controllers: ReadonlySet<Controller>;
  /** The rate of each controller's requests, beside its watches and the lease; undefined for no limit. */
  readonly requests: RequestRate | undefined;
  /** Milliseconds in all periods. */
  readonly slices: SlicesSettings;
  readonly endpoints: EndpointsSettings;
  readonly mirror: MirrorSettings;
  /** undefined without leader election: the replica always works. */
  readonly leader: LeaderSettings | undefined;
  readonly log: LogConfig;
}

const PORT = 10_261;

/** Throws a ConfigError that lists every fault. */
export function controllerConfig(flags: Flags): ControllerConfig {
  return fromCommandLine(flags, (read) => {
    const workers = (flag: string) => readInteger(read, flag, { initial: 5, least: 1, most: 1000 });
    const period = (flag: string) => readTimeout(read, flag, '0s');
    return {
      kubeconfig: read.text('kubeconfig'),
      master: read.text('master'),
      controllers: readControllers(read),
      requests: readRequests(read),
      slices: {
        workers: workers('concurrent-service-endpoint-syncs'),
        mostPerSlice: readInteger(read, 'max-endpoints-per-slice', { initial: 100, least: 1, most: 1000 }),
        batchPeriod: period('endpointslice-updates-batch-period'),
      },
      endpoints: {
        workers: workers('concurrent-endpoint-syncs'),
        batchPeriod: period('endpoint-updates-batch-period'),
      },
      mirror: {
        workers: workers('mirroring-concurrent-service-endpoint-syncs'),
        mostPerSubset: readInteger(read, 'mirroring-max-endpoints-per-subset', { initial: 1000, least: 1, most: 1000 }),
        batchPeriod: period('mirroring-endpointslice-updates-batch-period'),
      },
      leader: readLeader(read),
      ...readServers(read, PORT),
      log: readLog(read),
    };
  });
}

/** `*` for all, `name` for one, `-name` for all but one, with `*` or without. */
function readControllers(read: FlagReader): ReadonlySet<Controller> {
  const words = (read.text('controllers') ?? '*')
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
  const known = (word: string) => CONTROLLERS.find((name) => name === word);
  const isAllBut = words.length > 0 && (words.includes('*') || words.every((word) => word.startsWith('-')));
  const chosen = new Set<Controller>(isAllBut ? CONTROLLERS : []);
  let isRight = true;
  for (const word of words.filter((one) => one !== '*')) {
    const name = known(word.replace(/^-/, ''));
    if (name === undefined) {
      isRight = false;
      read.fault(
        'controllers',
        `${word} is not a controller; choose from ${CONTROLLERS.join(', ')}; * means all of them, and a - before a name leaves it out`,
      );
    } else if (word.startsWith('-')) chosen.delete(name);
    else chosen.add(name);
  }
  if (chosen.size === 0 && isRight) read.fault('controllers', 'must name at least one controller');
  return chosen;
}

/** A rate as kube-controller-manager has it: a number, also with a fraction; a negative one is no limit. */
function readRequests(read: FlagReader): RequestRate | undefined {
  const text = read.text('kube-api-qps') ?? KUBE_API_QPS;
  const perSecond = /^-?\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN;
  if (!(perSecond < 0 || perSecond > 0)) {
    read.fault('kube-api-qps', 'must be a number of requests a second above 0, or a negative number for no limit');
  }
  const burst = readInteger(read, 'kube-api-burst', { initial: KUBE_API_BURST, least: 1, most: 100_000 });
  return perSecond > 0 ? { perSecond, burst } : undefined;
}

const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

function readLeader(read: FlagReader): LeaderSettings | undefined {
  const leaseDuration = readDuration(read, 'leader-elect-lease-duration', '15s');
  const renewDeadline = readDuration(read, 'leader-elect-renew-deadline', '10s');
  const retryPeriod = readDuration(read, 'leader-elect-retry-period', '2s');
  // A leader that cannot renew must stop before others take over, and after more than one try.
  if (leaseDuration < 1000) read.fault('leader-elect-lease-duration', 'must be at least 1s');
  if (renewDeadline >= leaseDuration) {
    const shorter = { flag: 'leader-elect-renew-deadline', milliseconds: renewDeadline };
    const longer = { flag: 'leader-elect-lease-duration', milliseconds: leaseDuration };
    checkOrder(read, { shorter, longer, mayBeEqual: false });
  }
  if (retryPeriod <= 0 || retryPeriod * 1.2 >= renewDeadline) {
    read.fault(
      'leader-elect-retry-period',
      `must be more than 0, and 1.2 times this period must be less than --leader-elect-renew-deadline, which is ${durationText(renewDeadline)}`,
    );
  }
  const name = (flag: string, initial: string) => {
    const text = read.text(flag) || initial;
    if (!NAME.test(text))
      read.fault(flag, 'must be a name: lower-case letters, digits, - and ., at most 253 characters');
    return text;
  };
  const lease = {
    namespace: name('leader-elect-resource-namespace', 'kube-system'),
    name: name('leader-elect-resource-name', 'slicewire-controller'),
    identity: `${hostname()}_${crypto.randomUUID()}`,
    leaseDuration,
    renewDeadline,
    retryPeriod,
  };
  return isOn(read, 'leader-elect', true) ? lease : undefined;
}
