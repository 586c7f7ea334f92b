/**
 * A DNS cache that caches nothing: each question is passed on to the upstream, and the answer is `cache HOST`, by the host that answered
 * there. `node dns-cache-inside.ts UPSTREAM ADDRESS…`, in the namespace of a node; it says `ready` once all addresses are bound.
 */
import { createSocket } from 'node:dgram';
import { createServer, get } from 'node:http';

const PORT = 53;
/** Milliseconds for an answer of the upstream. */
const PATIENCE = 10_000;

const [upstream = '', ...addresses] = process.argv.slice(2);
const typeOf = (address: string) => (address.includes(':') ? 'udp6' : 'udp4');
const relayed = (text: string) => `cache ${text.split(' ')[0]}`;

await Promise.all(addresses.flatMap((address) => [serveUdp(address), serveTcp(address)]));
process.stdout.write('ready\n');

function serveUdp(address: string): Promise<void> {
  const socket = createSocket(typeOf(address));
  socket.on('message', async (question, { port, address: client }) => {
    socket.send(relayed(await askUdp(question)), port, client);
  });
  return new Promise((resolve) => socket.bind(PORT, address, resolve));
}

function serveTcp(address: string): Promise<void> {
  const server = createServer(async (_, response) => response.end(relayed(await askTcp())));
  return new Promise((resolve) => server.listen(PORT, address, resolve));
}

function askUdp(question: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = createSocket(typeOf(upstream));
    const end = (text: string) => {
      clearTimeout(late);
      socket.close();
      resolve(text);
    };
    const late = setTimeout(() => end('nobody'), PATIENCE);
    socket.once('message', (answer) => end(answer.toString()));
    socket.once('error', () => end('nobody'));
    socket.connect(PORT, upstream, () => socket.send(question, () => undefined));
  });
}

function askTcp(): Promise<string> {
  return new Promise((resolve) => {
    const request = get({ host: upstream, port: PORT, agent: false, timeout: PATIENCE }, async (response) => {
      resolve((await response.setEncoding('utf8').toArray()).join(''));
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve('nobody'));
  });
}
