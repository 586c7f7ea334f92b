/**
 * Warns where the kernel's table of connections is nearly full, and names the clients and the destinations that fill it. A full table costs
 * every new connection of the node ("nf_conntrack: table full, dropping packet").
 */
import { addressOfText, endpointText, type Family, portOf } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { breath, type Clock, sleep } from '../base/clock.ts';
import { numberText, percentText } from '../inspect/wire/format.ts';
import type { FlowEntry, OpenFlowTable } from '../kernel/conntrack.ts';
import { CONNTRACK_COUNT, CONNTRACK_MAX } from '../kernel/conntrack-settings.ts';
import type { SettingFiles } from '../kernel/sysctls.ts';
import type { IsNodeAddress } from '../proxy/model/flow-leftovers.ts';
import { type FrontendLookup, sentTo } from '../proxy/model/opening-flows.ts';
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
  readonly lookup: FrontendLookup;
  /** Which addresses take node ports. */
  readonly nodeAddresses: (family: Family) => Promise<IsNodeAddress>;
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

async function talkers({ open, lookup, nodeAddresses, signal }: FullTableOptions): Promise<Talkers> {
  const [clients, destinations] = [new Tally(), new Tally()];
  const isOfNode = { IPv4: await nodeAddresses('IPv4'), IPv6: await nodeAddresses('IPv6') };
  const table = await open();
  try {
    let read = 0;
    for (const part of table.entries()) {
      for (const entry of part) {
        clients.add(entry.source.slice(0, -2), entry);
        destinations.add(`${entry.protocol} ${entry.destination}`, entry);
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
    clients: clients.top(({ source }) => addressOfText(source.slice(0, -2))),
    destinations: destinations.top((entry) => {
      const { family, protocol, destination } = entry;
      const [address, port] = [destination.slice(0, -2), portOf(destination.slice(-2))];
      const service = sentTo(entry, isOfNode[family](address), lookup)?.id;
      const text = `${endpointText(addressOfText(address), port)}/${protocol}`;
      return service === undefined ? text : `Service ${service} at ${text}`;
    }),
  };
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
  readonly #counts = new Map<string, { readonly first: FlowEntry; entries: number }>();

  /** Keys beyond the limit are left out: those with many entries were among the first. */
  add(key: string, entry: FlowEntry): void {
    const known = this.#counts.get(key);
    if (known !== undefined) known.entries += 1;
    else if (this.#counts.size < MAX_NAMES) this.#counts.set(key, { first: entry, entries: 1 });
  }

  /** `nameOf` names a key by its first entry. */
  top(nameOf: (first: FlowEntry) => string): Counts {
    const sorted = [...this.#counts.values()].sort((a, b) => b.entries - a.entries).slice(0, TOP);
    return sorted.map(({ first, entries }) => ({ name: nameOf(first), entries }));
  }
}
