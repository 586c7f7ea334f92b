/** Addresses of the health and metrics servers. */
import { type Address, endpointText, parseAddress } from '../base/address.ts';
import { type FlagReader, isOn, readInteger } from './readers.ts';

export interface ListenAddress {
  readonly address: Address;
  readonly port: number;
  /** `address:port`, with brackets for IPv6. */
  readonly text: string;
}

export interface ServeConfig {
  /** undefined where --healthz-port=0 turned it off. */
  readonly healthz: ListenAddress | undefined;
  readonly metrics: ListenAddress;
  /** For /metrics alone (--scrape-bind-address). */
  readonly scrape: ListenAddress | undefined;
  /** Whether to exit if one of their ports cannot be bound. */
  readonly hardFail: boolean;
  /** Whether the metrics server has /debug/pprof. */
  readonly profiling: boolean;
  /** Whether other machines need a token for /programmed on the health server (--programmed-authentication). */
  readonly programmedAuthentication: boolean;
  /** Connections that one remote address may have to each port (--max-connections-per-client). */
  readonly connectionsPerClient: number;
  /** The Service of the fleet, as NAMESPACE/NAME. Connections of its addresses have places of their own (--fleet-service). */
  readonly fleetService: string;
}

const HEALTHZ_PORT = 10_256;
const METRICS_PORT = 10_249;

/** `isIPv6`: --bind-address is IPv6, and so are the defaults. `hasFile`: a file was read, so the deprecated port flags do not count. */
export function readServe(read: FlagReader, { isIPv6, hasFile }: { isIPv6: boolean; hasFile: boolean }): ServeConfig {
  const healthz = readListen(read, { name: 'healthz', host: isIPv6 ? '::' : '0.0.0.0', port: HEALTHZ_PORT, hasFile });
  const metrics = readListen(read, {
    name: 'metrics',
    host: isIPv6 ? '::1' : '127.0.0.1',
    port: METRICS_PORT,
    hasFile,
  });
  if (metrics === 'off') read.fault('metrics-port', 'must be 1 to 65535: the metrics server cannot be turned off');
  const others = [
    ...(metrics === 'off' ? [] : [{ flag: 'metrics-bind-address', listen: metrics, hasMetrics: true }]),
    ...(healthz === 'off' ? [] : [{ flag: 'healthz-bind-address', listen: healthz, hasMetrics: false }]),
  ];
  return {
    healthz: healthz === 'off' ? undefined : healthz,
    metrics: metrics === 'off' ? { address: '127.0.0.1' as Address, port: METRICS_PORT, text: '' } : metrics,
    scrape: readScrape(read, METRICS_PORT, others),
    hardFail: isOn(read, 'bind-address-hard-fail', false),
    profiling: isOn(read, 'profiling', false),
    programmedAuthentication: isOn(read, 'programmed-authentication', true),
    connectionsPerClient: readConnectionsPerClient(read),
    fleetService: readServiceName(read, 'fleet-service', 'kube-system/slicewire-fleet').join('/'),
  };
}

