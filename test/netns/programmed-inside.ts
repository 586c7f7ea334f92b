/** Stories of test/netns/programmed.test.ts, each run inside the namespace of a node: an API server on its loopback, the agent beside it. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Programmed,
  type ProgrammedEvent,
  programmedEventSchema,
  programmedSchema,
} from '../../src/inspect/wire/programmed.ts';
import type { Child } from '../../src/kernel/commands.ts';
import { hasReached } from '../../src/proxy/model/resource-version.ts';
import type { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { withoutSctp } from '../helpers/kernel/without-sctp.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { LONGEST, log, runStory, startAgent, web, webSlice } from './inside.ts';

const AT = 'http://127.0.0.1:10256';
/** What could not be written is tried again soon. */
const PERIODS = ['--iptables-sync-period', '1s', '--iptables-min-sync-period', '0s'];

function start(kubeconfig: string, ...more: readonly string[]): Child {
  const periods = ['--nftables-min-sync-period', '0s'];
  return startAgent(
    ...more,
    '--mode=nftables',
    '--kubeconfig',
    kubeconfig,
    ...periods,
    '--conntrack-max-per-core',
    '0',
  );
}

async function run(file: string, ...args: readonly string[]): Promise<string> {
  return (await shellCommands.run({ file, args }, NEVER)).stdout;
}

async function asked(query = ''): Promise<Programmed> {
  const answer = await fetch(`${AT}/programmed${query}`, { headers: { connection: 'close' } });
  assert.equal(answer.status, 200, await answer.clone().text());
  return programmedSchema.parse(await answer.json());
}

async function eventually(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + LONGEST;
  while (!(await Promise.resolve(holds()).catch(() => false))) {
    if (performance.now() > end) throw new Error(`${what}\n${log.map((line) => line.msg).join('\n')}`);
    await pause(20);
  }
}

/** A stream, and its events so far. */
function stream(pace: number) {
  const events: ProgrammedEvent[] = [];
  const end = new AbortController();
  const reading = (async () => {
    const { body, status } = await fetch(`${AT}/programmed/live?pace=${pace}`, { signal: end.signal });
    assert.equal(status, 200);
    let text = '';
    for await (const piece of body ?? []) {
      text += Buffer.from(piece).toString();
      const all = text.split('\n\n');
      text = all.pop() ?? '';
      for (const one of all)
        if (one.startsWith('data: ')) events.push(programmedEventSchema.parse(JSON.parse(one.slice(6))));
    }
  })().catch(() => undefined);
  return {
    events,
    async end() {
      end.abort();
      await reading;
    },
  };
}

const NODE = {
  kind: 'Node',
  metadata: { name: 'node' },
  status: { addresses: [{ type: 'InternalIP', address: '127.0.0.2' }] },
};

const bad = (protocol: string) =>
  service({
    name: 'bad',
    spec: { clusterIP: '10.96.0.99', clusterIPs: ['10.96.0.99'], ports: [{ port: 80, protocol }] },
  });
const badSlice = (protocol: string) =>
  slice({
    name: 'bad-a',
    service: 'bad',
    addressType: 'IPv4',
    endpoints: ['10.244.9.9'],
    ports: [{ port: 8080, protocol }],
  });

function fill(server: ApiServer): void {
  server.put(NODE);
  server.put(web(1));
  server.put(webSlice(1, '10.244.1.1'));
}

const hasMarks = async () => (await asked()).marks.slices !== '';

/** Changes, the wait for them, and the stream; a slice that goes; a restart. */
async function says(server: ApiServer, kubeconfig: string): Promise<Child> {
  fill(server);
  const first = start(kubeconfig);
  await eventually('the first marks', hasMarks);
  const live = stream(50);
  await eventually('the first event', () => live.events.length > 0);
  const [whole] = live.events;
  assert.deepEqual([whole?.agent?.node, whole?.agent?.mode, whole?.stuck], ['node', 'nftables', null]);
  assert.equal(whole?.marks?.length, 1);

  const waiting = asked(`?slice=default/web-1-a&version=${Number(server.version) + 1}&wait=30s`);
  await pause(300);
  assert.equal(live.events.length, 1, 'nothing changed, and nothing is said');
  const version = server.put(webSlice(1, '10.244.1.2'));
  const answer = await waiting;
  assert.deepEqual([answer.reached, answer.why], [true, '']);
  assert.deepEqual(
    answer.slices.map(({ name, received, programmed }) => [name, received, programmed]),
    [['default/web-1-a', version, version]],
  );
  const rules = await run('nft', 'list', 'table', 'ip', 'slicewire');
  assert.ok(rules.includes(': 10.244.1.2 . 8080') && !rules.includes(': 10.244.1.1 . 8080'), rules);
  const passed = (one: string) => live.events.some(({ marks }) => marks?.some(([, slices]) => hasReached(slices, one)));
  await eventually('the event of the change', () => passed(version));

  const late = await asked(`?slice=default/web-1-a&version=${Number(server.version) + 1000}&wait=200ms`);
  assert.equal(late.reached, false);
  assert.match(late.why, /EndpointSlices .* up to version \d+ only$/);

  server.delete('EndpointSlice', 'default/web-1-a');
  const gone = await asked(`?slice=default/web-1-a&version=${server.version}&wait=30s`);
  assert.deepEqual([gone.reached, gone.slices[0]?.received, gone.slices[0]?.programmed], [true, '', '']);

  await first.stop();
  await live.end();
  const second = start(kubeconfig);
  const after = server.put(webSlice(2, '10.244.2.1'));
  await eventually('the marks of the next one', async () => hasReached((await asked()).marks.slices, after));
  return second;
}

