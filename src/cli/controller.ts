/** `slicewire controller`: writes EndpointSlices and Endpoints for an API server that has no kube-controller-manager. */
import { hostname } from 'node:os';
import { componentInfo } from '../agent/component-info.ts';
import { isLoopback } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { realClock } from '../base/clock.ts';
import { type ApiClient, apiClient } from '../cluster/api/client.ts';
import { loadCredentials } from '../cluster/api/credentials.ts';
import { EventRecorder } from '../cluster/api/event-recorder.ts';
import type { Connect } from '../cluster/api/transport.ts';
import { CONTROLLER_FLAGS, type ControllerConfig, controllerConfig } from '../config/controller-config.ts';
import type { Flags } from '../config/flags.ts';
import type { ListenAddress } from '../config/listen.ts';
import { userAgent, version } from '../config/program-version.ts';
import { ClusterCache } from '../controller/cluster-cache.ts';
import { ClusterFeed } from '../controller/cluster-feed.ts';
import type { ControllerReports } from '../controller/controller-context.ts';
import { ControllerParts, live } from '../controller/controllers.ts';
import { LeaderElector } from '../controller/leader.ts';
import { ControllerMetrics, controllerHandler } from '../controller/monitoring.ts';
import { controllerEvents } from '../controller/reports.ts';
import { countText } from '../inspect/wire/format.ts';
import { growSparingly, releaseMemory } from '../kernel/memory.ts';
import type { Hangups } from '../kernel/process.ts';
import { Clients } from '../serve/clients.ts';
import { type Handler, keepOpen, type OpenServer } from '../serve/http.ts';
import { scrapeHandler } from '../serve/metrics-server.ts';
import { FaultLog, RationedLines, SEE_ALL_OF_CONTROLLER } from '../telemetry/fault-log.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import { listenTrouble, TroubleLog } from '../telemetry/trouble-log.ts';

/** Replaces parts of the controller's surroundings: the simulator has its own API server and ports. */
export interface ControllerOutside {
  readonly connect?: Connect;
  readonly open?: OpenServer;
  /** The command line. */
  readonly flags?: Flags;
  /** Called when the objects of the lists are written, or another replica writes them. */
  readonly release?: () => void;
}

/** Resolves with the exit status when the signal aborts. Stopping removes nothing. */
export async function controllerCommand(flags: Flags, signal: AbortSignal, hangups: Hangups): Promise<number> {
  const config = controllerConfig(flags);
  growSparingly();
  const log = await createLog(config.log);
  hangups.listen(() => log.info('SIGHUP: nothing to reload: the controller has no configuration file'));
  await runController(config, log, signal, { release: releaseMemory, flags });
  return 0;
}

/** Resolves when the signal aborts. */
export async function runController(
  config: ControllerConfig,
  log: Log,
  signal: AbortSignal,
  { connect, open, flags = {}, release = () => undefined }: ControllerOutside = {},
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
  const elector = config.leader && electorOf(config.leader, { client, log, release });
  const clients = new Clients({
    clock: realClock,
    perClient: () => config.connectionsPerClient,
    onTurnedAway: (address, sentence) => log.warn({ address }, sentence),
  });
  const metrics = new ControllerMetrics({
    version: version(),
    queues: () => parts.queues,
    isLeader: () => elector?.isLeader ?? true,
    leaseName: config.leader?.name ?? '',
    watches: () => feed.watches,
    turnedAway: () => clients.turnedAway,
  });
  const lines = linesOf(log);
  const events = eventSinkOf(config, { log, lines, signal, connect });
  const context = { cache, client, clock: realClock, metrics, events };
  const busy = new TroubleLog({ log, clock: realClock, level: 'warn' });
  const parts = new ControllerParts(config, context, {
    onWait(milliseconds) {
      const text = `the API server has too many requests (429): the controllers wait ${milliseconds / 1000} s, as it asks`;
      busy.tell({ cause: '429', text });
    },
    onCalm: () => busy.over({ text: 'the API server takes the requests of the controllers again' }),
  });
  const component = componentInfo(flags, CONTROLLER_FLAGS);
  const isLocal = isLoopback(config.listen.address);
  const unbound = new TroubleLog({ log, clock: realClock, level: 'error' });
  const serve = (listen: ListenAddress, handler: Handler) =>
    keepOpen({
      ...(open === undefined ? {} : { open }),
      ...{ listen: { ...listen, clients }, handler, clock: realClock, signal },
      ...listenTrouble(unbound, listen.text),
    });
  const listening = Promise.all([
    serve(config.listen, controllerHandler({ feed, metrics, clock: realClock, component, isLocal })),
    ...(config.scrape === undefined
      ? []
      : [
          serve(
            config.scrape,
            scrapeHandler(() => metrics),
          ),
        ]),
  ]);
  const lead = async (until: AbortSignal) => {
    log.info('this replica writes from now on');
    await parts.run(release, until);
    log.info('this replica stopped writing');
  };
  const work = (until: AbortSignal) => (elector === undefined ? lead(until) : elector.run(lead, until));
  await live(feed, work, signal).finally(() => {
    faults.flush();
    lines.flush();
  });
  client.close();
  await listening.catch(() => undefined);
  log.info('stopped; EndpointSlices stay as they are');
}

function electorOf(
  settings: NonNullable<ControllerConfig['leader']>,
  { client, log, release }: { client: ApiClient; log: Log; release: () => void },
): LeaderElector {
  const lease = `${settings.namespace}/${settings.name}`;
  const unrenewed = new TroubleLog({ log, clock: realClock, level: 'warn' });
  const facts = { lease };
  return new LeaderElector({
    settings,
    client,
    clock: realClock,
    random: Math.random,
    onLeader: (identity) => {
      log.info({ lease, leader: identity }, `the lease ${lease} is held by ${identity}`);
      if (identity !== settings.identity) release();
    },
    onFailure(error) {
      const cause = causeOf(error);
      unrenewed.tell({ cause, facts, text: `cannot acquire or renew the lease ${lease}: ${cause}; trying again` });
    },
    onAnswer: () => unrenewed.over({ facts, text: `the lease ${lease} can be read and written again` }),
  });
}

/** The lines are rationed, because there may be one for each object of the cluster. */
function linesOf(log: Log): RationedLines {
  return new RationedLines({
    log,
    clock: realClock,
    rest: 'v2',
    counted: (kind, count) =>
      `${kind}: ${countText(count, 'more line')} of this kind not logged one by one: -v 2 logs each`,
  });
}

interface EventSinkInput {
  readonly log: Log;
  readonly lines: RationedLines;
  readonly signal: AbortSignal;
  readonly connect: Connect | undefined;
}

function eventSinkOf(cluster: ControllerConfig, { log, lines, signal, connect }: EventSinkInput): ControllerReports {
  const recorder = new EventRecorder({
    cluster,
    ...(connect === undefined ? {} : { connect }),
    userAgent: userAgent('controller'),
    reporter: { controller: 'slicewire-controller', instance: `slicewire-controller-${hostname()}` },
    clock: realClock,
    signal,
    onFailure: (error) => log.warn(`cannot write events: ${error.message}`),
  });
  return controllerEvents(recorder, {
    rationed: (level, line) => void lines.write({ level, ...line }),
    each: (facts, text) => log.v2(facts, text),
  });
}
