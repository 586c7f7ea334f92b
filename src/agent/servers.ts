/**
 * The servers of a running agent: health, metrics, the health check ports of Services, and node ports on loopback. They stay open across
 * reloads where their addresses do.
 */

import type { Address, Family } from '../base/address.ts';
import { realClock } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { ListenAddress } from '../config/listen.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import type { ServicePort, ServicePortKey } from '../proxy/model/service-port.ts';
import { type Handler, keepOpen, type OpenServer } from '../serve/http.ts';
import { type IsWritten, type ListedEndpoints, ServiceHealth } from '../serve/service-health.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';
import { CannotRun } from './cannot-run.ts';
import type { NodeEvents } from './node-events.ts';
import type { RelayPort } from './relay/node-ports.ts';
import { NodePortRelay } from './relay/relay.ts';
import type { RelaySockets } from './relay/sockets.ts';

/** `scrape` serves /metrics alone. */
type ServerName = 'healthz' | 'metrics' | 'scrape';

export interface ServersOptions {
  readonly open: OpenServer;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly events: NodeEvents;
  readonly handlers: Readonly<Record<ServerName, Handler>>;
  readonly isHealthy: () => boolean;
  /** The addresses on which health check ports of Services listen. */
  readonly listenAddresses: (family: Family) => Promise<readonly Address[]>;
  readonly slices: ListedEndpoints;
  readonly relaySockets: RelaySockets;
  /** The endpoints, as `ip:port`, that slices list for a node port. */
  readonly listedEndpoints: (port: RelayPort) => ReadonlySet<string>;
}

/** An open server. */
interface Open {
  readonly listen: ListenAddress;
  readonly stop: AbortController;
  /** Resolves when its port is closed. */
  readonly ended: Promise<void>;
}

export class Servers {
  /** Rejects with CannotRun when a port cannot be bound and --bind-address-hard-fail is set. */
  readonly failed: Promise<never>;
  readonly #options: ServersOptions;
  readonly #open = new Map<ServerName, Open>();
  /** Servers that a changed configuration ended. */
  readonly #closing = new Set<Promise<void>>();
  readonly #serviceHealth: ServiceHealth;
  /** Node ports on loopback. */
  readonly relay: NodePortRelay;
  /** Ports that cannot be served. They are tried again by timers. */
  readonly #unserved: TroubleLog;
  #fail: (error: Error) => void = () => undefined;
  #hardFail = false;