/** A Service that the kernel refuses, beside others; then nothing can be written; then all can. */
async function refuses(server: ApiServer, kubeconfig: string): Promise<Child> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-programmed-'));
  try {
    return await refusing(server, kubeconfig, folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function refusing(server: ApiServer, kubeconfig: string, folder: string): Promise<Child> {
  const [real] = (await run('sh', '-c', 'command -v iptables-restore')).split('\n');
  await withoutSctp(folder, real ?? '');
  const stuck = join(folder, 'stuck');
  const wrapper = join(folder, 'iptables-restore');
  const script = await readFile(wrapper, 'utf8');
  const busy = `if [ -e ${stuck} ]; then echo 'out of memory' >&2; exit 4; fi`;
  await writeFile(wrapper, script.replace('\n', `\n${busy}\n`));
  process.env.PATH = `${folder}:${process.env.PATH}`;
  fill(server);
  server.put(bad('SCTP'));
  server.put(badSlice('SCTP'));
  const agent = startAgent('--mode=iptables', '--kubeconfig', kubeconfig, '--conntrack-max-per-core', '0', ...PERIODS);
  await eventually('the first marks', hasMarks);
  const live = stream(50);
  await eventually('the first event', () => live.events.length > 0);
  const [{ behind: [refused] = [] }, [whole]] = [await asked(), live.events];
  assert.equal(refused?.service, 'default/bad');
  assert.match(refused?.why ?? '', /^the kernel refused IPv4 nat KUBE-/);
  assert.deepEqual(
    whole?.behind?.set.map((one) => one.service),
    ['default/bad'],
  );
  const other = server.put(webSlice(1, '10.244.1.2'));
  assert.equal((await asked(`?slice=default/web-1-a&version=${other}&wait=30s`)).reached, true);
  const worse = server.put(badSlice('SCTP'));
  const not = await asked(`?slice=default/bad-a&version=${worse}&wait=1s`);
  assert.equal(not.reached, false);
  assert.match(not.why, /^Service default\/bad: the kernel refused /);
  const { service: said, slices } = await asked('?service=default/bad');
  assert.deepEqual(
    [said?.programmed, slices.map(({ received, programmed }) => [received, programmed])],
    ['', [[worse, '']]],
  );

  await writeFile(stuck, '');
  const held = server.put(webSlice(1, '10.244.1.3'));
  await eventually('it is stuck', async () => (await asked()).stuck !== null);
  const waits = await asked(`?slice=default/web-1-a&version=${held}&wait=1s`);
  assert.equal(waits.reached, false);
  assert.match(waits.why, /^nothing can be written: .*out of memory/);
  assert.deepEqual([waits.slices[0]?.received, waits.slices[0]?.programmed], [held, other]);
  await eventually('the stream says so', () =>
    live.events.some((event) => /out of memory/.test(event.stuck?.why ?? '')),
  );
  await rm(stuck);
  assert.equal((await asked(`?slice=default/web-1-a&version=${held}&wait=30s`)).reached, true);
  await eventually(
    'the stream says that too',
    () => live.events.at(-1)?.stuck === null || live.events.some((event, i) => event.stuck === null && i > 0),
  );

  server.put(bad('TCP'));
  const good = server.put(badSlice('TCP'));
  assert.equal((await asked(`?slice=default/bad-a&version=${good}&wait=30s`)).reached, true);
  assert.deepEqual((await asked()).behind, []);
  await eventually('nothing is behind', () => live.events.some(({ behind }) => behind?.gone.includes('default/bad')));
  await live.end();
  return agent;
}

/** Wrong questions, those of others, and a method that is none. */
async function answers(server: ApiServer, kubeconfig: string): Promise<Child> {
  fill(server);
  const agent = start(kubeconfig);
  await eventually('the first marks', hasMarks);
  const status = async (path: string, init: RequestInit = {}) => (await fetch(`${AT}${path}`, init)).status;
  assert.equal(await status('/programmed?wait=1s'), 400);
  assert.equal(await status('/programmed/live?pace=1'), 400);
  assert.equal(await status('/programmed', { method: 'POST' }), 405);
  assert.equal(await status('/programmed/other'), 404);
  assert.equal(await status('/healthz'), 200);
  const text = await run('curl', '-s', '-H', 'Host: evil.example', `${AT}/programmed`);
  assert.match(text, /the header Host is \\"evil\.example\\"/);
  return agent;
}

await runStory({ says, refuses, answers });
