/** The manifests of the demo. */
import { yamlText } from '../../cluster/documents/yaml.ts';
import { podAddress } from '../lab/lab.ts';

export const WEB = { clusterIP: '10.96.0.10', port: 80, nodePort: 30080 } as const;
export const EMPTY = { clusterIP: '10.96.0.20', port: 80 } as const;
/** A Service without a selector: its servers are outside the cluster. */
export const OUTSIDE = {
  clusterIP: '10.96.0.30',
  port: 80,
  serverPort: 8081,
  servers: ['192.168.4.100', '192.168.4.254'],
} as const;
/** A Service with a selector: its endpoints follow from Pods. */
export const SELECTING = { clusterIP: '10.96.0.40', port: 80 } as const;
/** A Service with a canary, and one whose only endpoint vanishes. */
export const CANARY = { clusterIP: '10.96.0.50', port: 80, weight: 11 } as const;
export const VANISHING = { clusterIP: '10.96.0.60', port: 80 } as const;
export const POD_PORT = 8080;

function documents(objects: readonly object[]): string {
  return objects.map((object) => yamlText(object)).join('---\n');
}

/** YAML of the Service `web`, and of a Service without endpoints. */
export function servicesYaml(): string {
  const web = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web' },
    spec: {
      type: 'NodePort',
      clusterIP: WEB.clusterIP,
      ports: [{ name: 'http', port: WEB.port, nodePort: WEB.nodePort, targetPort: POD_PORT }],
    },
  };
  const empty = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'empty' },
    spec: { clusterIP: EMPTY.clusterIP, ports: [{ port: EMPTY.port }] },
  };
  return documents([web, empty]);
}

/** YAML of the Service `outside` and the Endpoints that name its two servers. */
export function outsideYaml(): string {
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'outside' },
    spec: { clusterIP: OUTSIDE.clusterIP, ports: [{ port: OUTSIDE.port, targetPort: OUTSIDE.serverPort }] },
  };
  const endpoints = {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name: 'outside' },
    subsets: [{ addresses: OUTSIDE.servers.map((ip) => ({ ip })), ports: [{ port: OUTSIDE.serverPort }] }],
  };
  return documents([service, endpoints]);
}

/** YAML of a Service with a selector. */
export function selectingYaml(): string {
  return yamlText({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'shop' },
    spec: {
      clusterIP: SELECTING.clusterIP,
      selector: { app: 'shop' },
      ports: [{ port: SELECTING.port, targetPort: 'http' }],
    },
  });
}

/** YAML of Pods that it selects, by number. */
export function podsYaml(pods: readonly number[]): string {
  const pod = (n: number) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `pod-${n}`, labels: { app: 'shop' } },
    spec: { nodeName: 'node', containers: [{ name: 'main', ports: [{ name: 'http', containerPort: POD_PORT }] }] },
    status: { podIP: podAddress(n).v4 },
  });
  return documents(pods.map(pod));
}

interface SliceOf {
  readonly service: string;
  readonly name: string;
  readonly pods: readonly number[];
  readonly portName?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly conditions?: Readonly<Record<string, boolean>>;
}

function sliceObject({ service, name, pods, portName, annotations, conditions }: SliceOf): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name,
      labels: { 'kubernetes.io/service-name': service },
      ...(annotations === undefined ? {} : { annotations }),
    },
    addressType: 'IPv4',
    ports: [{ ...(portName === undefined ? {} : { name: portName }), port: POD_PORT, protocol: 'TCP' }],
    endpoints: pods.map((n) => ({
      addresses: [podAddress(n).v4],
      nodeName: 'node',
      ...(conditions === undefined ? {} : { conditions }),
    })),
  };
}

function plainService(
  name: string,
  { clusterIP, port }: { readonly clusterIP: string; readonly port: number },
): object {
  return { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec: { clusterIP, ports: [{ port }] } };
}

/** YAML of the Service `canary`: pod-1 with the usual weight, and pod-2 in a slice of its own with another one. */
export function canaryYaml(): string {
  const annotations = { 'slicewire.dev/weight': String(CANARY.weight) };
  return documents([
    plainService('canary', CANARY),
    sliceObject({ service: 'canary', name: 'canary-stable', pods: [1] }),
    sliceObject({ service: 'canary', name: 'canary-new', pods: [2], annotations }),
  ]);
}

/** YAML of the Service `vanishing`: pod-3 is ready, ends, or is gone, and then pod-2 is there. */
export function vanishingYaml(state: 'ready' | 'ending' | 'gone'): string {
  const of = { service: 'vanishing', name: 'vanishing-1' };
  const conditions = { ready: false, serving: false, terminating: true };
  const slices = {
    ready: [sliceObject({ ...of, pods: [3] })],
    ending: [sliceObject({ ...of, pods: [3], conditions })],
    gone: [sliceObject({ ...of, pods: [2] })],
  };
  return documents([plainService('vanishing', VANISHING), ...slices[state]]);
}

/** YAML of the slice of `web` with these pods, by number. */
export function sliceYaml(pods: readonly number[]): string {
  return yamlText(sliceObject({ service: 'web', name: 'web-1', pods, portName: 'http' }));
}
