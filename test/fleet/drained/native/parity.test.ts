/** Both forms of the hook say the same words and end with the same status, whatever is asked and whatever is answered. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { before, describe, it, type TestContext } from 'node:test';
import { drainedCommand } from '../../../../src/cli/drained.ts';
import { camel } from '../../../../src/config/flags.ts';
import { problemOf } from '../../../../src/inspect/wire/envelope.ts';
import { realCommands } from '../../../../src/kernel/commands.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';
import { COMMAND_LINES } from '../../../messages/command-lines.ts';
import { NO, YES } from '../fake-fleet.ts';
import { DRAINED_COMMAND, madeDrainedProgram } from '../forms.ts';

const [YES_TEXT, NO_TEXT] = [JSON.stringify(YES), JSON.stringify(NO)];
const NOT_HTTP = 'the answer is not HTTP/1.1';
const UNREADABLE = (status: number) =>
  `the answer cannot be read (HTTP status ${status}): it is another program, or version`;
const CUT_OFF = 'the connection ended within the answer';

const lengthOf = (body: string) => `content-length: ${Buffer.byteLength(body)}\r\n`;
const http = (status: number, body: string, head = lengthOf(body)) => `HTTP/1.1 ${status} X\r\n${head}\r\n${body}`;
const chunked = (body: string) => `${body.length.toString(16)};a=b\r\n${body}\r\n0\r\nT: 1\r\n\r\n`;
const CHUNKED = 'Transfer-Encoding: Chunked\r\n';

/** Bytes of an answer, and why it is none; "": it is one. */
const REPLIES: readonly (readonly [name: string, reply: string, failure: string])[] = [
  ['a yes with its length', http(200, YES_TEXT), ''],
  ['a yes in chunks', http(200, chunked(YES_TEXT), CHUNKED), ''],
  ['a yes up to the end of the connection', http(200, YES_TEXT, ''), ''],
  ['a yes after an interim answer', `HTTP/1.1 100 Continue\r\n\r\n${http(200, YES_TEXT)}`, ''],
  ['a yes without a reason phrase', `HTTP/1.1 200\r\n${lengthOf(YES_TEXT)}\r\n${YES_TEXT}`, ''],
  ['a yes of HTTP/1.0', http(200, YES_TEXT).replace('1.1', '1.0'), ''],
  ['a no', http(504, NO_TEXT), ''],
  [
    'a no with characters that are escaped, fields that are not known, and names of the others',
    http(
      504,
      JSON.stringify({
        ...NO,
        of: 'a "b" \\ \u0001 \u{1f600} \ud800 é \u2028',
        services: ['a', 'b', 'c'],
        later: [{ deep: [1.5e3, null, true] }],
        nodes: {
          ...NO.nodes,
          programmed: 12345,
          leftOut: [{ node: 'x', since: '2024-02-29T12:03:04.567Z', why: 'a\nb' }],
          leftOutCount: 7,
        },
      }),
    ),
    '',
  ],
  [
    'a no with a member twice',
    http(504, NO_TEXT.replace('"services"', '"drained":"x","drained":false,"services"')),
    '',
  ],
  ['a day that is none', http(504, NO_TEXT.replace('null', '"2026-02-29T12:03:04.567Z"')), UNREADABLE(504)],
  ['a number that is not whole', http(504, NO_TEXT.replace('"programmed":2', '"programmed":2.5')), UNREADABLE(504)],
  ['something after the answer', http(504, `${NO_TEXT}x`), UNREADABLE(504)],
  ['a byte order mark', http(200, `\ufeff${YES_TEXT}`), UNREADABLE(200)],
  ['another status than the answer', http(504, YES_TEXT), UNREADABLE(504)],
  ['nothing', http(200, ''), UNREADABLE(200)],
  ['a problem', http(401, JSON.stringify(problemOf('no tökén \ud800'))), 'no tökén \ufffd'],
  ['a problem of another program', http(401, JSON.stringify({ kind: 'Problem', message: 'x' })), 'HTTP status 401'],
  ['a redirection', http(302, 'moved'), 'HTTP status 302'],
  ['no content', 'HTTP/1.1 204 No\r\n\r\n', 'HTTP status 204'],
  ['the end of the connection', '', 'socket hang up'],
  ['a part of a head', 'HTTP/1.1 200 OK\r\ncontent-', 'socket hang up'],
  ['a part of an answer', http(200, YES_TEXT).slice(0, -5), CUT_OFF],
  ['a part of a chunk', http(200, chunked(YES_TEXT).slice(0, -20), CHUNKED), CUT_OFF],
  ['another protocol', 'SSH-2.0-OpenSSH\r\n', NOT_HTTP],
  ['a change of the protocol', 'HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n', NOT_HTTP],
  ['two lengths', http(200, YES_TEXT, lengthOf(YES_TEXT).repeat(2)), NOT_HTTP],
  ['a length beside chunks', http(200, chunked(YES_TEXT), `${lengthOf(YES_TEXT)}${CHUNKED}`), NOT_HTTP],
  ['a negative length', http(200, YES_TEXT, 'content-length: -5\r\n'), NOT_HTTP],
  ['lines without CR', http(200, YES_TEXT).replaceAll('\r\n', '\n'), NOT_HTTP],
  ['a header in two lines', http(200, YES_TEXT, `x: y\r\n z\r\n${lengthOf(YES_TEXT)}`), NOT_HTTP],
  ['a large head', http(200, YES_TEXT, `x: ${'y'.repeat(20_000)}\r\n`), NOT_HTTP],
  ['a large body', http(200, ' '.repeat(1 << 20) + YES_TEXT), 'the answer is larger than 1048576 bytes'],
];

