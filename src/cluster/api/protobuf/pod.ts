/**
 * v1 Pods in protobuf, as far as the controllers use them (`generated.proto` of k8s.io/api core/v1). A Pod is large, and most of it is
 * skipped: volumes, environments, probes, statuses of containers.
 */
import { append, NOTHING } from '../append.ts';
import type { ApiPod } from '../decode/producing-schema.ts';
import { kindReader, metaField, ObjectMeta } from './kind.ts';
import { addLabel, isoTime, type WireReader } from './wire.ts';

/** With all labels: selectors may ask for any of them. */
class PodMeta extends ObjectMeta {
  deletionTimestamp: string | undefined = undefined;
}

function podMetaField(tag: number, meta: PodMeta, from: WireReader): void {
  if (tag === 9) meta.deletionTimestamp = isoTime(from);
  else if (tag === 11) meta.labels = addLabel(meta.labels, from);
  else metaField(tag, meta, from);
}

class ContainerPort {
  name: string | undefined = undefined;
  protocol: string | undefined = undefined;
  containerPort = 0;
}

function containerPortField(tag: number, port: ContainerPort, from: WireReader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 3) port.containerPort = from.int();
  else if (tag === 4) port.protocol = from.commonOrNone();
}

class Container {
  restartPolicy: string | undefined = undefined;
  ports: ContainerPort[] = NOTHING;
}

function containerField(tag: number, container: Container, from: WireReader): void {
  if (tag === 6) container.ports = append(container.ports, from.into(new ContainerPort(), containerPortField));
  else if (tag === 24) container.restartPolicy = from.common();
}

class PodSpec {
  nodeName: string | undefined = undefined;
  hostname: string | undefined = undefined;
  subdomain: string | undefined = undefined;
  containers: Container[] = NOTHING;
  initContainers: Container[] = NOTHING;
}

function specField(tag: number, spec: PodSpec, from: WireReader): void {
  if (tag === 2) spec.containers = append(spec.containers, from.into(new Container(), containerField));
  else if (tag === 10) spec.nodeName = from.common();
  else if (tag === 16) spec.hostname = from.text();
  else if (tag === 17) spec.subdomain = from.common();
  else if (tag === 20) spec.initContainers = append(spec.initContainers, from.into(new Container(), containerField));
}

class Condition {
  type = '';
  status = '';
  lastTransitionTime: string | undefined = undefined;
}

function conditionField(tag: number, condition: Condition, from: WireReader): void {
  if (tag === 1) condition.type = from.common();
  else if (tag === 2) condition.status = from.common();
  else if (tag === 4) condition.lastTransitionTime = isoTime(from);
}

class PodIp {
  ip: string | undefined = undefined;
}

function podIpField(tag: number, address: PodIp, from: WireReader): void {
  if (tag === 1) address.ip = from.text();
}

class PodStatus {
  phase: string | undefined = undefined;
  podIP: string | undefined = undefined;
  podIPs: PodIp[] = NOTHING;
  conditions: Condition[] = NOTHING;
}

function statusField(tag: number, status: PodStatus, from: WireReader): void {
  if (tag === 1) status.phase = from.common();
  else if (tag === 2) status.conditions = append(status.conditions, from.into(new Condition(), conditionField));
  else if (tag === 6) status.podIP = from.text();
  else if (tag === 12) status.podIPs = append(status.podIPs, from.into(new PodIp(), podIpField));
}

/** A Pod from protobuf: it has the schema's shape already. */
export class PodMessage implements ApiPod {
  metadata: ApiPod['metadata'] = new PodMeta();
  spec = new PodSpec();
  status: PodStatus | undefined = undefined;
}

function podField(tag: number, pod: PodMessage, from: WireReader): void {
  if (tag === 1) pod.metadata = from.into(new PodMeta(), podMetaField);
  else if (tag === 2) from.into(pod.spec, specField);
  else if (tag === 3) pod.status = from.into(new PodStatus(), statusField);
}

export const PODS = kindReader('Pod', (from, end) => from.into(new PodMessage(), podField, end));
