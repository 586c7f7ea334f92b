/**
 * v1 Services in protobuf, as far as it is used. The numbers are those of Kubernetes' own `generated.proto`
 * (k8s.io/api core/v1); they never change.
 */
import { append, NOTHING } from '../append.ts';
import type { ApiService } from '../decode/schema.ts';
import { kindReader, metaField, ObjectMeta } from './kind.ts';
import type { WireReader } from './wire.ts';

class Port {
  name = '';
  protocol: string | undefined = undefined;
  port = 0;
  nodePort = 0;
}

function portField(tag: number, port: Port, from: WireReader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 2) port.protocol = from.commonOrNone();
  else if (tag === 3) port.port = from.int();
  else if (tag === 5) port.nodePort = from.int();
}

type ClientIp = { timeoutSeconds: number | undefined };
type AffinityConfig = { clientIP: ClientIp | undefined };

function affinityField(tag: number, config: AffinityConfig, from: WireReader): void {
  if (tag !== 1) return;
  config.clientIP = from.into<ClientIp>({ timeoutSeconds: undefined }, (inner, clientIP) => {
    if (inner === 1) clientIP.timeoutSeconds = from.int();
  });
}

class ServiceSpec {
  ports: Port[] = NOTHING;
  clusterIP = '';
  type: string | undefined = undefined;
  externalIPs: string[] = NOTHING;
  sessionAffinity: string | undefined = undefined;
  loadBalancerSourceRanges: string[] = NOTHING;
  externalTrafficPolicy: string | undefined = undefined;
  healthCheckNodePort = 0;
  sessionAffinityConfig: AffinityConfig | undefined = undefined;
  clusterIPs: string[] = NOTHING;
  ipFamilies: string[] = NOTHING;
  internalTrafficPolicy: string | undefined = undefined;
}

function specField(tag: number, spec: ServiceSpec, from: WireReader): void {
  if (tag === 1) spec.ports = append(spec.ports, from.into(new Port(), portField));
  else if (tag === 3) spec.clusterIP = from.text();
  else if (tag === 4) spec.type = from.commonOrNone();
  else if (tag === 5) spec.externalIPs = append(spec.externalIPs, from.text());
  else if (tag === 7) spec.sessionAffinity = from.commonOrNone();
  else if (tag === 9) spec.loadBalancerSourceRanges = append(spec.loadBalancerSourceRanges, from.text());
  else if (tag === 11) spec.externalTrafficPolicy = from.commonOrNone();
  else if (tag === 12) spec.healthCheckNodePort = from.int();
  else if (tag === 14) spec.sessionAffinityConfig = from.into({ clientIP: undefined }, affinityField);
  else if (tag === 18) spec.clusterIPs = append(spec.clusterIPs, from.text());
  else if (tag === 19) spec.ipFamilies = append(spec.ipFamilies, from.common());
  else if (tag === 22) spec.internalTrafficPolicy = from.common();
}

class Ingress {
  ip: string | undefined = undefined;
  hostname: string | undefined = undefined;
  ipMode: string | undefined = undefined;
}

function ingressField(tag: number, ingress: Ingress, from: WireReader): void {
  if (tag === 1) ingress.ip = from.text();
  else if (tag === 2) ingress.hostname = from.text();
  else if (tag === 3) ingress.ipMode = from.common();
}

function balancerField(tag: number, ingress: Ingress[], from: WireReader): void {
  if (tag === 1) ingress.push(from.into(new Ingress(), ingressField));
}

function statusField(tag: number, ingress: Ingress[], from: WireReader): void {
  if (tag !== 1) return;
  from.into(ingress, balancerField);
}

/** A Service from protobuf: it has the schema's shape already. */
export class ServiceMessage implements ApiService {
  metadata: ApiService['metadata'] = new ObjectMeta();
  spec = new ServiceSpec();
  status: { loadBalancer: { ingress: Ingress[] } } | undefined = undefined;
}

function serviceField(tag: number, service: ServiceMessage, from: WireReader): void {
  if (tag === 1) service.metadata = from.into(new ObjectMeta(), metaField);
  else if (tag === 2) from.into(service.spec, specField);
  else if (tag === 3) service.status = { loadBalancer: { ingress: from.into([], statusField) } };
}

export const SERVICES = kindReader('Service', (from, end) => from.into(new ServiceMessage(), serviceField, end));
