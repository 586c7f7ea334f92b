import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { tokenIn } from '../../src/cluster/api/credentials.ts';
import { AgentLinks, ANSWER_TIMEOUT_MS, MAX_LINE_LENGTH, SILENCE_TIMEOUT_MS } from '../../src/fleet/link.ts';
import type { ProgrammedEvent } from '../../src/inspect/wire/programmed.ts';
import { FakeClock } from '../helpers/base/fake-clock.ts';
import { aWhile, until } from '../helpers/base/until.ts';
import { FakeAgent, type FakeAgentOptions, firstEvent } from './fake-agent.ts';

const clock = new FakeClock();

const many = (count: number, from: number) =>
  Array.from({ length: count }, (_, index) => ({ service: `shop/s${from + index}`, why: 'refused', age: 1 }));

/** What the sink heard, in order. */
let heard: {
  readonly event?: ProgrammedEvent;
  readonly isFirst?: boolean;
  readonly why?: string;
  readonly isTooOld?: boolean;
}[];
let token: () => Promise<string | undefined>;
let links: AgentLinks;
let agents: FakeAgent[];
/** Milliseconds. */
let pace: number;

beforeEach(() => {
  heard = [];
  agents = [];
  token = async () => undefined;
  pace = 100;
  links = new AgentLinks({
    clock,
    random: () => 0,
    token: () => token(),
    pace: () => pace,
    sink: {
      event: (node, event, isFirst) => void heard.push({ event, isFirst, ...(node === 'n1' ? {} : { why: node }) }),
      failed: (_, why, isTooOld) => void heard.push({ why, isTooOld }),
    },
  });
});

afterEach(async () => {
  links.close();
  await Promise.all(agents.map((agent) => agent.stop()));
});

async function agentOf(options: Partial<FakeAgentOptions> = {}): Promise<FakeAgent> {
  const agent = await FakeAgent.start({ node: 'n1', ...options });
  agents.push(agent);
  return agent;
}

/** An agent to which a link leads, and whose first event has come. */
async function linked(options: Partial<FakeAgentOptions> = {}): Promise<FakeAgent> {
  const agent = await agentOf(options);
  links.set('n1', agent.at);
  clock.advance(0);
  await until('the first event', () => heard.length === 1);
  return agent;
}

/** The reason why the link to something that answers so has failed. */
async function failureOf(options: Partial<FakeAgentOptions>): Promise<{ why?: string; isTooOld?: boolean }> {
  links.set('n1', (await agentOf(options)).at);
  clock.advance(0);
  await until('a failure', () => heard.length > 0);
  return heard[0] ?? {};
}

const last = () => heard.at(-1)?.why;

