/** Services that answered before a takeover must answer after it. */
import { createHash } from 'node:crypto';
import { type Address, endpointText, familyOf, type SocketAddress } from '../../base/address.ts';
import type { Cache } from '../../cluster/cache/cache.ts';
import type { Service, Slice } from '../../proxy/model/objects.ts';
import { PROBE_SERVICE } from '../datapath/probe-service.ts';
import type { Reach } from '../datapath/reach.ts';
import type { Sampled } from './takeover-record.ts';

type Objects = Pick<Cache, 'services' | 'slicesOf' | 'service'>;

/** Services that are asked. */
const SAMPLE = 20;
/** Services that are looked at for them. In a large cluster an agent has more than it should ask. */
const CANDIDATES = 1000;
/** Milliseconds that an answer may take. */
const ANSWER_MS = 1000;

/** Services that answer on TCP at a cluster IP now, at most 20 of the first 1,000. `random`: 0 to 1, for the choice. */
export async function sampleNow(objects: Objects, sockets: Reach, random: () => number): Promise<readonly Sampled[]> {
  const chosen: { readonly order: number; readonly sampled: Sampled }[] = [];
  for (const service of objects.services()) {
    const sampled = askable(service, objects.slicesOf(service.key));
    if (sampled !== undefined) chosen.push({ order: random(), sampled });
    if (chosen.length === CANDIDATES) break;
  }
  const asked = chosen.sort((a, b) => a.order - b.order).slice(0, SAMPLE);
  const answers = await Promise.all(
    asked.map(async ({ sampled }) => {
      const to = { address: sampled.address as Address, port: sampled.port };
      return (await connects(sockets, to)) ? [sampled] : [];
    }),
  );
  return answers.flat();
}

/** An address and port of the Service for which there are ready endpoints. Where the policy is Local, nodes differ on purpose. */
function askable(
  { key, clusterIPs, ports, internalTrafficPolicy }: Service,
  slices: readonly Slice[],
): Sampled | undefined {
  const port = ports.find(({ protocol }) => protocol === 'TCP');
  if (port === undefined || key === PROBE_SERVICE || internalTrafficPolicy === 'Local') return undefined;
  for (const address of clusterIPs) {
    const endpoints = endpointsOf(slices, address, port.name);
    if (endpoints.length > 0) return { service: key, address, port: port.port, endpoints: digestOf(endpoints) };
  }
  return undefined;
}

/** Tries of a round. A Service of many endpoints may choose one that is dead. */
const TRIES = 3;
/** Endpoints that are asked for a Service that does not answer. */
const ENDPOINTS_ASKED = 3;

/**
 * Asks the Services of the sample again. One that does not answer counts where its address, port and endpoints are the same, and its endpoints
 * answer without the Service: so it is the rules that do not lead there. Resolves with a sentence for each, by its name.
 */
export async function lostServices(
  sample: readonly Sampled[],
  objects: Objects,
  sockets: Reach,
): Promise<ReadonlyMap<string, string>> {
  const lost = new Map<string, string>();
  await Promise.all(
    sample.map(async ({ service: key, address: text, port, endpoints }) => {
      const address = text as Address;
      for (let tries = 1; tries <= TRIES; tries++) if (await connects(sockets, { address, port })) return;
      const service = objects.service(key);
      const spec = service?.ports.find((one) => one.protocol === 'TCP' && one.port === port);
      if (service?.clusterIPs.includes(address) !== true || spec === undefined) return;
      const ready = endpointsOf(objects.slicesOf(key), address, spec.name);
      if (digestOf(ready) !== endpoints) return;
      const asked = ready.slice(0, ENDPOINTS_ASKED);
      for (const endpoint of asked) if (!(await connects(sockets, endpoint))) return;
      const names = asked.map((endpoint) => endpointText(endpoint.address, endpoint.port)).join(', ');
      lost.set(
        key,
        `Service ${key} at ${endpointText(address, port)} answered before the takeover and does not now, though its endpoints do: ${names}`,
      );
    }),
  );
  return lost;
}

/** The ready endpoints of one port, in the family of the address. */
function endpointsOf(slices: readonly Slice[], address: Address, portName: string): readonly SocketAddress[] {
  return slices
    .filter(({ family }) => family === familyOf(address))
    .flatMap(({ ports, endpoints }) => {
      const port = ports.find(({ name, protocol }) => name === portName && protocol === 'TCP')?.port;
      const ready = endpoints.filter((endpoint) => endpoint.ready);
      return port === undefined ? [] : ready.map((endpoint) => ({ address: endpoint.address, port }));
    });
}

function digestOf(endpoints: readonly SocketAddress[]): string {
  const texts = endpoints.map(({ address, port }) => endpointText(address, port)).sort();
  return createHash('sha256').update(texts.join()).digest('hex');
}

async function connects({ reach }: Reach, to: SocketAddress): Promise<boolean> {
  return (await reach(to, { length: 0, milliseconds: ANSWER_MS })).kind === 'connected';
}
