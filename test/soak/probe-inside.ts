/** Asks targets in turn, at an even pace, without waiting for answers; tells of each question that must be judged. */
import './interrupts.ts';
import { createSocket, type Socket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
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
    });
    socket.on('end', () => end(text === '' ? { failure: 'closed without an answer' } : { by: text }));
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

/** Clients that keep their port. */
class KeptClient {
  readonly #socket: Socket;
  readonly #waiting = new Map<string, (heard: Heard) => void>();
  #next = 0;

  constructor({ address, port, fromPort }: Target) {
    this.#socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    this.#socket.bind(fromPort ?? 0, () => this.#socket.connect(port, address));
    this.#socket.on('message', (text) => {
      const [number = '', by = ''] = text.toString().split(' ');
      this.#waiting.get(number)?.({ by });
    });
    // A refusal says not which question it refuses: all that wait are refused.
    this.#socket.on('error', (error: NodeJS.ErrnoException) => {
      for (const end of [...this.#waiting.values()]) end({ failure: error.code ?? error.message });
    });
  }

  ask(): Promise<Heard> {
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
        this.#socket.send(number);
      } catch (error) {
        end({ failure: String(error) });
      }
    });
  }

  close(): void {
    this.#socket.close();
  }
}

const clients = new Map(
  targets.filter(({ fromPort }) => fromPort !== undefined).map((one) => [one, new KeptClient(one)]),
);

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
