/** The life of `slicewire fleet`: its parts, its server, and its end. */
import { hostname } from 'node:os';
import { socketAddress } from '../base/address.ts';
import { type Clock, realClock, sleep } from '../base/clock.ts';
import { AccessReviews } from '../cluster/api/access-reviews.ts';
import { apiClient } from '../cluster/api/client.ts';
import { loadCredentials, tokenIn } from '../cluster/api/credentials.ts';
import type { Connect } from '../cluster/api/transport.ts';
import type { FleetConfig } from '../config/fleet-config.ts';
import { userAgent } from '../config/program-version.ts';
import { fleetDelta } from '../inspect/wire/fleet-delta.ts';
import { firstOf } from '../inspect/wire/format.ts';
import type { Fault } from '../proxy/model/objects.ts';
import { authOf } from '../serve/auth.ts';
import { Clients } from '../serve/clients.ts';
import { EventStreams, PAGE_STREAM } from '../serve/event-stream.ts';
import { type HttpRequest, keepOpen, type OpenServer } from '../serve/http.ts';
import { scrapeHandler } from '../serve/metrics-server.ts';
import type { ReadPage } from '../serve/page.ts';
import type { ComponentInfo } from '../serve/zpages.ts';
import { FaultLog, SEE_ALL_OF_CONTROLLER } from '../telemetry/fault-log.ts';
import { FleetMetrics } from '../telemetry/fleet-metrics.ts';
import type { Log } from '../telemetry/log.ts';
import { listenTrouble, TroubleLog } from '../telemetry/trouble-log.ts';
import type { AskForStream } from './agent-stream.ts';
import { type FleetCore, fleetCore } from './core.ts';
import { FleetFeed } from './fleet-feed.ts';
import { AgentLinks } from './link.ts';
import type { Histogram } from './programming-latency.ts';
import { FleetQuestions, fleetHandler, MAX_QUESTIONS_PER_CLIENT } from './server.ts';

export interface FleetOutside {
  readonly component: ComponentInfo;
  readonly readPage: ReadPage;
  /** Tests replace the connection to the API server, the port, the connections to the agents, and how the token's file is read. */
  readonly connect?: Connect;
  readonly open?: OpenServer;
  readonly ask?: AskForStream | undefined;
  readonly readToken?: ReadToken | undefined;
  readonly clock?: Clock;
  /** Milliseconds that questions may wait after the signal to stop. */
  readonly ending?: number;
}

/** See `tokenIn`. */
type ReadToken = (file: string) => Promise<string | undefined>;

/** Questions may wait so long after the signal to stop, because a kubelet does not ask again. */
const STOP_TIMEOUT_MS = 10_000;
/** Time to send the last answers. */
const LAST_ANSWERS_MS = 100;
const STOPPED = 'this replica of the fleet stops: ask again, and another one answers';

/** A hook keeps its connection until the endpoints of its Pod are drained. Half of the connections are reserved for the Nodes. */
const MAX_CONNECTIONS = 4096;
const RESERVED_CONNECTIONS = 2048;
/** The kubelet of a Node asks once for each Pod that ends there. Each question of a Node that may wait has its connection. */
const CONNECTIONS_PER_NODE = MAX_QUESTIONS_PER_CLIENT + 12;

/** A token for the fleet is made for this audience, or for the API server itself. */
const AUDIENCES = ['slicewire-fleet', ''];

/** Follows the cluster and answers until the signal aborts and the questions that wait have ended. Throws KubeconfigUnusable. */
export async function runFleet(
  config: FleetConfig,
  log: Log,
  signal: AbortSignal,
  {
    component,
    readPage,
    connect,
    open,
    ask,
    readToken,
    clock: given = realClock,
    ending = STOP_TIMEOUT_MS,
  }: FleetOutside,
): Promise<void> {
  const clock = endingClock(given);
  const startedAt = clock.now();
  const client = apiClient(await loadCredentials(config), { userAgent: userAgent('fleet'), connect });
  log.info({ server: client.server, agents: config.agents }, 'starting');
  const { version } = component;
  const own = { replica: hostname(), version, source: client.server };
  const core = fleetCore({ clock, leaveOutAfter: config.leaveOutAfter, ...own });
  const { objects, nodes } = core;
  const links = linksOf(core, config, { clock, ask, readToken });
  const faults = new FaultLog({ log, clock, seeAll: SEE_ALL_OF_CONTROLLER });
  const onFault = (fault: Fault) => void faults.log(fault);
  const feed = new FleetFeed({ objects, nodes, links, client, clock, log, onFault, agents: config.agents });
  const isTrusted = (address: string) => isOfNode(nodes, address);
  const clients = new Clients({
    ...{ clock, perClient: () => config.connectionsPerClient, isTrusted },
    ...{ max: MAX_CONNECTIONS, reserved: RESERVED_CONNECTIONS, perTrustedClient: CONNECTIONS_PER_NODE },
    onTurnedAway: (address, sentence) => log.warn({ address }, sentence),
  });
  const metrics = metricsOf(core, { version, links, feed, clients });
  /** Aborts when the last question has ended. */
  const over = new AbortController();
  const questions = new FleetQuestions({ ...core, clock, gap: () => feed.gap });
  const reviews = new AccessReviews({
    ...{ client: async () => client, audiences: AUDIENCES, clock, signal: over.signal, isTrusted },
  });
  const handler = fleetHandler({
    ...{ questions, feed, metrics, readPage, clock, component },
    live: liveOf(core, clock, log),
    auth: authOf({
      isOn: () => config.authentication,
      access: () => reviews,
      flag: '--authentication',
      needsNone: (request) => questions.isOfNode(request),
    }),
    unready: () => (signal.aborted ? 'the fleet stops' : withoutAgent(core, clock.now() - startedAt)),
  });
  const shared = { ...(open === undefined ? {} : { open }), clock, signal };
  const unbound = new TroubleLog({ log, clock, level: 'error' });
  const { listen, scrape } = config;
  const following = feed.follow(over.signal);
  await Promise.all([
    keepOpen({
      ...shared,
      listen: { ...listen, clients },
      handler,
      ...listenTrouble(unbound, listen.text),
      untilAnswered: () => untilAnswered(core, questions, clock, ending),
    }),
    ...(scrape === undefined
      ? []
      : [
          keepOpen({
            ...shared,
            listen: { ...scrape, clients },
            handler: scrapeHandler(() => metrics),
            ...listenTrouble(unbound, scrape.text),
          }),
        ]),
  ]);
  over.abort(new Error('the fleet stopped'));
  links.close();
  await following;
  faults.flush();
  client.close();
  clock.end();
  log.info('stopped');
}

