/** The ports and addresses at which this node answers from outside the cluster, the clients that may use them, and problems. Pure. */
import { type Address, type Cidr, cidrContains, endpointText, type Family, familyOf } from '../../base/address.ts';
import { MODES, type ModeName } from '../../proxy/model/modes.ts';
import type { Service, ServiceKey } from '../../proxy/model/objects.ts';
import type { Frontend, ServicePort } from '../../proxy/model/service-port.ts';
import { isPublic, specialKind } from '../../proxy/model/special-address.ts';
import type { RelayFacts } from '../explain/facts.ts';
import type { Exposed, Exposure } from '../wire/exposure.ts';
import { countText, firstOf } from '../wire/format.ts';
import { sourcesOf } from './service-details.ts';

/** Entries of an answer. */
export const MAX_EXPOSED = 2000;

export interface ExposureFacts extends Pick<NodeExposure, 'mode' | 'strictArp'> {
  readonly families: ReadonlyMap<Family, ExposureFamily>;
  /** Services that the kernel refuses. */
  readonly refused: ReadonlyMap<ServiceKey, string>;
  /** Node ports on loopback, which only programs of this node reach. */
  readonly relay: RelayFacts;
}

type ExposureContent = Omit<Exposure, 'apiVersion' | 'kind' | 'by'>;

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

  add(service: Service | undefined, ports: readonly ServicePort[]): void {
    const all = ports.flatMap((port) => port.frontends.flatMap((frontend) => this.#exposedAt(port, frontend, service)));
    const health = new Map(ports.filter(hasHealthCheck).map((port) => [port.family, port]));
    for (const port of health.values()) all.push(this.#healthCheck(port));
    for (const each of all) this.#exposed.push(each);
    const has = (kind: ExposureKind) => all.some((each) => each.kind === kind);
    if (service?.type === 'LoadBalancer' && has('node port') && has('load balancer')) this.#spare.push(service.key);
  }

  /** The answer, when all Services are in. */
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
        mode,
        strictArp,
        families: [...families.values()],
        spareNodePorts: this.#spare,
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
        address,
        port: number,
        protocol: port.protocol,
        family: port.family,
        service: port.id,
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

/** Of a client that the ranges admit; others are dropped. */
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

/** The facts of this node that decide in one family. */
export interface ExposureFamily {
  readonly family: Family;
  /** Addresses of this node that serve node ports; loopback ones are left out. */
  readonly nodePortAddresses: readonly Address[];
  /** All addresses of this node: of its interfaces, and of its Node. */
  readonly own: ReadonlySet<Address>;
  /** Whether 127.0.0.0/8 serves node ports (docs/semantics.md 6.10). */
  readonly localhostNodePorts: boolean;
  /** Ranges of cluster IPs and of Pods, as far as they are known. */
  readonly serviceCidrs: readonly Cidr[];
  readonly podCidrs: readonly Cidr[];
}

/** Names in a sentence; the others are counted. */
const MAX_NAMES = 3;

/** `service`: undefined when it is gone meanwhile. */
function frontendProblems(
  port: ServicePort,
  frontend: Frontend,
  { service, family }: { readonly service: Service | undefined; readonly family: ExposureFamily },
): string[] {
  const { role, address } = frontend;
  const ofRole =
    role === 'external-ip' && address !== undefined
      ? externalIPProblems(address, frontend.port, family)
      : role === 'node-port'
        ? nodePortProblems(service)
        : [];
  return [...openProblems(port, role), ...ofRole, ...localProblems(port, frontend)];
}

/** Source ranges restrict the addresses of the load balancer alone. */
function openProblems({ sourceRanges }: ServicePort, role: Frontend['role']): string[] {
  if (sourceRanges === undefined || role === 'load-balancer') return [];
  const ranges = sourceRanges.length === 0 ? 'nobody' : firstOf(sourceRanges, MAX_NAMES);
  if (role === 'node-port') {
    return [
      `Everybody may use this node port, although spec.loadBalancerSourceRanges restricts the load balancer to ${ranges}. Set spec.allocateLoadBalancerNodePorts to false and remove the node port, or close it by a firewall or a NetworkPolicy.`,
    ];
  }
  return [
    `Everybody may use this external IP, although spec.loadBalancerSourceRanges restricts the load balancer to ${ranges}. The ranges do not apply to spec.externalIPs: remove the address there, or close it by a firewall.`,
  ];
}

function externalIPProblems(address: Address, port: number, { own, serviceCidrs, podCidrs }: ExposureFamily): string[] {
  const problems: string[] = [];
  const special = specialKind(address);
  if (special !== undefined) {
    problems.push(
      `${address} is ${special}, and traffic to it is not meant for a Service. Remove it from spec.externalIPs.`,
    );
  } else if (own.has(address)) {
    problems.push(
      `${address} is an address of this node: the Service gets the traffic to port ${port} of the node, also where a program of the node listens. Use a node port, or another address.`,
    );
  }
  const within = (ranges: readonly Cidr[], whose: string) => {
    const range = ranges.find((one) => cidrContains(one, address));
    if (range === undefined) return;
    problems.push(
      `${address} is inside ${range}, the range of ${whose}: the Service gets traffic that is meant for another one. Remove the address from spec.externalIPs.`,
    );
  };
  within(serviceCidrs, 'cluster IPs');
  within(podCidrs, 'Pods of this node or cluster');
  return problems;
}

/** The type does not matter to a service proxy (docs/semantics.md 1.5). */
function nodePortProblems(service: Service | undefined): string[] {
  if (service?.type !== 'ClusterIP') return [];
  return [
    'The Service is of type ClusterIP and has a node port, which is open nevertheless. Remove nodePort from its ports.',
  ];
}

/** A load balancer learns it from the health check port; other clients do not. */
function localProblems({ healthCheckNodePort }: ServicePort, { empty }: Frontend): string[] {
  if (empty !== 'drop' || healthCheckNodePort !== 0) return [];
  return [
    'The policy is Local and no endpoint is on this node, so connections from outside are dropped here. Send clients to nodes with endpoints, or set spec.externalTrafficPolicy to Cluster.',
  ];
}

/** A port that several Services want for different purposes. */
interface HealthPortUse {
  readonly port: number;
  /** Services with this health check port. */
  readonly checked: readonly ServiceKey[];
  /** The Service whose node port it is, too; TCP alone. */
  readonly nodePortOf: ServiceKey | undefined;
}

function healthPortProblems({ port, checked, nodePortOf }: HealthPortUse, service: ServiceKey): string[] {
  const others = checked.filter((key) => key !== service);
  const problems: string[] = [];
  if (others.length > 0) {
    problems.push(
      `${firstOf(others, MAX_NAMES)} ${others.length === 1 ? 'has' : 'have'} the same health check port ${port}, so load balancers may get the answer for another Service. Give each Service its own spec.healthCheckNodePort.`,
    );
  }
  if (nodePortOf !== undefined) {
    problems.push(
      `${port} is a node port of ${nodePortOf} as well, which gets the requests of load balancers. Change one of the two ports.`,
    );
  }
  return problems;
}

/** A node port of a family. */
interface NodePort {
  readonly family: Family;
  readonly protocol: ServicePort['protocol'];
  readonly port: number;
}

interface NodeExposure {
  readonly mode: ModeName;
  readonly families: readonly ExposureFamily[];
  readonly nodePorts: readonly NodePort[];
  /** Services of type LoadBalancer with node ports, whose addresses this node serves itself. */
  readonly spareNodePorts: readonly ServiceKey[];
  /** Whether it serves an external IP or a load balancer's address of IPv4, the family of ARP. */
  readonly hasV4Addresses: boolean;
  /** --ipvs-strict-arp */
  readonly strictArp: boolean;
}

/** Problems of the node as a whole. */
function nodeProblems(node: NodeExposure): string[] {
  const problems: string[] = [];
  const { families, nodePorts, spareNodePorts, mode } = node;
  const open = families.flatMap(({ family, nodePortAddresses }) => {
    const ports = nodePorts.filter((one) => one.family === family);
    return ports.length === 0 ? [] : nodePortAddresses.filter(isPublic).map((address) => ({ address, ports }));
  });
  if (open.length > 0) {
    // Both families of a Service have the same node port.
    const count = new Set(open.flatMap(({ ports }) => ports.map(({ protocol, port }) => `${protocol} ${port}`))).size;
    const addresses = [...new Set(open.map(({ address }) => address))];
    problems.push(
      `${countText(count, 'node port')} ${count === 1 ? 'is' : 'are'} open at ${firstOf(addresses, MAX_NAMES)}, which the internet may reach. Narrow them with --nodeport-addresses, or close them by a firewall.`,
    );
  }
  const isOnLoopback = ({ family, localhostNodePorts }: ExposureFamily) =>
    localhostNodePorts && nodePorts.some((one) => one.family === family);
  if (families.some(isOnLoopback)) {
    problems.push(
      'Node ports answer at 127.0.0.1 too. For that, net.ipv4.conf.all.route_localnet is 1, and rules of the agent keep other machines from 127.0.0.0/8 (CVE-2020-8558). If nobody uses them, set --iptables-localhost-nodeports=false.',
    );
  }
  if (spareNodePorts.length > 0) {
    const one = spareNodePorts.length === 1;
    problems.push(
      `${firstOf(spareNodePorts, MAX_NAMES)} ${one ? 'has' : 'have'} node ports beside addresses of a load balancer that this node serves itself. Where the load balancer sends to these addresses, nobody needs the node ports: set spec.allocateLoadBalancerNodePorts to false and remove them.`,
    );
  }
  if (MODES[mode].balancesBy === 'virtual servers' && node.hasV4Addresses && !node.strictArp) {
    problems.push(
      'In IPVS mode the addresses of Services are on a device of this node, and the node answers ARP for them on every interface. Where another program announces these addresses, such as MetalLB, set --ipvs-strict-arp=true.',
    );
  }
  return problems;
}
