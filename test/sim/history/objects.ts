/** The objects of a simulated cluster, which change at random. Endpoints of different Services never share an address: a wrong packet shows. */

import type { Random } from '../../helpers/base/random.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import type { Action } from './actions.ts';

export const NODE = 'node';
/** Addresses of the simulated node at the beginning. */
export const NODE_ADDRESSES = ['192.168.7.10', 'fd00:7::10'] as const;
/** An address that comes and goes. */
export const VISITING_ADDRESS = '192.168.7.77';

const SERVICES = 6;
const PARTS = 2;
const PORT_NAMES = ['http', 'dns'] as const;

/** A Service of the cluster with its slices; the first one never loses its last endpoint. */
interface SimService {
  readonly index: number;
  readonly name: string;
  spec: Record<string, unknown> | undefined;
  status: Record<string, unknown> | undefined;
  /** By part: endpoint addresses' last numbers. */
  readonly parts: Map<number, EndpointState[]>;
}

interface EndpointState {
  readonly host: number;
  readonly isLocal: boolean;
  readonly condition: 'ready' | 'starting' | 'draining';
}

/** The annotations of some Services and of the second slices of some (docs/traffic.md). */
const STEERED: Readonly<Record<number, { readonly annotations: Readonly<Record<string, string>> }>> = {
  1: { annotations: { 'slicewire.dev/balance': 'hash' } },
  2: { annotations: { 'slicewire.dev/slow-start': '20s' } },
  3: {
    annotations: {
      'slicewire.dev/new-connections': '100/s',
      'slicewire.dev/max-connections-per-client': '10',
      'slicewire.dev/max-connections': '1000',
    },
  },
};
const HASHED = 1;
const TRAFFIC: typeof STEERED = {
  3: { annotations: { 'slicewire.dev/weight': '20' } },
  4: { annotations: { 'slicewire.dev/backup': 'true' } },
};

/** Makes actions that change the objects; it remembers what it made. */
export class SimObjects {
  readonly #random: Random;
  readonly #others: number;
  readonly #steers: boolean;
  readonly #services: SimService[];

