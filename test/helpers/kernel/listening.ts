/** The ports on which something listens where a process is. */
import { readFileSync } from 'node:fs';

/** State of a socket that listens (TCP_LISTEN of net/tcp_states.h), as /proc/net/tcp has it. */
const LISTEN = '0A';

/** TCP ports in the network namespace of the process. */
export function listeningPorts(pid: number | undefined): number[] {
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state]) => state === LISTEN)
      .map(([, local = '']) => Number.parseInt(local.split(':').at(-1) ?? '', 16)),
  );
}
