/** What a proxy receives from the API server for each changed slice, by the kernel's count of its connections. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { FIRST } from './cluster.ts';
import type { Trial } from './trial.ts';

const CHANGES = 50;
/** Milliseconds until the last of them has arrived. */
const SETTLE = 2000;

/** Bytes for each of many changes of one slice, what TLS adds included. */
export async function receivedBytes({ lab, server }: Trial, pid: number): Promise<number> {
  // The first are of another length, and what the start left over has arrived after them.
  for (let turn = 1; turn <= 5; turn++) await server.put(FIRST, turn);
  await pause(SETTLE);
  const before = await bytesOf(lab, pid);
  for (let turn = 10; turn < 10 + CHANGES; turn++) {
    await server.put(FIRST, turn);
    // One at a time, or a proxy could be sent several in one record of TLS.
    await pause(20);
  }
  await pause(SETTLE);
  return ((await bytesOf(lab, pid)) - before) / CHANGES;
}

/** Bytes that the established connections of a process in the node's namespace have received. Throws when it has none. */
async function bytesOf(lab: Lab, pid: number): Promise<number> {
  const received = receivedOf(await lab.exec('node', 'ss', '-tinpHO', 'state', 'established'), pid);
  if (received === undefined) throw new Error(`process ${pid} has no connection`);
  return received;
}

/** From what `ss -tinpHO` prints, one connection in a line; undefined when none is of the process. */
export function receivedOf(text: string, pid: number): number | undefined {
  const own = text.split('\n').filter((line) => line.includes(`pid=${pid},`));
  if (own.length === 0) return undefined;
  return own.reduce((sum, line) => sum + Number(/\bbytes_received:(\d+)/.exec(line)?.[1] ?? 0), 0);
}
