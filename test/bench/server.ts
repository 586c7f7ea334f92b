/**
 * The API server of the benchmark, a process of its own inside a namespace: made up of a shape (JSON, the one argument), it
 * serves lists in pages and watches over TLS, and changes endpoints on command (`server-protocol.ts`).
 */
import { itemBytes } from '../helpers/cluster/api/api-protobuf.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { type ClusterShape, nodeObject, objectsOf } from './cluster.ts';
import { nanoseconds } from './monotonic.ts';
import { serveChanges } from './serve-changes.ts';

/** Milliseconds; a real server sends them about once a minute. */
const BOOKMARKS = 10_000;

const shape = JSON.parse(process.argv[2] ?? '') as ClusterShape;
const server = await ApiServer.start({ tls: true });
const kubeconfig = await server.kubeconfig();

function write(slice: object): number {
  let at = 0;
  server.put(slice, () => {
    at = nanoseconds();
  });
  return at;
}

server.put(nodeObject());
for (let n = 0; n < shape.services; n++) for (const object of objectsOf(shape, n)) server.put(object);
// What a cluster's making left in its history is long forgotten.
server.compact();
// A real server keeps what it told once as it told it.
for (const kind of ['Service', 'EndpointSlice']) for (const object of server.objects(kind)) itemBytes(object);
setInterval(() => server.bookmark(), BOOKMARKS);
serveChanges({ shape, kubeconfig, write, stop: () => server.stop() });
