/**
 * A real kube-apiserver with its etcd instead of `server.ts`, inside a namespace: the arguments are a shape and the paths of the
 * programs, both as JSON. It has the objects of the shape, obeys the same commands, and listens on the loopback of the namespace.
 * `default/kubernetes` is the server's own; a change is said to be sent just before its write, which etcd has to finish first.
 */
import type { KubeClient } from '../helpers/cluster/api/kube-client.ts';
import { RealApiServer, type RealServer } from '../helpers/cluster/api/real-api-server.ts';
import { type ClusterShape, nodeObject, objectsOf, variantAt } from './cluster.ts';
import { nanoseconds } from './monotonic.ts';
import { serveChanges } from './serve-changes.ts';

/** Writes at the same time. */
const WRITERS = 32;

const shape = JSON.parse(process.argv[2] ?? '') as ClusterShape;
const server = await RealApiServer.start(JSON.parse(process.argv[3] ?? '') as RealServer);
const { client, kubeconfig } = server;

/** As kubectl would send it: what the server fills in is not in it. */
function sent(object: object): object {
  const { metadata, ...rest } = object as { metadata: Record<string, unknown> };
  const { uid: _, creationTimestamp: __, managedFields: ___, generation: ____, ...kept } = metadata;
  return { ...rest, metadata: kept };
}

interface Named {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
}

/** Path of the collection that an object belongs to. */
function pathOf(object: object): string {
  const { kind, metadata } = object as Named;
  const group = kind === 'EndpointSlice' ? '/apis/discovery.k8s.io/v1' : '/api/v1';
  return `${group}/namespaces/${metadata.namespace}/${kind === 'EndpointSlice' ? 'endpointslices' : 'services'}`;
}

async function makeObjects(client: KubeClient): Promise<void> {
  const all = Array.from({ length: Math.max(0, shape.services - 1) }, (_, i) => i + 1);
  const spaces = new Set(all.flatMap((n) => objectsOf(shape, n).map((one) => (one as Named).metadata.namespace)));
  for (const name of spaces) {
    if (name === 'kube-system') continue;
    await client.write('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }
  const node = sent(nodeObject());
  await client.write('POST', '/api/v1/nodes', node);
  await client.write('PUT', '/api/v1/nodes/node-0/status', node);
  const left = all.values();
  const write = async () => {
    for (const n of left) {
      for (const object of objectsOf(shape, n)) {
        await client.write('POST', pathOf(object), sent(object));
        // The server takes no status with a new object.
        if (n === variantAt(shape, 'reached') && (object as Named).kind === 'Service')
          await client.write('PUT', `${pathOf(object)}/${(object as Named).metadata.name}/status`, sent(object));
      }
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
}

await makeObjects(client).catch(async (error: unknown) => {
  await server.stop();
  throw error;
});

async function write(slice: object): Promise<number> {
  const at = nanoseconds();
  await client.write('PUT', `${pathOf(slice)}/${(slice as Named).metadata.name}`, sent(slice));
  return at;
}

serveChanges({ shape, kubeconfig, write, stop: () => server.stop() });
