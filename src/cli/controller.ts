/** `slicewire controller`: writes EndpointSlices and Endpoints for an API server that has no kube-controller-manager. */
import { hostname } from 'node:os';
import { apiClient } from '../api/client.ts';
import { loadCredentials } from '../api/credentials.ts';
import { EventRecorder } from '../api/recorder.ts';
import type { Connect } from '../api/transport.ts';
import type { ControllerConfig, Controller as Name } from '../config/controller-config.ts';
import { userAgent, version } from '../config/version.ts';
import { ClusterCache } from '../controller/cluster-cache.ts';
import { ClusterFeed } from '../controller/cluster-feed.ts';
import type { ControllerContext, ControllerReports } from '../controller/context.ts';
import { EndpointsController } from '../controller/endpoints-controller.ts';
import { LeaderElector } from '../controller/leader.ts';
import { MirrorController } from '../controller/mirror-controller.ts';
import type { WorkQueue } from '../controller/queue.ts';
import { controllerEvents } from '../controller/reports.ts';
import { SlicesController } from '../controller/slices-controller.ts';
import { realClock } from '../host/clock.ts';
import type { Hangups } from '../host/hangups.ts';
import { growSparingly } from '../host/memory.ts';
import { controllerHandler } from '../serve/controller-server.ts';
import { keepOpen, type OpenServer } from '../serve/http.ts';
import { ControllerMetrics } from '../telemetry/controller-metrics.ts';
import { FaultLog, SEE_ALL_OF_CONTROLLER } from '../telemetry/fault-log.ts';
import { createLog, type Log } from '../telemetry/log.ts';

/** How it reaches the API server, and opens its port; the simulator has ways of its own. */
export interface ControllerOutside {
  readonly connect?: Connect;
  readonly open?: OpenServer;
}

/** What the three controllers have in common. */
interface Part {
  readonly queue: WorkQueue;
  run(signal: AbortSignal): Promise<void>;
}

/** Names of the queues in metrics, as upstream has them. */
const QUEUE_NAMES: Readonly<Record<Name, string>> = {
  'endpointslice-controller': 'endpoint_slice',
  'endpoints-controller': 'endpoint',
  'endpointslice-mirroring-controller': 'endpoint_slice_mirroring',
};

/** Resolves with the exit status when the signal aborts. Stopping removes nothing. */
export async function controllerCommand(
  config: ControllerConfig,
  signal: AbortSignal,
  hangups: Hangups,
): Promise<number> {
  growSparingly();
  const log = await createLog(config.log);
  hangups.listen(() => log.info('SIGHUP: nothing to reload: the controller has no configuration file'));
  await runController(config, log, signal);
  return 0;
}

/** Resolves when the signal aborts. */
export async function runController(
  config: ControllerConfig,
  log: Log,
  signal: AbortSignal,
  { connect, open }: ControllerOutside = {},
): Promise<void> {
  const client = apiClient(await loadCredentials(config), { userAgent: userAgent('controller'), connect });
  log.info({ server: client.server, controllers: [...config.controllers] }, 'starting');
  const faults = new FaultLog({ log, clock: realClock, seeAll: SEE_ALL_OF_CONTROLLER });
  const cache = new ClusterCache();
  const feed = new ClusterFeed({
    cache,
    client,
    clock: realClock,
    log,
    onFault: (fault) => void faults.log(fault),
  });
  const parts = new Map<Name, Part>();
  const elector = config.leader && electorOf(config.leader, { client, log });
  const metrics = new ControllerMetrics({
    version: version(),
    queues: () => [...parts].map(([name, { queue }]) => ({ name: QUEUE_NAMES[name], ...sampleOf(queue) })),
    isLeader: () => elector?.isLeader ?? true,
    leaseName: config.leader?.name ?? '',
  });
  const context = { cache, client, clock: realClock, metrics, events: eventSinkOf(config, log, signal, connect) };
  for (const [name, part] of partsOf(config, context)) parts.set(name, part);
  const listening = keepOpen({
    ...(open === undefined ? {} : { open }),
    listen: config.listen,
    handler: controllerHandler({ cache: feed, metrics, clock: realClock }),
    clock: realClock,
    signal,
    onFailure: (error) => log.error({ listen: config.listen.text }, `cannot listen: ${error.message}; trying again`),
  });
  const lead = async (until: AbortSignal) => {
    log.info('this replica writes from now on');
    await Promise.all([...parts.values()].map((part) => part.run(until)));
    log.info('this replica stopped writing');
  };
  await live(feed, (until) => (elector === undefined ? lead(until) : elector.run(lead, until)), signal).finally(() =>
    faults.flush(),
  );
  client.close();
  await listening.catch(() => undefined);
  log.info('stopped; EndpointSlices stay as they are');
}

/** Follow the cluster, and work once its lists are complete, until the signal aborts and the lease is released. */
async function live(
  feed: ClusterFeed,
  work: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  let working: Promise<void> = Promise.resolve();
  const failed = Promise.withResolvers<never>();
  const start = () => {
    working = work(signal);
    working.catch(failed.reject);
  };
  try {
    await Promise.race([feed.follow(start, signal).then(() => working), failed.promise]);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

function partsOf(
  { controllers, slices, endpoints, mirror }: ControllerConfig,
  context: ControllerContext,
): Map<Name, Part> {
  const all: readonly [Name, () => Part][] = [
    ['endpointslice-controller', () => new SlicesController(context, slices)],
    ['endpoints-controller', () => new EndpointsController(context, endpoints)],
    ['endpointslice-mirroring-controller', () => new MirrorController(context, mirror)],
  ];
  return new Map(all.filter(([name]) => controllers.has(name)).map(([name, make]) => [name, make()]));
}

function electorOf(
  settings: NonNullable<ControllerConfig['leader']>,
  { client, log }: { readonly client: ReturnType<typeof apiClient>; readonly log: Log },
): LeaderElector {
  const lease = `${settings.namespace}/${settings.name}`;
  return new LeaderElector({
    settings,
    client,
    clock: realClock,
    random: Math.random,
    onLeader: (identity) => log.info({ lease, leader: identity }, `the lease ${lease} is held by ${identity}`),
    onFailure: (error) =>
      log.warn({ lease }, `cannot acquire or renew the lease ${lease}: ${error.message}; trying again`),
  });
}

function sampleOf({ depth, adds, failures: { retries } }: WorkQueue) {
  return { depth, adds, retries };
}

function eventSinkOf(
  cluster: ControllerConfig,
  log: Log,
  signal: AbortSignal,
  connect: Connect | undefined,
): ControllerReports {
  const recorder = new EventRecorder({
    cluster,
    ...(connect === undefined ? {} : { connect }),
    userAgent: userAgent('controller'),
    reporter: { controller: 'slicewire-controller', instance: `slicewire-controller-${hostname()}` },
    clock: realClock,
    signal,
    onFailure: (error) => log.warn(`cannot write events: ${error.message}`),
  });
  return controllerEvents(recorder, (facts, text) => log.warn(facts, text));
}
