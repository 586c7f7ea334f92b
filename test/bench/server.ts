/**
 * The API server of the benchmark, a process of its own inside a namespace: made up of a shape (JSON, the one argument), it
 * serves lists in pages and watches over TLS, and changes endpoints on command (`server-protocol.ts`).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { itemBytes } from '../helpers/cluster/api/api-protobuf.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { type ClusterShape, churnStep, lastAddress, nodeObject, objectsOf, sliceCount, sliceOf } from './cluster.ts';
import { obey } from './inside.ts';
import { nanoseconds } from './monotonic.ts';
import type { Churn, ServerAnswer, ServerCommand, SliceChange } from './server-protocol.ts';

/** Milliseconds; a real server sends them about once a minute. */
const BOOKMARKS = 10_000;

const shape = JSON.parse(process.argv[2] ?? '') as ClusterShape;
const server = await ApiServer.start({ tls: true });
const kubeconfig = await server.kubeconfig();

/** The last endpoint is in the last slice. */
function put(n: number, turn: number): SliceChange {
  const slice = sliceOf(shape, n, sliceCount(shape, n) - 1, { turn, changedAt: new Date().toISOString() });
  let at = 0;
  server.put(slice, () => {
    at = nanoseconds();
  });
  return { n, address: lastAddress(shape, n, { turn }), at };
}

/** Each change has its moment: what comes late does not move the others. */
async function churn({ perSecond, seconds, turn }: Churn): Promise<SliceChange[]> {
  const changes: SliceChange[] = [];
  const start = performance.now();
  for (let i = 0; i < perSecond * seconds; i++) {
    const early = start + (i * 1000) / perSecond - performance.now();
    if (early > 0) await pause(early);
    const step = churnStep(shape, i, turn);
    changes.push(put(step.n, step.turn));
  }
  return changes;
}

async function carryOut(command: ServerCommand): Promise<readonly SliceChange[]> {
  switch (command.kind) {
    case 'ready':
      return [];
    case 'put':
      return [put(command.n, command.turn)];
    case 'churn':
      return await churn(command);
  }
}

server.put(nodeObject());
for (let n = 0; n < shape.services; n++) for (const object of objectsOf(shape, n)) server.put(object);
// What a cluster's making left in its history is long forgotten.
server.compact();
// A real server keeps what it told once as it told it.
for (const kind of ['Service', 'EndpointSlice']) for (const object of server.objects(kind)) itemBytes(object);
setInterval(() => server.bookmark(), BOOKMARKS);
obey<ServerCommand, ServerAnswer>(
  async (command) => ({ changes: await carryOut(command), kubeconfig }),
  () => server.stop(),
);
