/** What the kernel has for a Service, by a view of it (`proxy/modes/view.ts`): rules, elements or virtual servers. The cost follows the Service. Pure. */

import type { Address } from '../../base/address.ts';
import type { ServicePort } from '../../proxy/model/service-port.ts';
import { TREES } from '../../proxy/modes/iptables/names.ts';
import { DETOUR_TREE } from '../../proxy/modes/ipvs/render.ts';
import type { FamilyView, ServersView } from '../../proxy/modes/view.ts';
import { destinationText, serverKey, serverText } from '../../proxy/modes/virtual-servers/tracked-objects.ts';
import type { KernelPlace, ServiceAnswer } from '../wire/service.ts';
import { elementLines } from './kernel-elements.ts';
import { ruleLines } from './kernel-rules.ts';

export type KernelLines = Pick<ServiceAnswer, 'rules' | 'rulesOmitted'>;

/** Lines of an answer. */
const MAX_LINES = 300;

export interface KernelFacts {
  readonly view: FamilyView;
  /** Addresses of this node that serve node ports. */
  readonly nodePortAddresses: readonly Address[];
}

/** `ports`: all ServicePorts of one Service; those of another family than the view's are left out. */
export function kernelPlaces(all: readonly ServicePort[], { view, nodePortAddresses }: KernelFacts): KernelPlace[] {
  const ports = all.filter(({ family }) => family === view.family);
  if (view.table !== undefined) return elementLines(ports, view.table, view.family);
  const { rules, servers } = view;
  const ofServers = servers === undefined ? [] : serverLines(ports, servers, nodePortAddresses);
  if (rules === undefined) return ofServers;
  if (servers === undefined) return ruleLines(ports, rules, Object.values(TREES));
  return [...ofServers, ...ruleLines(expanded(ports, nodePortAddresses), rules, [DETOUR_TREE])];
}

/** The first lines. */
export function firstLines(places: readonly KernelPlace[], most = MAX_LINES): KernelLines {
  const rules: KernelPlace[] = [];
  let left = most;
  for (const { where, lines } of places) {
    const shown = lines.slice(0, left);
    if (shown.length > 0) rules.push({ where, lines: shown });
    left -= shown.length;
  }
  const all = places.reduce((sum, { lines }) => sum + lines.length, 0);
  return { rules, rulesOmitted: all - (most - left) };
}

/** Node ports as frontends of each address, as IPVS mode has them. */
function expanded(ports: readonly ServicePort[], nodePortAddresses: readonly Address[]): ServicePort[] {
  return ports.map((port) => ({
    ...port,
    frontends: port.frontends.flatMap((frontend) =>
      frontend.address === undefined ? nodePortAddresses.map((address) => ({ ...frontend, address })) : frontend,
    ),
  }));
}

/** Servers of IPVS, as arguments of ipvsadm(8). */
function serverLines(
  ports: readonly ServicePort[],
  view: ServersView,
  nodePortAddresses: readonly Address[],
): KernelPlace[] {
  return ports.flatMap(({ frontends, protocol }) =>
    frontends.flatMap(({ address, port }) => {
      const addresses = address === undefined ? nodePortAddresses : [address];
      return addresses.flatMap((at) => {
        const found = view.server({ protocol, address: at, port });
        if (found === undefined) return [];
        const { server, destinations, owner } = found;
        const lines = destinations.map((destination) => destinationText({ server, destination, owner }));
        return [{ where: `virtual server ${serverKey(server)}`, lines: [serverText({ server, owner }), ...lines] }];
      });
    }),
  );
}
