/**
 * Makes many connections from one host and counts which server answered each: `many-connections.ts ADDRESS PORT COUNT`. The result is one line
 * of JSON: counts by the server's name, or by the error.
 */
import { connect } from 'node:net';

const AT_ONCE = 20;

const [address = '', port = '', count = ''] = process.argv.slice(2);
let left = Number(count);
const counts: Record<string, number> = {};

function once(): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(Number(port), address, () => socket.write('GET / HTTP/1.0\r\n\r\n'));
    socket.on('data', (piece) => {
      text += String(piece);
    });
    socket.on('close', () => resolve(/\r\n\r\n(\S+)/.exec(text)?.[1] ?? 'no answer'));
    socket.on('error', (error) => resolve((error as NodeJS.ErrnoException).code ?? error.message));
  });
}

async function follow(): Promise<void> {
  while (left > 0) {
    left -= 1;
    const by = await once();
    counts[by] = (counts[by] ?? 0) + 1;
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, follow));
process.stdout.write(`${JSON.stringify(counts)}\n`);
