/**
 * The name that the agent of a network namespace holds: an abstract Unix socket (unix(7)). Each network namespace has its own names
 * (net/unix/af_unix.c, unix_find_socket_byname), binding is atomic, and a name is free again when its process ends, however it ends.
 * Any process may take such a name, so the asker gets the listener's credentials from the kernel (SO_PEERCRED).
 */
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { PeerCredentials } from '../../native/libc.ts';

export type { PeerCredentials } from '../../native/libc.ts';

const AGENT_NAME = '\0slicewire';

/** Open connections. Each is closed with its answer, so that only a hostile program opens so many. */
const MAX_CONNECTIONS = 16;

export interface HeldName {
  /** Resolves when the name is free. */
  release(): Promise<void>;
}

/** Takes the name, and answers each connection with a line; undefined where another process has it. Rejects with an Error of Node.js. */
export async function takeName(name: string, line: () => string): Promise<HeldName | undefined> {
  const server = createServer((socket) => {
    // The asker may have gone.
    socket.on('error', () => socket.destroy());
    socket.end(`${line()}\n`);
    socket.destroySoon();
  });
  server.maxConnections = MAX_CONNECTIONS;
  if (!(await listens(server, name))) return undefined;
  // Errors of accept(2), such as EMFILE: the name stays held.
  server.on('error', () => undefined);
  server.unref();
  return { release: () => new Promise((resolve) => server.close(() => resolve())) };
}

function listens(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    };
    server.once('error', onError);
    server.listen({ path }, () => {
      server.off('error', onError);
      resolve(true);
    });
  });
}

/** The answer of the process that holds the name. `peer` is undefined where the kernel does not know it. */
export type HolderAnswer =
  | { readonly kind: 'line'; readonly peer: PeerCredentials | undefined; readonly line: string }
  /** The holder closed the connection without a line: it ended meanwhile, or has too many connections. */
  | { readonly kind: 'closed'; readonly peer: PeerCredentials | undefined }
  /** The holder sent no line in time. */
  | { readonly kind: 'silent'; readonly peer: PeerCredentials | undefined }
  /** The name is free again, or bound without a listener, or the queue of connections is full. */
  | { readonly kind: 'no connection'; readonly cause: string };

export interface AskOptions {
  /** Milliseconds for the answer. */
  readonly patience: number;
  /** Bytes of the longest line. A longer one is cut. */
  readonly maxLength: number;
}

/** Asks the process that holds the name. */
export async function askHolder(name: string, { patience, maxLength }: AskOptions): Promise<HolderAnswer> {
  // Loaded before the connection is made: its descriptor is asked about while it is open.
  const { peerCredentials } = await import('../../native/libc.ts');
  return await new Promise((resolve) => {
    const socket = connect({ path: name });
    let isConnected = false;
    let peer: PeerCredentials | undefined;
    let text = Buffer.alloc(0);
    let cause = `no connection in ${patience} ms`;
    const finish = (kind: 'line' | 'closed' | 'silent') => {
      clearTimeout(timer);
      socket.destroy();
      if (!isConnected) resolve({ kind: 'no connection', cause });
      else resolve(kind === 'line' ? { kind, peer, line: lineOf(text) } : { kind, peer });
    };
    const timer = setTimeout(() => finish('silent'), patience);
    socket.on('connect', () => {
      isConnected = true;
      const descriptor = descriptorOf(socket);
      if (descriptor !== undefined) peer = peerCredentials(descriptor);
    });
    socket.on('data', (chunk: Buffer) => {
      text = Buffer.concat([text, chunk]).subarray(0, maxLength + 1);
      if (text.includes(LINE_END) || text.length > maxLength) finish('line');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      cause = error.code ?? error.message;
    });
    // After 'end' or 'error'.
    socket.on('close', () => finish(text.length > 0 ? 'line' : 'closed'));
  });
}

const LINE_END = 0x0a;

function lineOf(text: Buffer): string {
  return (text.toString('utf8').split('\n', 1)[0] ?? '').trimEnd();
}

/** The descriptor of a socket, for which Node.js has no public property. */
function descriptorOf(socket: Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle');
  if (typeof handle !== 'object' || handle === null || !('fd' in handle)) return undefined;
  const { fd } = handle;
  return typeof fd === 'number' && fd >= 0 ? fd : undefined;
}

/** The seam to the abstract Unix sockets of this machine. */
export interface NameService {
  take(line: () => string): Promise<HeldName | undefined>;
  ask(options: AskOptions): Promise<HolderAnswer>;
  /** The effective user of this process. */
  readonly uid: number;
}

/** The name of this network namespace's agent. */
export const agentNames: NameService = {
  take: (line) => takeName(AGENT_NAME, line),
  ask: (options) => askHolder(AGENT_NAME, options),
  uid: process.geteuid?.() ?? 0,
};
