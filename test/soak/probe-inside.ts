/** Asks targets in turn, at an even pace, without waiting for answers; tells of each question that must be judged. */
import './interrupts.ts';
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { createConnection, type Socket as TcpSocket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { obey, tell } from '../bench/inside.ts';
import type { Target } from './cluster.ts';
import { milliseconds } from './monotonic.ts';
import type { ProbeAnswer, ProbeCommand, Probed, ProbeOptions } from './probe-protocol.ts';

/** Milliseconds. Longer than a busy machine delays an answer; a packet that is lost is never sent again by these clients. */
const TIMEOUT = 5000;

const { targets, perSecond } = JSON.parse(process.argv[2] ?? '') as ProbeOptions;
const counts = { sent: 0, answered: 0, slowest: 0 };
const sentBefore = sentAgain();
const pending = new Set<Promise<void>>();
let isOn = false;
let running: Promise<void> | undefined;

/** Who answered, or why nobody did. */
type Heard = { readonly by: string } | { readonly failure: string };

function askTcp({ address, port }: Target): Promise<Heard> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: address, port });
    let text = '';
    const end = (heard: Heard) => {
      clearTimeout(late);
      socket.destroy();
      resolve(heard);
    };
    const state = () => (socket.connecting ? 'no answer to the connection' : 'connected, and no answer');
    const late = setTimeout(() => end({ failure: state() }), TIMEOUT);
    socket.setEncoding('utf8').on('data', (piece) => {
      text += piece;
      if (text.endsWith('\n')) end({ by: text.trimEnd() });
    });
    socket.on('end', () => end({ failure: 'closed without an answer' }));
    socket.on('error', (error: NodeJS.ErrnoException) => end({ failure: error.code ?? error.message }));
  });
}

/** One question of one socket. */
function askUdp({ address, port }: Target): Promise<Heard> {
  return new Promise((resolve) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    const end = (heard: Heard) => {
      clearTimeout(late);
      socket.close();
      resolve(heard);
    };
    const late = setTimeout(() => end({ failure: 'no answer' }), TIMEOUT);
    socket.once('message', (text) => end({ by: text.toString().split(' ')[1] ?? '' }));
    socket.once('error', (error: NodeJS.ErrnoException) => end({ failure: error.code ?? error.message }));
    // Connected, so that a refusal is heard.
    socket.connect(port, address, () => socket.send('?'));
  });
}

/** Questions by their numbers, of a client that has several on their way. */
class Questions {
  readonly #waiting = new Map<string, (heard: Heard) => void>();
  #next = 0;

