/**
 * A client in a namespace: opens a connection to ADDRESS:PORT every INTERVAL milliseconds, and waits at most PATIENCE for each. Prints a
 * line of JSON for each one that has ended: when it began (milliseconds since 1970), how long it took, and whether somebody answered.
 */
import net from 'node:net';
import type { Attempt } from './attempts.ts';

const [address = '', port = '', interval = '', patience = ''] = process.argv.slice(2);

function attempt(): void {
  const at = Date.now();
  const start = performance.now();
  const socket = net.connect({ host: address, port: Number(port) });
  const end = (isAnswered: boolean) => {
    clearTimeout(late);
    socket.destroy();
    const ended: Attempt = { at, took: performance.now() - start, isAnswered };
    process.stdout.write(`${JSON.stringify(ended)}\n`);
  };
  const late = setTimeout(() => end(false), Number(patience));
  socket.once('connect', () => end(true));
  socket.once('error', () => end(false));
}

setInterval(attempt, Number(interval));
process.stdin.on('end', () => process.exit(0)).resume();