/** Flags by name, which the fleet is not asked with. */
const WRONG: readonly Readonly<Record<string, string>>[] = [
  { fleet: 'https://fleet', address: '10.0.0.1' },
  { fleet: 'http://fleet/path', address: '10.0.0.1' },
  { fleet: 'http://user@fleet', address: '10.0.0.1' },
  { fleet: 'http://fleet:99999', address: '10.0.0.1' },
  { fleet: 'http://[::1', address: '10.0.0.1' },
  { timeout: '-1s', address: '10.0.0.1' },
  { timeout: '10m0.1s', address: '10.0.0.1' },
  { timeout: '1.5.5s', address: '10.0.0.1' },
  { timeout: '30', address: '10.0.0.1' },
  { timeout: '0.0h', address: '10.0.0.1' },
  { address: '10.0.0.256' },
  { address: 'fd00::1::2' },
  { address: 'fe80::1%eth0' },
  { address: '1:2:3:4:5:6:7:8:9' },
  { pod: 'Web/1' },
  { pod: `shop/${'x'.repeat(254)}` },
  { pod: 'web-1' },
  { pod: '' },
  {},
];

/** Flags that both take, and the address that is asked. */
const RIGHT: readonly Readonly<Record<string, string>>[] = [
  { address: '010.000.0.1', timeout: '+.25s' },
  { address: 'FD00::1:0:0:2', timeout: '0.1s150ms' },
  { address: '::ffff:10.0.0.1', timeout: '250000us' },
  { address: '1:2:3:4:5:6:7::', timeout: '250000\u00b5s' },
  { pod: `${'a'.repeat(253)}/${'b'.repeat(253)}`, timeout: '.25s' },
];

interface Said {
  readonly status: number | undefined;
  readonly out: string;
  readonly errors: string;
}