  constructor(options: ServersOptions) {
    this.#options = options;
    this.#unserved = new TroubleLog({ log: options.log, clock: realClock, level: 'error' });
    this.failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => undefined);
    this.#serviceHealth = new ServiceHealth({
      open: options.open,
      isHealthy: options.isHealthy,
      addresses: options.listenAddresses,
      slices: options.slices,
      clock: realClock,
      onFailure: (service, port, cause, address) => this.#cannotServe(service, port, cause, address),
      onEnd: (service, port, address, isBound) =>
        this.#unserved.over({
          of: healthCheckOf(service, port, address),
          facts: { service, port, address },
          ...(isBound ? { text: `Service ${service}: the health check port ${port} is served on ${address} now` } : {}),
        }),
    });
    this.relay = new NodePortRelay({
      sockets: options.relaySockets,
      clock: realClock,
      random: Math.random,
      listed: options.listedEndpoints,
      onFailure: (port, address, cause) => this.#cannotRelay(port, address, cause),
      onRecovery: ({ service, port }, address) =>
        options.log.info({ service, port }, `Service ${service}: the node port ${port} is served on ${address} now`),
      onTrouble: (sentence) => options.log.warn(sentence),
    });
  }

  /** Listen at the addresses of this configuration. A server whose address stays the same stays open. */
  listen({ serve }: Config): void {
    this.#hardFail = serve.hardFail;
    this.#listenAt('healthz', serve.healthz);
    this.#listenAt('metrics', serve.metrics);
    this.#listenAt('scrape', serve.scrape);
  }

  /** `ServiceHealth.slicesReplaced` */
  slicesReplaced(): void {
    this.#serviceHealth.slicesReplaced();
  }

  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    this.#serviceHealth.update(changes);
    this.relay.update(changes);
  }

  /** Open and close health check ports, and node ports on loopback, after rules were written. */
  async sync(isWritten: IsWritten): Promise<void> {
    await this.#serviceHealth.sync(isWritten);
    await this.relay.sync();
  }

  async close(): Promise<void> {
    const open = [...this.#open.values()];
    for (const { stop } of open) stop.abort();
    const closing = [...this.#closing, ...open.map(({ ended }) => ended)];
    await Promise.all([...closing, this.#serviceHealth.close(), this.relay.close()]);
  }

  #listenAt(name: ServerName, listen: ListenAddress | undefined): void {
    const before = this.#open.get(name);
    if (before !== undefined && before.listen.text === listen?.text) return;
    if (before !== undefined) this.#end(before);
    this.#open.delete(name);
    if (listen === undefined) return;
    const stop = new AbortController();
    const ended = this.#serve(name, { listen, signal: stop.signal });
    this.#open.set(name, { listen, stop, ended });
  }

  #end({ stop, ended }: Open): void {
    stop.abort();
    this.#closing.add(ended);
    void ended.then(() => this.#closing.delete(ended));
  }

  /** A port that a former server still closes cannot be bound. */
  async #serve(
    name: ServerName,
    { listen, signal }: { readonly listen: ListenAddress; readonly signal: AbortSignal },
  ): Promise<void> {
    await Promise.all(this.#closing);
    await keepOpen({
      open: this.#options.open,
      listen,
      handler: this.#options.handlers[name],
      clock: realClock,
      signal: AbortSignal.any([signal, this.#options.signal]),
      onFailure: (error) => this.#cannotListen(name, listen, error),
      onOpen: () =>
        this.#unserved.over({
          of: `${name} ${listen.text}`,
          facts: { listen: listen.text },
          text: `the ${name} server listens at ${listen.text} now`,
        }),
    });
  }

  #cannotListen(name: ServerName, { text }: ListenAddress, error: Error): void {
    const reason = name === 'healthz' ? 'FailedToStartProxierHealthcheck' : 'FailedToStartMetricServer';
    const note = `the ${name} server cannot listen at ${text}: ${error.message}`;
    const { log, events } = this.#options;
    const facts = { listen: text };
    if (this.#hardFail) log.error(facts, note);
    else this.#unserved.tell({ of: `${name} ${text}`, cause: error.message, facts, text: `${note}; trying again` });
    events.emitNode({ type: 'Warning', reason, action: 'StartKubeProxy', note });
    if (this.#hardFail) this.#fail(new CannotRun(`${note} (--bind-address-hard-fail)`));
  }

  #cannotServe(service: ServiceKey, port: number, cause: string, address: Address): void {
    const note = `the health check port ${port} cannot be served: ${cause}`;
    const of = healthCheckOf(service, port, address);
    const text = `Service ${service}: ${note}; trying again`;
    this.#unserved.tell({ of, cause, facts: { service, port, address }, text });
    this.#options.events.emitUnserved(service, note);
  }

  #cannotRelay({ service, port }: RelayPort, address: Address, cause: string): void {
    const note = `the node port ${port} cannot be served on ${address}: ${cause}`;
    const { log, events } = this.#options;
    const rest = 'its other addresses and all other node ports are served';
    log.error({ service, port, address }, `Service ${service}: ${note}; ${rest}; trying again until the port is free`);
    events.emitUnserved(service, note, 'FailedToRelayNodePort');
  }
}

/** The key of a health check port in the log of troubles. */
function healthCheckOf(service: ServiceKey, port: number, address: Address): string {
  return `${service} ${port} ${address}`;
}