/** Names of a namespace and of a Service (RFC 1123 and RFC 1035). */
const SERVICE_NAME = /^([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)\/([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$/;

/** Namespace and name of a Service that a flag names. */
export function readServiceName(read: FlagReader, flag: string, initial: string): [namespace: string, name: string] {
  const [, namespace, name] = SERVICE_NAME.exec(read.text(flag) ?? initial) ?? [];
  if (namespace !== undefined && name !== undefined) return [namespace, name];
  read.fault(flag, `must be NAMESPACE/NAME of a Service, such as ${initial}`);
  return ['', ''];
}

export function readConnectionsPerClient(read: FlagReader): number {
  return readInteger(read, 'max-connections-per-client', { initial: 16, least: 1, most: 512 });
}

/** The servers of a command that has one port beside that of --scrape-bind-address. */
export interface ServerSettings {
  /** --bind-address. */
  readonly listen: ListenAddress;
  /** --scrape-bind-address, for /metrics alone; undefined without it. */
  readonly scrape: ListenAddress | undefined;
  /** --max-connections-per-client: connections that one remote address may have to each port. */
  readonly connectionsPerClient: number;
}

/** `port`: the default of both addresses. */
export function readServers(read: FlagReader, port: number): ServerSettings {
  const flag = 'bind-address';
  const text = read.text(flag) || `127.0.0.1:${port}`;
  const found = parseListen(text, port);
  if (found === undefined)
    read.fault(flag, `must be an IP address, or one with a port from 1 to 65535, such as 0.0.0.0:${port}`);
  const listen = found ?? { address: '127.0.0.1' as Address, port, text };
  const scrape = readScrape(read, port, [{ flag, listen, hasMetrics: true }]);
  return { listen, scrape, connectionsPerClient: readConnectionsPerClient(read) };
}

interface ListenInput {
  readonly name: 'healthz' | 'metrics';
  readonly host: string;
  readonly port: number;
  readonly hasFile: boolean;
}

function readListen(read: FlagReader, { name, host, port, hasFile }: ListenInput): ListenAddress | 'off' {
  const flag = `${name}-bind-address`;
  let standard = port;
  const portFlag = `${name}-port`;
  const portText = hasFile ? undefined : read.text(portFlag);
  if (portText !== undefined) {
    const given = /^\d{1,5}$/.test(portText) ? Number(portText) : -1;
    if (given === 0) return 'off';
    if (given < 0 || given > 65_535) read.fault(portFlag, 'must be 0 to 65535');
    standard = given;
  }
  const text = read.text(flag) || host;
  const found = parseListen(text, standard);
  if (found === undefined)
    read.fault(flag, 'must be an IP address, or one with a port from 1 to 65535, such as 0.0.0.0:10256');
  return found ?? { address: host as Address, port, text };
}

/** Another server of the same process, and the flag that gives its address. */
export interface OtherServer {
  readonly flag: string;
  readonly listen: ListenAddress;
  /** It serves /metrics, too. */
  readonly hasMetrics: boolean;
}

/**
 * --scrape-bind-address serves /metrics alone, so that the server with the questions and the configuration can stay on loopback. undefined
 * without the flag, and where a server with /metrics listens at that address already.
 */
export function readScrape(
  read: FlagReader,
  standard: number,
  others: readonly OtherServer[],
): ListenAddress | undefined {
  const flag = 'scrape-bind-address';
  const text = read.text(flag);
  if (text === undefined) return undefined;
  const found = parseListen(text, standard);
  if (found === undefined) {
    read.fault(flag, `must be an IP address, or one with a port from 1 to 65535, such as 192.0.2.7:${standard}`);
    return undefined;
  }
  for (const other of others) {
    const { listen, hasMetrics } = other;
    if (listen.port !== found.port) continue;
    const isCovered = listen.address === found.address || isAny(listen);
    if (isCovered && hasMetrics) return undefined;
    if (!isCovered && !isAny(found)) continue;
    const instead = isAny(found) && !isCovered ? 'one address of this node' : 'another address';
    read.fault(
      flag,
      `must not take the port of ${read.name(other.flag)}, which is ${listen.text}: give ${instead}, or another port`,
    );
  }
  return found;
}

function isAny({ address }: ListenAddress): boolean {
  return address === '0.0.0.0' || address === '::';
}

/** `127.0.0.1:10249`, `[::1]:10249`, or an address alone. */
export function parseListen(text: string, standard: number): ListenAddress | undefined {
  const alone = parseAddress(text.replace(/^\[(.*)\]$/, '$1'));
  if (alone !== undefined) return listenAddress(alone, standard);
  const [, v6, v4, portText = ''] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const address = parseAddress(v6 ?? v4 ?? '');
  const port = Number(portText);
  return address === undefined || port < 1 || port > 65_535 ? undefined : listenAddress(address, port);
}

function listenAddress(address: Address, port: number): ListenAddress {
  return { address, port, text: endpointText(address, port) };
}
