/**
 * One host of the lab: a process inside a network namespace that serves, and sends requests, on command.
 * Commands come as JSON lines on standard input, answers go as JSON lines to standard output. Others import types of this file alone,
 * because it starts to read when it is loaded.
 */
import { createSocket } from 'node:dgram';
import { Agent, createServer, get } from 'node:http';
import { createInterface } from 'node:readline';

/** A command to answer requests on a port. */
export interface Serve {
  readonly kind: 'serve';
  readonly protocol: 'TCP' | 'UDP';
  readonly port: number;
  readonly name: string;
  /** Default: all addresses. Without an address, a host answers UDP from the address that its routes choose. */
  readonly address?: string | undefined;
}

/** A command to send one request. */
export interface HostRequest {
  readonly kind: 'ask';
  readonly protocol: 'TCP' | 'UDP';
  readonly address: string;
  readonly port: number;
  /** Milliseconds. */
  readonly timeout: number;
  /** Source address; default: the kernel's choice. */
  readonly from?: string | undefined;
  /** Source port: a client that keeps its port keeps its flow. Default: the kernel's choice. */
  readonly fromPort?: number | undefined;
  /** TCP: use the connection of this name, which stays open for later requests. Default: a new connection. */
  readonly keep?: string | undefined;
}

export type HostCommand = Serve | HostRequest;

export type HostAnswer =
  | { readonly outcome: 'serving' | 'refused' | 'timeout' }
  /** Answered by the host of this name, which saw the client under this address. */
  | { readonly outcome: 'reply'; readonly by: string; readonly seen: string }
  | { readonly outcome: 'error'; readonly error: string };

const UDP_RETRY = 200;

createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const { id, command } = JSON.parse(line) as { id: number; command: HostCommand };
    const answer = command.kind === 'serve' ? await serve(command) : await ask(command);
    process.stdout.write(`${JSON.stringify({ id, answer })}\n`);
  })
  .on('close', () => process.exit(0));

/** Answer every request with this host's name and the client's address. */
function serve({ port, name, protocol, address = '::' }: Serve): Promise<HostAnswer> {
  const text = (peer: string | undefined) => `${name} ${peer?.replace(/^::ffff:/, '') ?? '?'}`;
  return new Promise((resolve) => {
    const ready = () => resolve({ outcome: 'serving' });
    if (protocol === 'TCP') {
      const server = createServer((request, response) => {
        response.end(text(request.socket.remoteAddress));
      });
      // The client decides how long a kept connection lasts.
      server.keepAliveTimeout = 0;
      server.listen(port, address, ready);
      return;
    }
    const type = address.includes(':') ? 'udp6' : 'udp4';
    const socket = createSocket({ type, ipv6Only: type === 'udp6' && address !== '::' });
    socket.on('message', (_, peer) => socket.send(text(peer.address), peer.port, peer.address));
    socket.bind(port, address, ready);
  });
}

function ask(command: HostRequest): Promise<HostAnswer> {
  return command.protocol === 'TCP' ? askHttp(command) : askUdp(command);
}

/** Kept connections, by name. */
const kept = new Map<string, Agent>();

function keptConnection(name: string): Agent {
  const agent = kept.get(name) ?? new Agent({ keepAlive: true, maxSockets: 1 });
  kept.set(name, agent);
  return agent;
}

/** One HTTP request, on a new connection unless one is named. Unlike http's own timeout, this one starts with the first packet. */
function askHttp({ address, port, timeout, from, fromPort, keep }: HostRequest): Promise<HostAnswer> {
  return new Promise((resolve) => {
    const agent = keep === undefined ? false : keptConnection(keep);
    const local = {
      ...(from === undefined ? {} : { localAddress: from }),
      ...(fromPort === undefined ? {} : { localPort: fromPort }),
    };
    const options = { host: address, port, agent, ...local };
    const request = get(options, (response) => {
      let body = '';
      response.on('data', (piece) => {
        body += String(piece);
      });
      response.on('end', () => end(reply(body)));
      response.on('error', (error) => end(failure(error)));
    });
    const late = setTimeout(() => end({ outcome: 'timeout' }), timeout);
    const end = (answer: HostAnswer) => {
      clearTimeout(late);
      if (keep === undefined || answer.outcome !== 'reply') request.destroy();
      resolve(answer);
    };
    request.on('error', (error) => end(failure(error)));
  });
}

/** A datagram, repeated from one socket until an answer comes. */
function askUdp({ address, port, timeout, from, fromPort = 0 }: HostRequest): Promise<HostAnswer> {
  return new Promise((resolve) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    const end = (answer: HostAnswer) => {
      clearInterval(again);
      clearTimeout(late);
      socket.close();
      resolve(answer);
    };
    const send = () => socket.send('?', () => undefined);
    const again = setInterval(send, UDP_RETRY);
    const late = setTimeout(() => end({ outcome: 'timeout' }), timeout);
    socket.once('message', (message) => end(reply(message.toString())));
    socket.once('error', (error) => end(failure(error)));
    socket.bind(fromPort, from, () =>
      socket.connect(port, address, (error?: Error) => (error ? end(failure(error)) : send())),
    );
  });
}

function reply(text: string): HostAnswer {
  const [by = '', seen = ''] = text.split(' ');
  return { outcome: 'reply', by, seen };
}

function failure(error: Error): HostAnswer {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ECONNREFUSED') return { outcome: 'refused' };
  if (code === 'ETIMEDOUT') return { outcome: 'timeout' };
  return { outcome: 'error', error: code ?? error.message };
}
