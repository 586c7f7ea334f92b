/** The API server of a soak, a process of its own: it changes objects without end from `begin` to `end`. */
import './interrupts.ts';
import { setTimeout as pause } from 'node:timers/promises';
import { nodeObject, objectsOf } from '../bench/cluster.ts';
import { obey, tell } from '../bench/inside.ts';
import { itemBytes } from '../helpers/cluster/api/api-protobuf.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { Churn, type Write } from './churn.ts';
import { movingEndpoints, movingSlice, STABLE_COUNT, shapeOf, stableObjects } from './cluster.ts';
import { milliseconds } from './monotonic.ts';
import type { Moved, ServerAnswer, ServerCommand, ServerOptions } from './server-protocol.ts';

/** Milliseconds. */
const BOOKMARKS = 10_000;
/** A real server forgets its history after five minutes. */
const COMPACTION = 300_000;
const BETWEEN_MOVES = 2000;
/** Changes that are later than this are not made up for. */
const LATE = 1000;

const { services, perSecond, seed } = JSON.parse(process.argv[2] ?? '') as ServerOptions;
const shape = shapeOf(services);
const server = await ApiServer.start({ tls: true });
const kubeconfig = await server.kubeconfig();
const churn = new Churn(shape, seed);
const counts = { changes: 0, skipped: 0 };
let isOn = false;
let running: Promise<void> | undefined;
let moves = 0;

function write(one: Write): void {
  if (one.kind === 'put') server.put(one.object);
  else server.delete(one.of, one.key);
  counts.changes += 1;
}

/** Changes have their times, so that a late one does not move the others. */
async function change(): Promise<void> {
  const step = 1000 / perSecond;
  for (let due = performance.now(); isOn; ) {
    const early = due - performance.now();
    if (early > 0) await pause(early);
    else if (early < -LATE) {
      counts.skipped += Math.floor(-early / step);
      due -= Math.floor(early / step) * step;
    }
    const writes = churn.next(new Date().toISOString());
    for (const one of writes) write(one);
    due += step * writes.length;
  }
}

function move(): void {
  moves += 1;
  const moved: Moved = { at: milliseconds(), endpoints: movingEndpoints(moves) };
  server.put(movingSlice(moves, new Date().toISOString()));
  tell(moved);
}

async function carryOut({ kind }: ServerCommand): Promise<ServerAnswer> {
  if (kind === 'begin') {
    isOn = true;
    running = change();
  }
  if (kind === 'end') {
    isOn = false;
    await running;
    for (const timer of timers) clearInterval(timer);
  }
  return { kubeconfig, ...counts, services: churn.services + STABLE_COUNT };
}

server.put(nodeObject());
for (const object of stableObjects()) server.put(object);
for (let n = 0; n < shape.services; n++) for (const object of objectsOf(shape, n)) server.put(object);
move();
server.compact();
// A real server keeps what it told once as it told it.
for (const kind of ['Service', 'EndpointSlice']) for (const object of server.objects(kind)) itemBytes(object);
const timers = [
  setInterval(() => server.bookmark(), BOOKMARKS),
  setInterval(() => server.compact(), COMPACTION),
  setInterval(() => move(), BETWEEN_MOVES),
];
obey<ServerCommand, ServerAnswer>(carryOut, () => server.stop());