describe('the link to an agent', () => {
  it('passes on the first event and the later ones', async () => {
    const agent = await linked({ marks: ['5', '7'] });
    assert.deepEqual(heard[0], { event: firstEvent('n1', ['5', '7']), isFirst: true });
    agent.programmed('6', '8');
    await until('the second event', () => heard.length === 2);
    assert.deepEqual(heard[1], { event: { marks: [['6', '8', 0]] }, isFirst: false });
    assert.deepEqual(agent.asked, ['/programmed/live?pace=100']);
    assert.equal(links.open, 1);
  });

  it('reads an event that comes in pieces, between comments and other fields', async () => {
    const agent = await linked();
    agent.sendText(': nothing new\n\nevent: programmed\nid: 7\ndata: {"marks":[["9",');
    await aWhile(20);
    agent.sendText('"10",1.5]]}\r\n\n');
    await until('the event', () => heard.length === 2);
    assert.deepEqual(heard[1]?.event, { marks: [['9', '10', 1.5]] });
  });

  it('connects again to an agent that was restarted', async () => {
    const agent = await linked({ marks: ['5', '5'] });
    const { port } = agent.at;
    await agent.stop();
    await until('the failure', () => heard.length === 2);
    assert.equal(links.open, 0);
    await agentOf({ marks: ['6', '6'], port });
    clock.advance(10_000);
    await until('the first event of the new one', () => heard.at(-1)?.isFirst === true);
    assert.deepEqual(heard.at(-1)?.event?.marks, [['6', '6', 1000]]);
  });

  it('names an agent that ended the connection, and asks it again', async () => {
    const agent = await linked();
    agent.endStreams();
    await until('the failure', () => heard.length === 2);
    assert.deepEqual(heard[1], { why: 'it ended the connection', isTooOld: false });
    clock.advance(125);
    await until('another stream', () => heard.length === 3);
  });

  it('gives up a connection on which nothing comes any more', async () => {
    const agent = await linked();
    agent.isStopped = true;
    clock.advance(SILENCE_TIMEOUT_MS - 2000);
    await aWhile(20);
    assert.equal(heard.length, 1);
    clock.advance(3000);
    assert.deepEqual(heard[1], { why: 'it sent nothing for 45 s', isTooOld: false });
    // The agent takes the next connection, and says nothing on it.
    clock.advance(1000);
    await until('the next try', () => agent.asked.length === 2);
    clock.advance(ANSWER_TIMEOUT_MS + 1000);
    assert.equal(last(), 'it did not answer for 10 s');
    agent.isStopped = false;
    clock.advance(1000);
    await until('a stream', () => heard.at(-1)?.isFirst === true);
  });

  it('keeps a connection on which comments come', async () => {
    const agent = await linked();
    for (let i = 0; i < 5; i++) {
      clock.advance(15_000);
      agent.sendText(':\n');
      await aWhile(20);
    }
    assert.equal(heard.length, 1);
    assert.equal(agent.streams, 1);
  });

  it('names an agent of an older version, and asks it less often', async () => {
    const agent = await agentOf({ answer: (_, response) => void response.writeHead(404).end('404 page not found\n') });
    links.set('n1', agent.at);
    clock.advance(0);
    await until('the failure', () => heard.length === 1);
    assert.deepEqual(heard[0], { why: 'it is too old: it has no /programmed/live', isTooOld: true });
    clock.advance(4500);
    await aWhile(20);
    assert.equal(agent.asked.length, 1);
    clock.advance(600);
    await until('the next question', () => agent.asked.length === 2);
  });

  it('says why it is refused', async () => {
    const { why, isTooOld } = await failureOf({ token: 'right' });
    assert.deepEqual([why, isTooOld], ['it answered 401: the token is not valid', false]);
  });

  it('does not follow a redirect', async () => {
    const other = await agentOf({ token: 'secret' });
    token = async () => 'secret';
    const location = `http://127.0.0.1:${other.at.port}/programmed/live`;
    const { why } = await failureOf({ answer: (_, response) => void response.writeHead(307, { location }).end() });
    assert.equal(why, `it answered 307 to ${location}, which is not followed`);
    assert.deepEqual(other.asked, []);
  });

  it('sends the token that it reads for each connection', async () => {
    token = async () => 'one';
    const agent = await linked({ token: 'one' });
    token = async () => 'two';
    agent.endStreams();
    await until('the end', () => heard.length === 2);
    clock.advance(1000);
    await until('the refusal', () => heard.length === 3);
    assert.equal(last(), 'it answered 401: the token is not valid');
  });

  it('tells that the token cannot be read, and tries again', async () => {
    token = () => Promise.reject(new Error('the token in /t cannot be read: EACCES'));
    const agent = await agentOf();
    links.set('n1', agent.at);
    clock.advance(0);
    await until('the failure', () => heard.length === 1);
    assert.equal(last(), 'the token in /t cannot be read: EACCES');
    token = async () => undefined;
    clock.advance(125);
    await until('the stream', () => heard.at(-1)?.isFirst === true);
  });

  it('refuses streams that are none of this node’s agent', async () => {
    const streamOf = (text: string): Pick<FakeAgentOptions, 'answer'> => ({
      answer: (_, response) => void response.writeHead(200).write(text),
    });
    const first = firstEvent('n1', ['1', '1']);
    const { agent: _a, ...withoutAgent } = first;
    const { marks: _m, ...withoutMarks } = first;
    const rows: readonly (readonly [string, string])[] = [
      ['data: nonsense\n\n', 'it sent an event that is not JSON:  nonsense'],
      ['data: {"marks":[["1",2,3]]}\n\n', 'it sent an event with a wrong field: marks.0.1: '],
      [`data: ${JSON.stringify(withoutAgent)}\n\n`, 'its first event has no agent'],
      [`data: ${JSON.stringify(withoutMarks)}\n\n`, 'its first event has no marks'],
      [`data: ${JSON.stringify(firstEvent('n2', ['1', '1']))}\n\n`, 'the agent at this address is that of the node n2'],
      [
        `data: ${JSON.stringify({ ...first, behind: { set: many(2001, 0), gone: [] } })}\n\n`,
        'it sent an event that names more than 2000 Services behind',
      ],
      [`data: "${'a'.repeat(MAX_LINE_LENGTH)}`, `it sent an event of more than ${MAX_LINE_LENGTH} characters`],
    ];
    for (const [text, why] of rows) {
      heard = [];
      const found = await failureOf(streamOf(text));
      assert.equal(found.why?.slice(0, why.length), why);
      assert.equal(links.open, 0);
    }
  });

  it('says that nobody listens there', async () => {
    const agent = await agentOf();
    const { at } = agent;
    await agent.stop();
    agents = [];
    links.set('n1', at);
    clock.advance(0);
    await until('the failure', () => heard.length === 1);
    assert.match(last() ?? '', /ECONNREFUSED/);
  });

  it('waits longer after each failure, and hardly after a connection that worked', async () => {
    token = () => Promise.reject(new Error('no'));
    links.set('n1', (await agentOf()).at);
    clock.advance(0);
    const waits: (number | undefined)[] = [];
    for (let i = 1; i <= 8; i++) {
      await until('the next failure', () => heard.length === i);
      const wait = clock.waits.at(-1) ?? 0;
      waits.push(wait);
      if (i < 8) clock.advance(wait);
    }
    assert.deepEqual(waits, [125, 250, 500, 1000, 2000, 2500, 2500, 2500].slice(0, waits.length));
  });
});