  /** `others`: how many Nodes the endpoints are on that are not on this one. `steers`: some Services have the annotations of docs/traffic.md. */
  constructor(random: Random, { others = 1, steers = false } = {}) {
    this.#random = random;
    this.#others = others;
    this.#steers = steers;
    this.#services = Array.from({ length: SERVICES }, (_, index) => ({
      index,
      name: `s${index}`,
      spec: undefined,
      status: undefined,
      parts: new Map(),
    }));
  }

  /** The objects at the beginning. */
  first(): Action[] {
    const actions: Action[] = [this.#node(), serviceOf(kubernetes())];
    actions.push(
      put(
        'slices',
        slice({
          name: 'kubernetes',
          service: 'kubernetes',
          ports: [{ name: 'http', port: 6443 }],
          endpoints: ['192.168.7.1'],
        }),
      ),
    );
    for (const one of this.#services) {
      if (one.index > 0 && this.#random.chance(0.3)) continue;
      actions.push(this.#changeService(one), ...this.#changePart(one, 0));
    }
    return actions;
  }

  /** One change, which may take several objects. */
  next(): Action[] {
    const one = this.#random.pick(this.#services);
    const dice = this.#random.next();
    if (dice < 0.1) return [this.#changeService(one)];
    if (dice < 0.16 && one.index > 0) return this.#remove(one);
    if (dice < 0.22) return this.#move(one);
    if (dice < 0.25) return [this.#node()];
    if (one.spec === undefined) return [this.#changeService(one), ...this.#changePart(one, 0)];
    return this.#changePart(one, this.#random.below(PARTS));
  }

  #node(): Action {
    return nodeAction(NODE, this.#random.pick([undefined, 'z1', 'z2']));
  }

  #changeService(one: SimService): Action {
    const random = this.#random;
    const { index, name } = one;
    const type = random.pick(['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer'] as const);
    const ips = [`10.96.0.${10 + index}`, `fd00:96::${10 + index}`];
    const protocol = index % 3 === 2 ? 'UDP' : 'TCP';
    const ports = PORT_NAMES.slice(0, random.between(1, 2)).map((port, i) => ({
      name: port,
      port: 80 + i,
      protocol,
      targetPort: 8080 + i,
      ...(type === 'ClusterIP' ? {} : { nodePort: 30_000 + index * 10 + i }),
    }));
    const isSticky = random.chance(0.15);
    one.spec = {
      type,
      clusterIP: ips[0],
      clusterIPs: ips,
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ports,
      // The first one is always served: its endpoints may be anywhere.
      internalTrafficPolicy: index > 0 && random.chance(0.15) ? 'Local' : 'Cluster',
      ...(type === 'ClusterIP' ? {} : { externalTrafficPolicy: index > 0 && random.chance(0.3) ? 'Local' : 'Cluster' }),
      ...(random.chance(0.2) ? { externalIPs: [`203.0.113.${10 + index}`] } : {}),
      sessionAffinity: isSticky ? 'ClientIP' : 'None',
      ...(isSticky ? { sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } } } : {}),
    };
    const ingress = type === 'LoadBalancer' ? [{ ip: `198.51.100.${10 + index}`, ipMode: 'VIP' }] : [];
    one.status = { loadBalancer: ingress.length === 0 ? {} : { ingress } };
    // Each of its addresses has thousands of slots, which take as many messages to list.
    const isPlain = type === 'ClusterIP' && one.spec.externalIPs === undefined;
    const steered = this.#steers && (isPlain || index !== HASHED) ? STEERED[index] : {};
    return serviceOf(service({ name, spec: one.spec, status: one.status, ...steered }));
  }

  #changePart(one: SimService, part: number): Action[] {
    const random = this.#random;
    const count = random.below(4);
    const former = one.parts.get(part) ?? [];
    const kept = former.filter(() => random.chance(0.7));
    const used = new Set([...one.parts.values()].flat().map(({ host }) => host));
    for (let i = 0; i < count; i++) {
      const host = random.between(1, 12);
      if (used.has(host)) continue;
      used.add(host);
      kept.push({ host, isLocal: random.chance(0.4), condition: this.#condition(one) });
    }
    one.parts.set(
      part,
      kept.map((endpoint) => (random.chance(0.2) ? { ...endpoint, condition: this.#condition(one) } : endpoint)),
    );
    this.#keepServed(one, part);
    return this.#slices(one, part);
  }

  /** The first Service always has a ready endpoint. */
  #keepServed(one: SimService, part: number): void {
    if (one.index !== 0) return;
    const isServed = [...one.parts.values()].flat().some(({ condition }) => condition === 'ready');
    if (isServed) return;
    const used = new Set([...one.parts.values()].flat().map(({ host }) => host));
    const host = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13].find((free) => !used.has(free)) ?? 14;
    one.parts.set(part, [...(one.parts.get(part) ?? []), { host, isLocal: false, condition: 'ready' }]);
  }

  #condition({ index }: SimService): EndpointState['condition'] {
    return index === 0 ? 'ready' : this.#random.pick(['ready', 'ready', 'ready', 'starting', 'draining'] as const);
  }

  /** An endpoint goes to the other slice: added there first, as the EndpointSlice controller may, or removed here first. */
  #move(one: SimService): Action[] {
    const [from, to] = this.#random.chance(0.5) ? [0, 1] : [1, 0];
    const [moving, ...rest] = one.parts.get(from) ?? [];
    if (moving === undefined || one.spec === undefined) return [this.#changeService(one)];
    one.parts.set(from, rest);
    one.parts.set(to, [...(one.parts.get(to) ?? []), moving]);
    const [added, removed] = [this.#slices(one, to), this.#slices(one, from)];
    // Removed first, the Service has no such endpoint for a moment, which the first one must not see.
    return one.index > 0 && this.#random.chance(0.3) ? [...removed, ...added] : [...added, ...removed];
  }

  #remove(one: SimService): Action[] {
    const parts = [...one.parts.keys()];
    one.spec = undefined;
    one.parts.clear();
    const slices = parts.flatMap((part) => NAMES.map((family) => remove('slices', `${one.name}-${part}-${family}`)));
    const ofService = remove('services', one.name);
    return this.#random.chance(0.5) ? [ofService, ...slices] : [...slices, ofService];
  }

  #slices(one: SimService, part: number): Action[] {
    const endpoints = one.parts.get(part) ?? [];
    return (['ipv4', 'ipv6'] as const).map((family) =>
      put(
        'slices',
        slice({
          name: `${one.name}-${part}-${family}`,
          service: one.name,
          ...(this.#steers && part === 1 ? TRAFFIC[one.index] : {}),
          addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
          ports: PORT_NAMES.map((name, i) => ({ name, port: 8080 + i, protocol: one.index % 3 === 2 ? 'UDP' : 'TCP' })),
          endpoints: endpoints.map(({ host, isLocal, condition }) => ({
            addresses: [
              family === 'ipv4' ? `10.244.${one.index}.${host}` : `fd00:244:${one.index}::${host.toString(16)}`,
            ],
            nodeName: isLocal ? NODE : otherNode(host, this.#others),
            conditions: {
              ready: condition === 'ready',
              serving: condition !== 'starting',
              terminating: condition === 'draining',
            },
          })),
        }),
      ),
    );
  }
}

const NAMES = ['ipv4', 'ipv6'] as const;

/** The Node of an endpoint that is not on this one. */
export function otherNode(host: number, others: number): string {
  return others === 1 ? 'elsewhere' : `elsewhere-${host % others}`;
}

/** A Node of the cluster. Only the agent's own has addresses that matter. */
export function nodeAction(name: string, zone: string | undefined): Action {
  const addresses = name === NODE ? NODE_ADDRESSES.map((address) => ({ type: 'InternalIP', address })) : [];
  return put('nodes', {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone } },
    spec: { podCIDRs: ['10.244.0.0/16', 'fd00:244::/48'] },
    status: {
      addresses,
      allocatable: { cpu: '4' },
      conditions: [{ type: 'Ready', status: 'True' }],
    },
  });
}

function kubernetes(): object {
  const ports = [{ name: 'http', port: 443, protocol: 'TCP', targetPort: 6443 }];
  return service({
    name: 'kubernetes',
    spec: { type: 'ClusterIP', clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1'], ports },
  });
}

function serviceOf(object: object): Action {
  return put('services', object);
}

function put(of: 'services' | 'slices' | 'nodes', object: object): Action {
  return { kind: 'put', of, object };
}

function remove(of: 'services' | 'slices', name: string): Action {
  return { kind: 'delete', of, name };
}
