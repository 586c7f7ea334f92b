/** One story of test/netns/cluster.test.ts, run inside the namespace of a node: an API server on its loopback, the agent beside it. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { LogLine } from '../../src/cli/demo/agent-process.ts';
import { type Child, startChild } from '../../src/host/child.ts';
import { realCommands } from '../../src/host/commands.ts';
import { ApiServer } from '../helpers/api-server.ts';
import { service, slice } from '../helpers/objects.ts';
import { NEVER } from '../helpers/rig.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/** Milliseconds that the kernel has to follow. */
const LONGEST = 20_000;

const log: LogLine[] = [];

function start(kubeconfig: string): Child {
  const flags = [
    '--kubeconfig',
    kubeconfig,
    '--hostname-override',
    'node',
    '--iptables-min-sync-period',
    '0s',
    '--conntrack-max-per-core',
    '0',
  ];
  const onErrorLine = (line: string) => log.push(JSON.parse(line) as LogLine);
  return startChild({ file: process.execPath, args: [MAIN, 'run', ...flags], onErrorLine });
}

async function rules(): Promise<string> {
  return (await realCommands.run({ file: 'iptables-save', args: ['-t', 'nat'] }, NEVER)).stdout;
}

async function eventually(what: string, holds: (rules: string) => boolean): Promise<void> {
  const end = performance.now() + LONGEST;
  while (!holds(await rules())) {
    if (performance.now() > end)
      throw new Error(`${what}\n${log.map((line) => line.msg).join('\n')}\n${await rules()}`);
    await pause(50);
  }
}

const web = (n: number) =>
  service({
    name: `web-${n}`,
    spec: { clusterIP: `10.96.0.${n}`, clusterIPs: [`10.96.0.${n}`], ports: [{ port: 80 }] },
  });
const webSlice = (n: number, ...endpoints: string[]) =>
  slice({ name: `web-${n}-a`, service: `web-${n}`, addressType: 'IPv4', endpoints });
const to = (endpoint: string) => (text: string) => text.includes(`--to-destination ${endpoint}:8080`);
const notTo = (endpoint: string) => (text: string) => !to(endpoint)(text);

/** Many more objects than a page holds, then changes over the watch. */
async function follows(server: ApiServer, kubeconfig: string): Promise<Child> {
  for (let n = 1; n <= 200; n++)
    for (let i = 0; i < 4; i++)
      server.put(slice({ name: `web-${n}-${i}`, service: `web-${n}`, endpoints: [`10.244.${n}.${i}`] }));
  for (let n = 1; n <= 200; n++) server.put(web(n));
  const agent = start(kubeconfig);
  await eventually('all Services are programmed', (text) => to('10.244.200.3')(text) && to('10.244.1.0')(text));
  assert.equal((await rules()).match(/-A KUBE-SVC-\S+ .*-j DNAT/g)?.length, 800);
  server.put(slice({ name: 'web-7-0', service: 'web-7', endpoints: ['10.9.9.9'] }));
  await eventually('an endpoint changes', (text) => to('10.9.9.9')(text) && notTo('10.244.7.0')(text));
  server.delete('EndpointSlice', 'default/web-8-0');
  await eventually('a slice goes', notTo('10.244.8.0'));
  server.closeWatches();
  server.put(webSlice(9, '10.9.9.10'));
  await eventually('a change right after the server closed the watches', to('10.9.9.10'));
  server.delete('Service', 'default/web-9');
  await eventually('a Service goes', notTo('10.9.9.10'));
  return agent;
}

/** Objects deleted while the watch was away are gone after the relist, also when the page token expires. */
async function relists(server: ApiServer, kubeconfig: string): Promise<Child> {
  for (let n = 1; n <= 3; n++) server.put(web(n));
  for (let n = 1; n <= 3; n++) server.put(webSlice(n, `10.244.0.${n}`));
  server.expireContinue();
  const agent = start(kubeconfig);
  await eventually('all are there', (text) => [1, 2, 3].every((n) => to(`10.244.0.${n}`)(text)));
  server.failNext(4, 500);
  server.closeWatches();
  server.delete('EndpointSlice', 'default/web-2-a');
  server.put(webSlice(3, '10.244.0.33'));
  server.compact();
  await eventually('what was missed is caught up', (text) => notTo('10.244.0.2')(text) && to('10.244.0.33')(text));
  assert.ok(to('10.244.0.1')(await rules()));
  return agent;
}

/** The API server goes away: rules stay, the log says since when, and the agent is there when it returns. */
async function away(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put(web(1));
  server.put(webSlice(1, '10.244.0.1'));
  const agent = start(kubeconfig);
  await eventually('the Service is there', to('10.244.0.1'));
  server.failNext(1000, 503);
  server.cutConnections();
  await pause(3000);
  assert.ok(to('10.244.0.1')(await rules()), 'rules stay');
  assert.ok(log.some((line) => /cannot follow \w+ since 20\d\d-.*rules stay as they are/.test(line.msg)));
  server.recover();
  server.put(webSlice(1, '10.244.0.2'));
  await eventually('the agent is back', (text) => to('10.244.0.2')(text) && notTo('10.244.0.1')(text));
  assert.ok(log.some((line) => line.msg.startsWith('following')));
  return agent;
}

/** The agent starts while the API server is away, on a node that has rules: nothing is removed until it is there (invariant 1). */
async function startsWithout(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put(web(1));
  server.put(webSlice(1, '10.244.0.1'));
  const before = start(kubeconfig);
  await eventually('the Service is there', to('10.244.0.1'));
  await before.stop();
  server.failNext(1000, 503);
  const agent = start(kubeconfig);
  await pause(2500);
  assert.ok(to('10.244.0.1')(await rules()), 'rules of the run before stay');
  server.recover();
  server.put(webSlice(1, '10.244.0.3'));
  await eventually('the agent works once the server is there', to('10.244.0.3'));
  return agent;
}

const STORIES: Readonly<Record<string, (server: ApiServer, kubeconfig: string) => Promise<Child>>> = {
  follows,
  relists,
  away,
  'starts-without': startsWithout,
};

const story = STORIES[process.argv[2] ?? ''] ?? assert.fail('no such story');
const server = await ApiServer.start();
let agent: Child | undefined;
try {
  agent = await story(server, await server.kubeconfig());
} finally {
  await agent?.stop();
  await server.stop();
}
process.exit(0);
