/**
 * Requests to the agent's servers: raw bytes on a socket one time in sixteen, otherwise a request line and headers for the handlers of
 * health, metrics and questions.
 */
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { questionsOf } from '../../../src/agent/questions/parameters.ts';
import type { Address } from '../../../src/base/address.ts';
import { readQuery } from '../../../src/inspect/explain/packet-query.ts';
import { Health } from '../../../src/serve/health.ts';
import { healthHandler } from '../../../src/serve/health-server.ts';
import { type Handler, type HttpRequest, HttpServer } from '../../../src/serve/http.ts';
import { metricsHandler } from '../../../src/serve/metrics-server.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { askedNode } from '../../helpers/inspect/explain/asking.ts';
import { OWN_FACTS } from '../../helpers/serve/own-facts.ts';
import { corpusFiles } from '../corpus/read.ts';
import { mutateText } from '../mutate/text.ts';
import { soundNumber, soundTime } from '../sound/text.ts';
import { sure, type Target } from '../target.ts';

const NOW = Date.UTC(2026, 10, 22, 13);
const node = askedNode('iptables');
await node.sync();

/** Answers as the agent does, without its kernel: the moments and numbers of a question are within what they can be. */
const inquiries = {
  status: () => ({ kind: 'Status' }),
  verify: () => Promise.resolve({ kind: 'Verification' }),
  explain({ from, to, at }: { from: string; to: string; at?: number | undefined }) {
    if (at !== undefined) soundTime(at, 'at');
    const question = readQuery(from, to, node.facts());
    soundNumber(question.to.port, 'to.port', 1, 65_535);
    return Promise.resolve({ kind: 'Explanation', to: question.to.address });
  },
  history({
    service,
    since,
    at,
    most,
  }: {
    service: string | undefined;
    since: number | undefined;
    at: number | undefined;
    most: number | undefined;
  }) {
    for (const moment of [since, at]) if (moment !== undefined) soundTime(moment, 'moment');
    if (most !== undefined) soundNumber(most, 'most', 1, 99_999);
    sure(service === undefined || service.length < 8192, () => 'the name of a Service is longer than a head');
    return Promise.resolve({ kind: 'History' });
  },
  recording: () => (async function* () {})(),
};

const clock = new FakeClock();
const health = new Health(
  { now: () => clock.now(), wall: () => NOW },
  {
    timeout: 60_000,
    families: ['IPv4'],
    expected: ['IPv4'],
    waitingFor: () => [],
    watches: () => [],
    node: () => undefined,
    datapathCheck: 'none' as const,
    hasNodes: false,
    unserved: [],
  },
);
const metrics = metricsHandler({
  mode: () => 'iptables',
  config: () => ({ mode: 'iptables' }),
  metrics: () => ({ contentType: 'text/plain', text: () => Promise.resolve('# nothing\n') }),
  hasProfiling: () => true,
  questions: { byPath: questionsOf(inquiries as never, () => NOW), isLocal: () => true },
  readPage: () => Promise.resolve(gzipSync('page')),
  component: OWN_FACTS,
  setVerbosity: (verbosity) => soundNumber(verbosity, 'verbosity', 0, 999),
});
const probes = healthHandler({ health, wall: () => NOW, onAnswer: () => undefined });
const handler: Handler = (asked) => (/^\/(?:healthz|livez|readyz)/.test(asked.path) ? probes(asked) : metrics(asked));
let server: Promise<HttpServer> | undefined;

const STATUSES = [200, 400, 403, 404, 405, 406, 503];

/** A request line and its header Host, as Node.js hands them to a handler. */
function askedOf(text: string): HttpRequest {
  const [line = '', ...headers] = text.split(/\r?\n/);
  const [method = '', target = ''] = line.split(' ');
  const [path = '', query = ''] = target.split('?', 2);
  const headerOf = (name: string) =>
    headers
      .find((header) => header.toLowerCase().startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim();
  const body = text.slice(text.indexOf('\r\n\r\n') + 4, 4096);
  return {
    method,
    path,
    query: new URLSearchParams(query),
    host: headerOf('host'),
    accept: headerOf('accept'),
    local: '127.0.0.1',
    remote: '127.0.0.1',
    body: () => Promise.resolve(body),
    signal: AbortSignal.abort(),
  };
}

async function byHandler(text: string): Promise<void> {
  const asked = askedOf(text);
  // A profile takes as many seconds as it is asked for.
  if (asked.path.startsWith('/debug/pprof/')) return;
  const { status, headers = {}, body } = await handler(asked);
  sure(STATUSES.includes(status), () => `status: ${status} ${typeof body === 'string' ? body : ''}`);
  for (const value of Object.values(headers)) sure(/^[\x20-\x7e]*$/.test(value), () => `header: ${value}`);
  if (headers['content-type'] === 'application/json') JSON.parse(String(body));
}

/** The server ends the connection, or the answer comes, within the time of an input. Each request is answered in form. */
async function bySocket(bytes: Buffer): Promise<void> {
  server ??= HttpServer.open({ address: '127.0.0.1' as Address, port: 0 }, handler);
  const { port } = await server;
  const answer = await new Promise<string>((resolve, reject) => {
    let text = '';
    const socket = connect({ host: '127.0.0.1', port });
    const end = () => {
      resolve(text);
      // No state of a connection is left: millions follow.
      socket.resetAndDestroy();
    };
    socket.setEncoding('latin1');
    socket.on('data', (piece) => {
      text += String(piece);
    });
    socket.on('end', end);
    socket.on('close', () => resolve(text));
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' || error.code === 'EPIPE' ? end() : reject(error),
    );
    socket.end(bytes);
  });
  sure(answer === '' || /^HTTP\/1\.1 \d{3} /.test(answer), () => `answer: ${answer.slice(0, 100)}`);
  sure(!answer.startsWith('HTTP/1.1 500'), () => `status: ${answer.slice(0, 400)}`);
}

export const http: Target = {
  name: 'http',
  declared: [],
  seeds: corpusFiles('http'),
  mutate: (random, seeds) => Buffer.concat([Buffer.from([random.below(16)]), mutateText(random, seeds)]),
  async run(input) {
    const bytes = input.subarray(1);
    if ((input[0] ?? 0) % 16 === 0) await bySocket(bytes);
    else await byHandler(bytes.toString());
  },
  async close() {
    await (await server)?.close();
  },
};