describe('slicewire drained and slicewire-drained', () => {
  let program: string;
  before(async () => {
    program = await madeDrainedProgram();
  });

  /** Without the time that was waited. */
  const timeless = (text: string) => text.replace(/after [\d.]+ m?s/, 'after a time').replace(/"waited": \d+/, '');

  async function small(args: readonly string[]): Promise<Said> {
    const command = ['-u', 'POD_NAME', '-u', 'POD_NAMESPACE', program, ...args];
    const { exitCode, stdout, stderr } = await realCommands.run({ file: 'env', args: command }, NEVER);
    return { status: exitCode, out: timeless(stdout), errors: stderr };
  }

  /** In this process: one of its own takes a second to start. */
  async function full(t: TestContext, flags: Readonly<Record<string, string>>): Promise<Said> {
    const [out, errors]: [string[], string[]] = [[], []];
    const write = t.mock.method(process.stderr, 'write', (text: string) => errors.push(text) > 0);
    const asked = { words: [], flags, signal: NEVER, print: (text: string) => out.push(`${text}\n`) };
    try {
      const status = await drainedCommand({ ...asked, flags: camelFlags(flags) });
      // As the bytes that are written have them.
      return { status, out: timeless(out.join('').toWellFormed()), errors: errors.join('').toWellFormed() };
    } finally {
      write.mock.restore();
    }
  }

  const camelFlags = (flags: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(flags).map(([name, value]) => [camel(name), value]));

  const argsOf = (flags: Readonly<Record<string, string>>) =>
    Object.entries(flags).map(([name, value]) => `--${name}=${value}`);

  async function bothSay(t: TestContext, flags: Readonly<Record<string, string>>): Promise<Said> {
    const ofSmall = await small(argsOf(flags));
    assert.deepEqual(ofSmall, await full(t, flags));
    return ofSmall;
  }

  async function replyWith(reply: string, host = '127.0.0.1') {
    const asked: string[] = [];
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', (request) => {
        asked.push(String(request).split('\r\n', 1)[0] ?? '');
        socket.end(reply);
      });
    });
    await once(server.listen(0, host), 'listening');
    const { port } = server.address() as AddressInfo;
    return {
      url: new URL(`http://${host.includes(':') ? `[${host}]` : host}:${port}`),
      asked,
      close: () => server.close(),
    };
  }

  for (const [name, reply, failure] of REPLIES)
    it(`say the same of ${name}`, async (t) => {
      const { url, close } = await replyWith(reply);
      t.after(close);
      const isDrained = reply.includes('"drained":true') && failure === '';
      for (const output of failure === '' ? ['text', 'json'] : ['text']) {
        const { status, errors } = await bothSay(t, { pod: 'shop/web-1', fleet: url.origin, timeout: '250ms', output });
        const says = failure === '' ? '' : `slicewire: the fleet at ${url.host} does not answer: ${failure}\n`;
        assert.deepEqual([status, errors], [isDrained ? 0 : 1, says]);
      }
    });

  it('say the same where nothing listens, by an address of each family', async (t) => {
    for (const host of ['127.0.0.1', '::1']) {
      const { url, close } = await replyWith('', host);
      close();
      const { errors } = await bothSay(t, { pod: 'shop/web-1', fleet: url.origin, timeout: '100ms' });
      const says = `connect ECONNREFUSED ${url.host.replace(/[[\]]/g, '')}`;
      assert.equal(errors, `slicewire: the fleet at ${url.host} does not answer: ${says}\n`);
    }
  });

  it('ask the fleet for the same', async (t) => {
    const { url, asked, close } = await replyWith(http(200, YES_TEXT));
    t.after(close);
    for (const flags of RIGHT) {
      const { status } = await bothSay(t, { ...flags, fleet: `${url.origin.toUpperCase()}/` });
      const [first, second] = asked.splice(0);
      assert.equal(status, 0);
      assert.match(first ?? '', /timeout=2(?:50|49)ms HTTP\/1\.1$/);
      assert.equal(first?.replace('249ms', '250ms'), second?.replace('249ms', '250ms'));
    }
  });

  for (const flags of WRONG)
    it(`refuse alike: ${argsOf(flags).join(' ').slice(0, 80)}`, async (t) => {
      t.mock.property(process, 'env', {});
      const { status, errors } = await bothSay(t, flags);
      assert.equal(status, 2);
      assert.match(errors, /^slicewire: .+\n$/);
    });

  // test/messages.test.ts has the full form say these.
  for (const { input, message } of COMMAND_LINES.filter(({ input: [word] }) => word === 'drained'))
    it(`refuse alike: ${input.join(' ')}`, async () => {
      const { status, errors } = await small(input.slice(1));
      assert.deepEqual([status, errors], [2, `${message}\n`]);
    });

  it('refuse words and flags alike, and have the same help', async () => {
    const isAlike = async (...args: string[]) => {
      const command = [...DRAINED_COMMAND, ...args];
      const { exitCode, stdout, stderr } = await realCommands.run({ file: 'env', args: command }, NEVER);
      const said = await small(args);
      const named = (text: string) => text.replaceAll('slicewire-drained', 'slicewire drained');
      assert.deepEqual(
        { status: said.status, out: named(said.out), errors: named(said.errors) },
        {
          status: exitCode,
          out: stdout,
          errors: stderr.replace("too many arguments for 'drained'", 'too many arguments'),
        },
      );
    };
    await isAlike('--help');
    await isAlike('--pod');
    await isAlike('--output=yaml', '--pod', 'a/b');
    await isAlike('--no-such-flag');
    await isAlike('now');
  });
});
