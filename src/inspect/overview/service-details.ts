/** One Service in full: its row, frontends, endpoints with reasons, and faults. Pure. */

import { annotationTexts } from '../../proxy/model/labels.ts';
import { type Service, shownFault } from '../../proxy/model/objects.ts';
import type { Frontend as ModelFrontend, ServicePort } from '../../proxy/model/service-port.ts';
import type { ExplainFacts } from '../explain/facts.ts';
import { explainSlices } from '../explain/slice-endpoints.ts';
import { idOf } from '../explain/subject.ts';
import type { ExplainedSlice } from '../wire/explanation.ts';
import type { FrontendAnswer, ServiceAnswer } from '../wire/services.ts';
import { backendsOf, type RowFacts, serviceRow } from './service-list.ts';

export interface ServiceFacts extends RowFacts, Pick<ExplainFacts, 'objects' | 'node'> {
  readonly explainFaultsOf: ExplainFacts['faultsOf'];
  /** Connections and bytes of the frontends; undefined where they are not counted. */
  readonly traffic?: readonly FrontendCount[] | undefined;
}

/** Connections and bytes that came to a frontend. */
interface FrontendCount {
  readonly family: ServicePort['family'];
  readonly protocol: ServicePort['protocol'];
  /** "" for a node port. */
  readonly address: string;
  readonly port: number;
  readonly connections: number;
  /** undefined where bytes are not counted. */
  readonly bytes: { readonly in: number; readonly out: number } | undefined;
}

export type ServiceContent = Omit<ServiceAnswer, 'apiVersion' | 'kind' | 'by' | 'rules' | 'rulesOmitted'>;

export function serviceContent(service: Service, facts: ServiceFacts): ServiceContent {
  const ports = facts.portsOf(service.key);
  return {
    row: serviceRow(service, facts),
    frontends: [...ports.flatMap((port) => frontendsOf(service, port, facts.traffic)), ...healthChecks(ports)],
    slices: slicesOf(service, ports, facts),
    affinitySeconds: service.affinitySeconds === 0 ? null : service.affinitySeconds,
    annotations: annotationTexts(service),
    faults: facts.faultsOf(service.key).map(shownFault),
  };
}

const KINDS: Readonly<Record<ModelFrontend['role'], FrontendAnswer['kind']>> = {
  'cluster-ip': 'cluster IP',
  'external-ip': 'external IP',
  'load-balancer': 'load balancer',
  'node-port': 'node port',
};

function frontendsOf(service: Service, port: ServicePort, traffic: ServiceFacts['traffic']): FrontendAnswer[] {
  const { family, protocol } = port;
  const name = portName(service, port);
  return port.frontends.map((frontend): FrontendAnswer => {
    const { role, address = '', port: number, policy } = frontend;
    return {
      port: name,
      kind: KINDS[role],
      address,
      number,
      protocol,
      family,
      policy,
      sources: role === 'load-balancer' ? sourcesOf(port) : [],
      endpoints: backendsOf(port, frontend).length,
      connections: connectionsTo({ family, protocol, address, port: number }, traffic),
    };
  });
}

function connectionsTo(
  at: Pick<FrontendCount, 'family' | 'protocol' | 'address' | 'port'>,
  traffic: ServiceFacts['traffic'],
): FrontendAnswer['connections'] {
  const isAt = (one: FrontendCount) =>
    one.family === at.family && one.protocol === at.protocol && one.address === at.address && one.port === at.port;
  const found = traffic?.find(isAt);
  if (found === undefined) return null;
  const { connections: total, bytes } = found;
  return { total, bytes: bytes === undefined ? null : bytes.in + bytes.out };
}

/** One for each family: all ports of a Service share it. */
function healthChecks(ports: readonly ServicePort[]): FrontendAnswer[] {
  const checked = new Map(
    ports.filter(({ healthCheckNodePort }) => healthCheckNodePort !== 0).map((one) => [one.family, one]),
  );
  return [...checked.values()].map(({ family, healthCheckNodePort }) => {
    const ready = new Set(ports.filter((port) => port.family === family).flatMap(({ readyLocal }) => readyLocal));
    const at = { address: '', number: healthCheckNodePort, protocol: 'TCP', family } as const;
    const count = { sources: [], endpoints: ready.size, connections: null };
    return { port: '', kind: 'health check', ...at, policy: 'Local', ...count };
  });
}

/** The ranges that may use a load balancer's address; empty for everybody. */
export function sourcesOf({ sourceRanges }: Pick<ServicePort, 'sourceRanges'>): string[] {
  if (sourceRanges === undefined) return [];
  return sourceRanges.length === 0 ? ['nobody'] : [...sourceRanges];
}

function portName(service: Service, port: ServicePort): string {
  const spec = specOf(service, port);
  return spec === undefined || spec.name === '' ? String(spec?.port ?? '') : spec.name;
}

function specOf(service: Service, { id, protocol }: ServicePort) {
  return service.ports.find((spec) => idOf(service, spec) === id && spec.protocol === protocol);
}

/** The endpoints of all ports, by slice. The policy is Cluster where any of the frontends has it. */
function slicesOf(service: Service, ports: readonly ServicePort[], facts: ServiceFacts): ExplainedSlice[] {
  const found = new Map<string, Map<string, ExplainedSlice['endpoints'][number]>>();
  const about = { objects: facts.objects, node: facts.node, faultsOf: facts.explainFaultsOf };
  for (const port of ports) {
    const spec = specOf(service, port);
    const frontend = port.frontends.find(({ policy }) => policy === 'Cluster') ?? port.frontends[0];
    if (spec === undefined || frontend === undefined) continue;
    const subject = { port, frontend, service, spec, list: frontend.policy, isRelayed: false };
    for (const { slice, endpoints } of explainSlices(subject, about)) {
      const known = found.get(slice) ?? new Map();
      found.set(slice, known);
      for (const one of endpoints) known.set(`${one.endpoint} ${one.why}`, one);
    }
  }
  return [...found].map(([slice, endpoints]) => ({ slice, endpoints: [...endpoints.values()] }));
}
