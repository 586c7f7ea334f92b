/**
 * Warns where the kernel's table of connections is nearly full, and names the clients and the destinations that fill it. A full table costs
 * every new connection of the node ("nf_conntrack: table full, dropping packet").
 */
import { type Address, addressOfBytes, endpointText, type Family, type Protocol, portOf } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { breath, type Clock, sleep } from '../base/clock.ts';
import { numberText, percentText } from '../inspect/wire/format.ts';
import type { OpenFlowTable } from '../kernel/conntrack.ts';
import { CONNTRACK_COUNT, CONNTRACK_MAX } from '../kernel/conntrack-settings.ts';
import type { SettingFiles } from '../kernel/sysctls.ts';
import type { FrontendAt } from '../proxy/model/claims.ts';
import type { Log } from '../telemetry/log.ts';
import { TroubleLog } from '../telemetry/trouble-log.ts';

/** Milliseconds between two looks at the number of entries. */
const PERIOD_MS = 10_000;
/** The warning comes at this part of the limit, and is over below the second. */
const NEARLY_FULL = 0.9;
const RELIEVED = 0.8;
/** While the table stays full it is read again after so long. */
const AGAIN_MS = 10 * 60_000;
/** Entries that are read, in the order of the kernel's hash, and names that are counted among them. */
const MAX_READ = 500_000;
const MAX_NAMES = 100_000;
const TOP = 5;

export interface FullTableOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly settings: Pick<SettingFiles, 'read'>;
  readonly open: OpenFlowTable;
  /** `namespace/name[:port]` of the Service with this frontend; undefined for none. */
  readonly serviceAt: (at: FrontendAt) => string | undefined;
  readonly signal: AbortSignal;
}

/** Looks until the signal aborts. Rejects only then. */
export async function watchFullTable(options: FullTableOptions): Promise<void> {
  const { log, clock, settings, signal } = options;
  const trouble = new TroubleLog({ log, clock, level: 'warn' });
  let toldAt: number | undefined;
  for (;;) {
    await sleep(clock, PERIOD_MS, signal);
    const read = async (name: string) => Number(await settings.read(name).catch(() => undefined));
    const [entries, limit] = [await read(CONNTRACK_COUNT), await read(CONNTRACK_MAX)];
    // A kernel without conntrack has neither.
    if (!(limit > 0)) continue;
    const share = entries / limit;
    if (toldAt !== undefined && share < RELIEVED) {
      toldAt = undefined;
      log.info({ entries, limit }, `the kernel's table of connections is ${percentText(share)} full again`);
    }
    if (share < NEARLY_FULL || (toldAt !== undefined && clock.now() - toldAt < AGAIN_MS)) continue;
    toldAt = clock.now();
    try {
      const top = await talkers(options);
      log.warn({ entries, limit, ...top }, fullText(entries, limit, top));
      trouble.over();
    } catch (error) {
      signal.throwIfAborted();
      const cause = causeOf(error);
      trouble.tell({
        cause,
        text: `the kernel's table of connections is ${percentText(share)} full, and cannot be read: ${cause}`,
      });
    }
  }
}

/** The names with the most entries, and their numbers. */
type Counts = readonly { readonly name: string; readonly entries: number }[];

interface Talkers {
  readonly clients: Counts;
  readonly destinations: Counts;
}

async function talkers({ open, serviceAt, signal }: FullTableOptions): Promise<Talkers> {
  const [clients, destinations] = [new Tally(), new Tally()];
  const table = await open();
  try {
    let read = 0;
    for (const part of table.entries()) {
      for (const { family, protocol, source, destination } of part) {
        clients.add(source.slice(0, -2));
        destinations.add(`${family} ${protocol} ${destination}`);
      }
      read += part.length;
      if (read >= MAX_READ) break;
      await breath();
      signal.throwIfAborted();
    }
  } finally {
    table.close();
  }
  return {
    clients: clients.top().map(([bytes, entries]) => ({ name: addressOf(bytes), entries })),
    destinations: destinations.top().map(([key, entries]) => ({ name: destinationText(key, serviceAt), entries })),
  };
}

/** `Service shop/web at 10.96.0.10:80/TCP`, or `192.0.2.1:443/TCP` */
function destinationText(key: string, serviceAt: FullTableOptions['serviceAt']): string {
  const [, family = '', protocol = '', socket = ''] = /^(\S+) (\S+) (.*)$/s.exec(key) ?? [];
  const [address, port] = [addressOf(socket.slice(0, -2)), portOf(socket.slice(-2))];
  const at = { family: family as Family, protocol: protocol as Protocol, address, port };
  const service = serviceAt(at) ?? serviceAt({ ...at, address: undefined });
  const text = `${endpointText(address, port)}/${protocol}`;
  return service === undefined ? text : `Service ${service} at ${text}`;
}

function addressOf(bytes: string): Address {
  return addressOfBytes(Buffer.from(bytes, 'latin1'));
}

function fullText(entries: number, limit: number, { clients, destinations }: Talkers): string {
  const listed = (counts: Counts) => counts.map((each) => `${each.name} (${numberText(each.entries)})`).join(', ');
  return [
    `the kernel's table of connections is ${percentText(entries / limit)} full (${numberText(entries)} of ${numberText(limit)} entries).`,
    'When it is full, the kernel drops new connections.',
    `Clients with the most entries: ${listed(clients)}. Destinations: ${listed(destinations)}.`,
    'Set a larger --conntrack-max-per-core or --conntrack-min, or limit a Service (docs/traffic.md).',
  ].join(' ');
}

class Tally {
  readonly #counts = new Map<string, number>();

  /** Names beyond the limit are left out: those with many entries were among the first. */
  add(name: string): void {
    const count = this.#counts.get(name);
    if (count !== undefined) this.#counts.set(name, count + 1);
    else if (this.#counts.size < MAX_NAMES) this.#counts.set(name, 1);
  }

  top(): readonly (readonly [name: string, count: number])[] {
    return [...this.#counts].sort(([, a], [, b]) => b - a).slice(0, TOP);
  }
}
