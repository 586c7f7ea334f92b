/** What this node answers from outside the cluster, to whom, and what looks wrong. Pure. */

import { endpointText, type Family, familyOf } from '../../base/address.ts';
import type { Service, ServiceKey } from '../../proxy/model/objects.ts';
import type { Frontend, ServicePort } from '../../proxy/model/service-port.ts';
import type { RelayFacts } from '../explain/facts.ts';
import type { Exposed, Exposure } from '../wire/exposure.ts';
import {
  type ExposureFamily,
  frontendProblems,
  healthPortProblems,
  type NodeExposure,
  nodeProblems,
} from './exposure-problems.ts';
import { sourcesOf } from './service.ts';

/** Entries of an answer. */
export const MAX_EXPOSED = 2000;

export interface ExposureFacts extends Pick<NodeExposure, 'mode' | 'strictArp'> {
  readonly families: ReadonlyMap<Family, ExposureFamily>;
  /** Services that the kernel refuses. */
  readonly refused: ReadonlyMap<ServiceKey, string>;
  /** Node ports on loopback, which only programs of this node reach. */
  readonly relay: RelayFacts;
}

export type ExposureContent = Omit<Exposure, 'apiVersion' | 'kind' | 'by'>;

type ExposureKind = Exposed['kind'];

const KINDS: Readonly<Record<Exclude<Frontend['role'], 'cluster-ip'>, ExposureKind>> = {
  'external-ip': 'external IP',
  'load-balancer': 'load balancer',
  'node-port': 'node port',
};
const ORDER: readonly ExposureKind[] = ['node port', 'external IP', 'load balancer', 'health check port'];

/** Services go in one after another, because there may be very many. */
export class ExposureList {
  readonly #facts: ExposureFacts;
  readonly #exposed: Exposed[] = [];
  readonly #checked = new Map<number, Set<ServiceKey>>();
  readonly #tcpNodePorts = new Map<number, ServiceKey>();
  readonly #spare: ServiceKey[] = [];

  constructor(facts: ExposureFacts) {
    this.#facts = facts;
  }

  take(service: Service | undefined, ports: readonly ServicePort[]): void {
    const all = ports.flatMap((port) => port.frontends.flatMap((frontend) => this.#exposedAt(port, frontend, service)));
    const health = new Map(ports.filter(hasHealthCheck).map((port) => [port.family, port]));
    for (const port of health.values()) all.push(this.#healthCheck(port));
    for (const each of all) this.#exposed.push(each);
    const has = (kind: ExposureKind) => all.some((each) => each.kind === kind);
    if (service?.type === 'LoadBalancer' && has('node port') && has('load balancer')) this.#spare.push(service.key);
  }

  /** What all of them make together. */
  content(): ExposureContent {
    const { families, mode, strictArp, relay } = this.#facts;
    const ofFamily = (family: Family) => relay.addresses.filter((address) => familyOf(address) === family);
    const all = this.#exposed.map((each) => this.#withConflicts(each)).sort(byProblems);
    const isV4Address = ({ kind, family }: Exposed) =>
      family === 'IPv4' && (kind === 'external IP' || kind === 'load balancer');
    const shown = all.slice(0, MAX_EXPOSED);
    return {
      nodePortAddresses: [...families.values()].flatMap((each) => [
        ...each.nodePortAddresses,
        ...ofFamily(each.family),
      ]),
      exposed: shown,
      omitted: all.length - shown.length,
      problems: nodeProblems({
        ...{ mode, strictArp, families: [...families.values()], spareNodePorts: this.#spare },
        nodePorts: all.filter(({ kind }) => kind === 'node port'),
        hasV4Addresses: all.some(isV4Address),
      }),
    };
  }

  #exposedAt(port: ServicePort, frontend: Frontend, service: Service | undefined): Exposed[] {
    const { role, address = '', port: number } = frontend;
    const family = this.#facts.families.get(port.family);
    if (role === 'cluster-ip' || family === undefined) return [];
    if (role === 'node-port' && port.protocol === 'TCP') this.#tcpNodePorts.set(number, port.service);
    return [
      {
        kind: KINDS[role],
        ...{ address, port: number, protocol: port.protocol, family: port.family, service: port.id },
        to: role === 'load-balancer' ? sourcesOf(port) : [],
        answers: answerOf(port, frontend),
        problems: [
          ...this.#refusals(port),
          ...this.#relayProblems(port, frontend),
          ...frontendProblems(port, frontend, { service, family }),
        ],
      },
    ];
  }

  #healthCheck(port: ServicePort): Exposed {
    const { service, family, healthCheckNodePort: number } = port;
    const checked = this.#checked.get(number) ?? new Set();
    this.#checked.set(number, checked.add(service));
    const at = { address: '', port: number, protocol: 'TCP', family, service } as const;
    return { kind: 'health check port', ...at, to: [], answers: 'health', problems: [] };
  }

  #refusals({ service }: ServicePort): string[] {
    if (!this.#facts.refused.has(service)) return [];
    return [
      'The kernel refuses this Service, so it may answer as it did before its last change, or not at all. slicewire status says why.',
    ];
  }

  #relayProblems({ family, protocol }: ServicePort, { role, port }: Frontend): string[] {
    const { addresses, failures } = this.#facts.relay;
    if (role !== 'node-port' || protocol !== 'TCP') return [];
    return addresses.flatMap((address) => {
      const cause = familyOf(address) === family ? failures.get(`${address} ${port}`) : undefined;
      return cause === undefined
        ? []
        : [
            `The relay cannot listen at ${endpointText(address, port)}: ${cause}. Connections there reach the program that has the port: stop it, or use another node port.`,
          ];
    });
  }

  /** Known only after all Services. */
  #withConflicts(exposed: Exposed): Exposed {
    if (exposed.kind !== 'health check port') return exposed;
    const { port, service } = exposed;
    const use = { port, checked: [...(this.#checked.get(port) ?? [])], nodePortOf: this.#tcpNodePorts.get(port) };
    return { ...exposed, problems: healthPortProblems(use, service) };
  }
}

function hasHealthCheck({ healthCheckNodePort }: ServicePort): boolean {
  return healthCheckNodePort !== 0;
}

/** What a client outside of the ranges gets is not said: it is dropped. */
function answerOf({ sourceRanges, hasAny }: ServicePort, { role, empty }: Frontend): Exposed['answers'] {
  if (role === 'load-balancer' && hasAny && sourceRanges?.length === 0) return 'drops';
  return empty === undefined ? 'endpoints' : empty === 'reject' ? 'refuses' : 'drops';
}

function byProblems(a: Exposed, b: Exposed): number {
  const problems = Number(b.problems.length > 0) - Number(a.problems.length > 0);
  if (problems !== 0) return problems;
  const kinds = ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind);
  if (kinds !== 0) return kinds;
  return a.service < b.service ? -1 : a.service > b.service ? 1 : a.port - b.port;
}