  ask(send: (number: string) => void): Promise<Heard> {
    const number = String(this.#next++);
    return new Promise((resolve) => {
      const end = (heard: Heard) => {
        clearTimeout(late);
        this.#waiting.delete(number);
        resolve(heard);
      };
      const late = setTimeout(() => end({ failure: 'no answer' }), TIMEOUT);
      this.#waiting.set(number, end);
      try {
        send(number);
      } catch (error) {
        end({ failure: String(error) });
      }
    });
  }

  /** `7 10.244.1.2` */
  answered(text: string): void {
    const [number = '', by = ''] = text.split(' ');
    this.#waiting.get(number)?.({ by });
  }

  /** A refusal says not which question it refuses: all that wait are refused. Returns how many. */
  failed(failure: string): number {
    const waiting = [...this.#waiting.values()];
    for (const end of waiting) end({ failure });
    return waiting.length;
  }
}

/** Clients that keep their port. */
class KeptClient {
  readonly #socket: UdpSocket;
  readonly #questions = new Questions();

  constructor({ address, port, fromPort }: Target) {
    this.#socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    this.#socket.bind(fromPort ?? 0, () => this.#socket.connect(port, address));
    this.#socket.on('message', (text) => this.#questions.answered(text.toString()));
    this.#socket.on('error', (error: NodeJS.ErrnoException) => this.#questions.failed(error.code ?? error.message));
  }

  ask(): Promise<Heard> {
    return this.#questions.ask((number) => this.#socket.send(number));
  }

  close(): void {
    this.#socket.close();
  }
}

/** A client that asks all its questions over one connection. `onBroken` is called when it breaks while no question waits. */
class KeptConnection {
  readonly #target: Target;
  readonly #onBroken: (cause: string) => void;
  readonly #questions = new Questions();
  #socket: TcpSocket | undefined;

  constructor(target: Target, onBroken: (cause: string) => void) {
    this.#target = target;
    this.#onBroken = onBroken;
  }

  /** The first question opens the connection, and so does the first one after it broke. */
  ask(): Promise<Heard> {
    this.#socket ??= this.#connect();
    const socket = this.#socket;
    return this.#questions.ask((number) => socket.write(`${number}\n`));
  }

  close(): void {
    this.#socket?.removeAllListeners('close').destroy();
  }

  #connect(): TcpSocket {
    const { address, port } = this.#target;
    const socket = createConnection({ host: address, port });
    let cause = 'the endpoint ended it';
    createInterface({ input: socket })
      .on('line', (line) => this.#questions.answered(line))
      .on('error', () => undefined);
    socket.on('error', (error: NodeJS.ErrnoException) => {
      cause = error.code ?? error.message;
    });
    socket.on('close', () => {
      this.#socket = undefined;
      const text = `the connection broke: ${cause}`;
      if (this.#questions.failed(text) === 0) this.#onBroken(text);
    });
    return socket;
  }
}

const clients = new Map<Target, KeptClient | KeptConnection>();
for (const one of targets) {
  if (one.fromPort !== undefined) clients.set(one, new KeptClient(one));
  if (one.keepsConnection) clients.set(one, new KeptConnection(one, (by) => tellLost(one, by)));
}

function tellLost({ endpoints: _, ...target }: Target, by: string): void {
  const now = milliseconds();
  tell({ target, asked: now, over: now, outcome: 'lost', by } satisfies Probed);
}

async function probe(target: Target): Promise<void> {
  const asked = milliseconds();
  counts.sent += 1;
  const client = clients.get(target);
  const heard = await (client?.ask() ?? (target.protocol === 'TCP' ? askTcp(target) : askUdp(target)));
  const over = milliseconds();
  const { endpoints, ...named } = target;
  const common = { target: named, asked, over };
  const report = (probed: Probed) => tell(probed);
  if ('failure' in heard) {
    report({ ...common, outcome: 'lost', by: heard.failure });
    return;
  }
  counts.answered += 1;
  counts.slowest = Math.max(counts.slowest, over - asked);
  if (endpoints === undefined) report({ ...common, outcome: 'moving', by: heard.by });
  else if (!endpoints.includes(heard.by)) report({ ...common, outcome: 'wrong', by: heard.by });
}

async function ask(): Promise<void> {
  let due = performance.now();
  for (let i = 0; isOn; i++) {
    const target = targets[i % targets.length];
    if (target === undefined) return;
    const one = probe(target).finally(() => pending.delete(one));
    pending.add(one);
    due = Math.max(due + 1000 / perSecond, performance.now());
    await pause(due - performance.now());
  }
}

/** TCPSynRetrans of this namespace (proc_net_netstat). */
function sentAgain(): number {
  const lines = readFileSync('/proc/self/net/netstat', 'utf8').split('\n');
  const [names = [], values = []] = lines.filter((line) => line.startsWith('TcpExt:')).map((line) => line.split(' '));
  return Number(values[names.indexOf('TCPSynRetrans')]);
}

obey<ProbeCommand, ProbeAnswer>(async ({ kind }) => {
  if (kind === 'begin') {
    isOn = true;
    running = ask();
  }
  if (kind === 'end') {
    isOn = false;
    await running;
    await Promise.all(pending);
    for (const client of clients.values()) client.close();
  }
  return { ...counts, sentAgain: sentAgain() - sentBefore };
});