describe('the links to all agents', () => {
  it('leads to where the agent of a node is now, and to nothing else', async () => {
    const before = await linked();
    const after = await agentOf({ marks: ['8', '8'] });
    links.set('n1', before.at);
    links.set('n1', after.at);
    clock.advance(0);
    await until('the first event of the other', () => heard.length === 2);
    await until('the end of the former', () => before.streams === 0);
    assert.deepEqual([before.asked.length, after.asked.length], [1, 1]);
    links.set('n1', undefined);
    await until('the end', () => after.streams === 0);
    assert.equal(heard.length, 2, 'what is no longer linked is not told of');
  });

  it('slows all agents down where they become many', async () => {
    const agent = await linked();
    pace = 199;
    links.set('n2', { ...agent.at, port: 1 });
    pace = 200;
    links.set('n3', { ...agent.at, port: 1 });
    clock.advance(1000);
    await until('the connection is made anew', () => agent.asked.length === 2);
    assert.deepEqual(agent.asked, ['/programmed/live?pace=100', '/programmed/live?pace=200']);
  });
});

describe('the token for the agents', () => {
  it('is what the file has, or none without a file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'token-'));
    try {
      const file = join(folder, 'token');
      assert.equal(await tokenIn(file), undefined);
      await writeFile(file, 'eyJh.b-c_d\n');
      assert.equal(await tokenIn(file), 'eyJh.b-c_d');
      await writeFile(file, 'two\r\nlines');
      await assert.rejects(tokenIn(file), { message: `the file ${file} does not contain a token` });
      await assert.rejects(tokenIn(folder), /cannot be read: EISDIR/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
