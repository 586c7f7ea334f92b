/**
 * The endpoints of a namespace: each answers with its own address, over TCP at once, and after the text of each question.
 * Arguments: the port, and the addresses for UDP, which must answer from the address that was asked.
 */
import './interrupts.ts';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { obey } from '../bench/inside.ts';

const [port = '', ...addresses] = process.argv.slice(2);
const plain = (address: string | undefined) => address?.replace(/^::ffff:/, '') ?? '?';

function serveTcp(): Promise<void> {
  const server = createServer((socket) => {
    const own = plain(socket.localAddress);
    socket.on('error', () => undefined);
    socket.write(`${own}\n`);
    createInterface({ input: socket })
      .on('line', (line) => socket.write(`${line} ${own}\n`))
      .on('error', () => undefined);
  });
  return new Promise((resolve) => server.listen({ port: Number(port), host: '::', backlog: 4096 }, resolve));
}

function serveUdp(address: string): Promise<void> {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
  socket.on('message', (text, peer) => socket.send(`${text} ${address}`, peer.port, peer.address));
  return new Promise((resolve) => socket.bind(Number(port), address, resolve));
}

const ready = Promise.all([serveTcp(), ...addresses.map(serveUdp)]);
obey<{ kind: 'ready' }, object>(async () => {
  await ready;
  return {};
});
