/** Services that answered before a takeover must answer after it. */
import { type Address, endpointText, familyOf } from '../../base/address.ts';
import type { Cache } from '../../cluster/cache/cache.ts';
import type { Service, Slice } from '../../proxy/model/objects.ts';
import type { DatapathSockets, TcpAddress } from '../datapath/reach.ts';
import type { Sampled } from './takeover-record.ts';

type Objects = Pick<Cache, 'services' | 'slicesOf' | 'service'>;

/** Services that are asked. */
const SAMPLE = 20;
/** Services that are looked at for them. In a large cluster an agent has more than it should ask. */
const CANDIDATES = 1000;
/** Milliseconds that an answer may take. */
const ANSWER_MS = 1000;

/** The Services that answer on TCP at a cluster IP now, at most 20. `random`: 0 to 1, for the choice. */
export async function sampleNow(
  objects: Objects,
  sockets: Pick<DatapathSockets, 'reach'>,
  random: () => number,
): Promise<readonly Sampled[]> {
  const chosen: { readonly order: number; readonly sampled: Sampled }[] = [];
  for (const service of objects.services()) {
    const sampled = askable(service, objects.slicesOf(service.key));
    if (sampled !== undefined) chosen.push({ order: random(), sampled });
    if (chosen.length === CANDIDATES) break;
  }
  const asked = chosen.sort((a, b) => a.order - b.order).slice(0, SAMPLE);
  const answers = await Promise.all(
    asked.map(async ({ sampled }) => ((await connects(sockets, sampled)) ? [sampled] : [])),
  );
  return answers.flat();
}

/** An address and port of the Service for which there is a ready endpoint. */
function askable({ key, clusterIPs, ports }: Service, slices: readonly Slice[]): Sampled | undefined {
  const port = ports.find(({ protocol }) => protocol === 'TCP')?.port;
  const address = clusterIPs.find((one) =>
    slices.some(({ family, endpoints }) => family === familyOf(one) && endpoints.some(({ ready }) => ready)),
  );
  return port === undefined || address === undefined ? undefined : { service: key, address, port };
}

/**
 * Asks the Services of the sample again. One that does not answer counts where it still has the address and port, and one of its ready endpoints
 * answers without the Service: so it is the rules that do not lead there. Resolves with a sentence for each.
 */
export async function lostServices(
  sample: readonly Sampled[],
  objects: Objects,
  sockets: Pick<DatapathSockets, 'reach'>,
): Promise<readonly string[]> {
  const lost = await Promise.all(
    sample.map(async (sampled) => {
      if (await connects(sockets, sampled)) return undefined;
      const { service: key, address, port } = sampled;
      const service = objects.service(key);
      const spec = service?.ports.find((one) => one.protocol === 'TCP' && one.port === port);
      if (service?.clusterIPs.includes(address as Address) !== true || spec === undefined) return undefined;
      for (const endpoint of endpointsOf(objects.slicesOf(key), address as Address, spec.name)) {
        if (!(await connects(sockets, endpoint))) continue;
        const at = endpointText(address as Address, port);
        return `Service ${key} at ${at} answered before the takeover and does not now, though its endpoint ${endpointText(endpoint.address, endpoint.port)} does`;
      }
      return undefined;
    }),
  );
  return lost.filter((one) => one !== undefined);
}

/** Endpoints that are asked for a Service that does not answer. */
const ENDPOINTS_ASKED = 3;

function endpointsOf(slices: readonly Slice[], address: Address, portName: string): readonly TcpAddress[] {
  return slices
    .filter(({ family }) => family === familyOf(address))
    .flatMap(({ ports, endpoints }) => {
      const port = ports.find(({ name, protocol }) => name === portName && protocol === 'TCP')?.port;
      const ready = endpoints.filter((endpoint) => endpoint.ready);
      return port === undefined ? [] : ready.map((endpoint) => ({ address: endpoint.address, port }));
    })
    .slice(0, ENDPOINTS_ASKED);
}

async function connects(
  { reach }: Pick<DatapathSockets, 'reach'>,
  { address, port }: { readonly address: string; readonly port: number },
): Promise<boolean> {
  const to = { address: address as Address, port };
  return (await reach(to, { length: 0, milliseconds: ANSWER_MS })).kind === 'connected';
}