/** Kubelets, which ask for the Pods that end on their Node, are trusted clients. */
function isOfNode(nodes: FleetCore['nodes'], text: string): boolean {
  const address = socketAddress(text);
  return address !== undefined && nodes.nodeOf(address) !== undefined;
}

/** A new replica is not ready for so long while a Node has no agent: agents and fleet may be rolled out at the same time. */
const AGENTS_TIMEOUT_MS = 60_000;

/** An agent that is away when the fleet starts has left rules. An older replica knows of them, so a new one waits for the agent. */
function withoutAgent({ nodes }: FleetCore, age: number): string | undefined {
  const names = age < AGENTS_TIMEOUT_MS ? nodes.withoutAgent : [];
  if (names.length === 0) return undefined;
  return `${firstOf(names, 10)}: no agent has an endpoint there yet, and rules of an earlier one may be in the kernel; waiting for at most ${AGENTS_TIMEOUT_MS / 1000} s`;
}

/** A clock whose waits end with the fleet. The wait until a Node is left out must not keep the process alive. */
function endingClock(clock: Clock): Clock & { end(): void } {
  const waits = new Set<() => void>();
  return {
    now: () => clock.now(),
    wall: () => clock.wall(),
    after(milliseconds, call) {
      const cancel = clock.after(milliseconds, () => {
        waits.delete(end);
        call();
      });
      const end = () => {
        waits.delete(end);
        cancel();
      };
      waits.add(end);
      return end;
    },
    end: () => {
      for (const end of waits) end();
    },
  };
}

/** Resolves when no question waits. Those that wait too long are answered that this replica stops. */
async function untilAnswered(
  { drains }: FleetCore,
  questions: FleetQuestions,
  clock: Clock,
  ending: number,
): Promise<void> {
  const never = new AbortController().signal;
  for (const until = clock.now() + ending; questions.waiting > 0 && clock.now() < until; )
    await sleep(clock, 20, never);
  questions.stop(STOPPED);
  drains.stop(STOPPED);
  await sleep(clock, LAST_ANSWERS_MS, never);
}

function linksOf(
  { nodes }: FleetCore,
  { tokenFile }: FleetConfig,
  { clock, ask, readToken = tokenIn }: { readonly clock: Clock } & Pick<FleetOutside, 'ask' | 'readToken'>,
): AgentLinks {
  return new AgentLinks({
    ...{ clock, random: Math.random, pace: () => nodes.pace, ask },
    // Agents may need no token (--programmed-authentication=false), so a missing file is no error.
    token: () => readToken(tokenFile),
    sink: {
      event: (node, event, isFirst) => {
        if (isFirst) nodes.setLink(node, { state: 'open' });
        nodes.event(node, event);
      },
      failed: (node, why, isTooOld) => nodes.setLink(node, isTooOld ? { state: 'too old' } : { state: 'failed', why }),
    },
  });
}

function liveOf({ answers, nodes, objects }: FleetCore, clock: Clock, log: Log) {
  const stream = new EventStreams(
    PAGE_STREAM,
    {
      now: () => answers.live(),
      whole: (live) => live,
      changed: fleetDelta,
      onThrown: (error) =>
        log.error(`the change could not be sent to the page: ${String(error)}; its streams were ended`),
    },
    clock,
  );
  nodes.changes.add(() => stream.touch());
  objects.changes.add(() => stream.touch());
  return (request: HttpRequest) => stream.open(request);
}

function metricsOf(
  { answers, programming, drains }: FleetCore,
  { version, links, feed, clients }: { version: string; links: AgentLinks; feed: FleetFeed; clients: Clients },
): FleetMetrics {
  return new FleetMetrics({
    version,
    programming: () => countsOf(programming.histogram()),
    lastNode: () => countsOf(programming.histogram(true)),
    states: () => answers.states(),
    waiting: () => drains.waiting,
    drained: () => drains.answered,
    events: () => links.events,
    connections: () => links.open,
    watches: () => feed.watches,
    turnedAway: () => clients.turnedAway,
  });
}

function countsOf({ buckets, count, sum }: Histogram) {
  return { buckets: buckets.map(({ seconds, count: at }) => ({ upTo: seconds, count: at })), count, sum };
}
