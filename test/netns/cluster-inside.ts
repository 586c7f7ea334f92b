/** One story of test/netns/cluster.test.ts, run inside the namespace of a node: an API server on its loopback, the agent beside it. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { userAgent } from '../../src/config/program-version.ts';
import type { Child } from '../../src/kernel/commands.ts';
import type { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { LONGEST, log, runStory, startAgent, web, webSlice } from './inside.ts';

function start(kubeconfig: string, ...more: readonly string[]): Child {
  const periods = ['--iptables-min-sync-period', '0s'];
  return startAgent(...more, '--kubeconfig', kubeconfig, ...periods, '--conntrack-max-per-core', '0');
}

async function rules(): Promise<string> {
  return (await shellCommands.run({ file: 'iptables-save', args: ['-t', 'nat'] }, NEVER)).stdout;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** undefined while nobody answers. */
async function ask(path: string, port = 10_256): Promise<Answer | undefined> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } });
    return { status: answer.status, body: await answer.text() };
  } catch {
    return undefined;
  }
}

async function answers(what: string, path: string, fits: (answer: Answer) => boolean): Promise<void> {
  const end = performance.now() + LONGEST;
  for (;;) {
    const answer = await ask(path);
    if (answer !== undefined && fits(answer)) return;
    if (performance.now() > end)
      throw new Error(`${what}: ${JSON.stringify(answer)}\n${log.map((line) => line.msg).join('\n')}`);
    await pause(50);
  }
}

async function eventually(what: string, holds: (rules: string) => boolean): Promise<void> {
  const end = performance.now() + LONGEST;
  while (!holds(await rules())) {
    if (performance.now() > end)
      throw new Error(`${what}\n${log.map((line) => line.msg).join('\n')}\n${await rules()}`);
    await pause(50);
  }
}

/** A line of the log comes after what it tells, and later on a busy machine. */
async function logged(pattern: RegExp): Promise<void> {
  const end = performance.now() + LONGEST;
  while (!log.some(({ msg }) => pattern.test(msg))) {
    if (performance.now() > end) throw new Error(`${pattern}\n${log.map(({ msg }) => msg).join('\n')}`);
    await pause(50);
  }
}

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
  const userAgents = new Set(server.requests().map(({ headers }) => headers['user-agent']));
  assert.deepEqual([...userAgents], [userAgent('agent')]);
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
  await logged(/cannot follow \w+ since 20\d\d-.*rules stay as they are/);
  assert.ok(to('10.244.0.1')(await rules()), 'rules stay');
  server.recover();
  server.put(webSlice(1, '10.244.0.2'));
  await eventually('the agent is back', (text) => to('10.244.0.2')(text) && notTo('10.244.0.1')(text));
  await logged(/^following/);
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

const node = (more: object = {}, addresses: readonly string[] = ['192.0.2.1'], spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'node', ...more },
  spec,
  status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
});

/** Health for load balancers follows the Node; events report the start and what is set aside; a refused watch is an illness, an API server that is away is none. */
async function reports(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put(web(1));
  server.put(webSlice(1, '10.244.0.1'));
  server.put(node());
  const agent = start(kubeconfig, '--iptables-sync-period', '1s');
  await answers('healthy', '/healthz', ({ status }) => status === 200);
  server.put(node({}, undefined, { taints: [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }] }));
  await answers(
    'not eligible',
    '/healthz',
    ({ status, body }) => status === 503 && body.includes('"nodeEligible":false,"healthy":true'),
  );
  assert.equal((await ask('/livez'))?.status, 200);
  server.put(node());
  server.put({
    ...web(2),
    metadata: { name: 'web-2', namespace: 'default', uid: 'uid-2' },
    spec: { clusterIP: 'nonsense', ports: [{ port: 80 }] },
  });
  await answers('eligible', '/healthz', ({ status }) => status === 200);
  const reasons = () =>
    server.events.map(
      ({ reason, regarding }) =>
        `${reason} ${(regarding as { kind: string; name: string }).kind} ${(regarding as { name: string }).name}`,
    );
  const end = performance.now() + LONGEST;
  while (reasons().length < 3 && performance.now() < end) await pause(50);
  assert.deepEqual(reasons(), ['Starting Node node', 'ModeNotSet Node node', 'SetAside Service web-2']);
  const [starting, mode, aside] = server.events as unknown as Record<string, unknown>[];
  // As kube-proxy 1.37, where no flag and no field names the mode (KEP-5343).
  assert.deepEqual([mode?.type, mode?.action], ['Warning', 'StartKubeProxy']);
  assert.match(
    String(mode?.note),
    /^the mode is not set, so the agent works in iptables mode\. .* 1\.40 \(KEP-5343\)\. Set/,
  );
  assert.equal(log.filter(({ msg }) => msg === mode?.note).length, 1);
  assert.deepEqual(
    [starting?.type, starting?.action, starting?.reportingController],
    ['Normal', 'StartKubeProxy', 'slicewire'],
  );
  assert.match(JSON.stringify(starting?.metadata), /"namespace":"default"/);
  assert.match(JSON.stringify(aside?.regarding), /"uid":"uid-2"/, 'kubectl describe finds it by this');
  assert.match(String(aside?.note), /^Service default\/web-2: spec\.clusterIP: nonsense: /);
  assert.match(String(aside?.eventTime), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  // All requests fail without an answer: nobody's fault here.
  server.failNext(1000, 0);
  server.cutConnections();
  await answers('reported', '/healthz', ({ status, body }) => status === 200 && body.includes('could not be followed'));
  server.recover();
  server.failNext(1000, 403);
  await answers('refused', '/healthz', ({ status, body }) => status === 503 && body.includes('403'));
  assert.equal((await ask('/livez'))?.status, 200, 'no restart gives rights');
  server.recover();
  await answers('well again', '/healthz', ({ status }) => status === 200);
  return agent;
}

/** Many objects that cannot be used are some lines, and as many events: those of others find room. */
async function floods(server: ApiServer, kubeconfig: string): Promise<Child> {
  for (let n = 1; n <= 250; n++)
    server.put({ ...web(n), spec: { clusterIP: `nonsense-${n}`, clusterIPs: [], ports: [{ port: 80 }] } });
  server.put(node());
  const agent = start(kubeconfig);
  const number = () => log.find(({ msg }) => msg.includes('more faults of this kind'))?.msg;
  const end = performance.now() + LONGEST;
  while ((number() === undefined || server.events.length < 21) && performance.now() < end) await pause(50);
  assert.match(number() ?? '', /^Service spec\.clusterIP \(object set aside\): 230 more faults of this kind /);
  assert.equal(log.filter(({ msg }) => msg.startsWith('Service default/')).length, 20);
  assert.equal(server.events.filter(({ reason }) => reason === 'SetAside').length, 20);
  const { body = '' } = (await ask('/metrics', 10_249)) ?? {};
  assert.match(body, /^slicewire_faults\{effect="object set aside"\} 250$/m);
  return agent;
}

/** What the Node says later counts from then on: its pod CIDRs, which are waited for, and its addresses. */
async function followsNode(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put({
    ...web(1),
    spec: {
      ...{ type: 'LoadBalancer', clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1'], ports: [{ port: 80 }] },
      loadBalancerSourceRanges: ['192.0.2.9/32'],
    },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.1' }] } },
  });
  server.put(webSlice(1, '10.244.7.7'));
  server.put(node());
  const agent = start(kubeconfig, '--detect-local-mode', 'NodeCIDR', '--iptables-sync-period', '1s');
  await pause(1500);
  assert.ok(notTo('10.244.7.7')(await rules()), 'without pod CIDRs nothing is written');
  server.put(node({}, undefined, { podCIDRs: ['10.244.0.0/24'] }));
  await eventually('the pod CIDRs came', (text) => / ! -s 10\.244\.0\.0\/24 .*-j KUBE-MARK-MASQ/.test(text));
  server.put(node({}, undefined, { podCIDRs: ['10.245.0.0/24'] }));
  await eventually('they changed', (text) => / ! -s 10\.245\.0\.0\/24 .*-j KUBE-MARK-MASQ/.test(text));
  const opensToNode = async () =>
    /-s 203\.0\.113\.1\/32/.test((await shellCommands.run({ file: 'iptables-save', args: [] }, NEVER)).stdout);
  assert.equal(await opensToNode(), false);
  server.put(node({}, ['192.0.2.9'], { podCIDRs: ['10.245.0.0/24'] }));
  const end = performance.now() + LONGEST;
  while (!(await opensToNode()) && performance.now() < end) await pause(50);
  assert.ok(
    await opensToNode(),
    'the Node is in the range now, and reaches the load balancer by its address (docs/semantics.md 6.14)',
  );
  assert.ok(to('10.244.7.7')(await rules()));
  return agent;
}

/** Another API server that is not there: meanwhile the former is followed, and what the file says next counts at once. */
async function moves(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put(web(1));
  server.put(webSlice(1, '10.244.3.1'));
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
  const file = join(folder, 'config.conf');
  const elsewhere = join(folder, 'kubeconfig');
  await writeFile(elsewhere, (await readFile(kubeconfig, 'utf8')).replaceAll(server.url, 'http://127.0.0.1:9'));
  const write = (path: string, bit: number) =>
    writeFile(
      file,
      JSON.stringify({
        apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
        kind: 'KubeProxyConfiguration',
        clientConnection: { kubeconfig: path },
        conntrack: { maxPerCore: 0 },
        iptables: { masqueradeBit: bit, syncPeriod: '1s', minSyncPeriod: '10ms' },
      }),
    );
  await write(kubeconfig, 14);
  const agent = startAgent('--config', file);
  await eventually('the Service is there', to('10.244.3.1'));
  await write(elsewhere, 13);
  const isBuilding = () => log.some(({ msg }) => msg.startsWith('the configuration changed'));
  await eventually('the change is seen', isBuilding);
  server.put(webSlice(1, '10.244.3.2'));
  await eventually(
    'the former API server is followed meanwhile',
    (text) => to('10.244.3.2')(text) && !text.includes('0x2000/0x2000'),
  );
  // Both before the one that is not there is given up.
  await write(elsewhere, 12);
  await write(kubeconfig, 15);
  await eventually('what the file says last counts', (text) => text.includes('0x8000/0x8000'));
  server.put(webSlice(1, '10.244.3.3'));
  await eventually('and goes on', to('10.244.3.3'));
  assert.ok(!log.some(({ msg }) => msg.includes('cannot be used')));
  await rm(folder, { recursive: true });
  return agent;
}

await runStory({
  follows,
  relists,
  away,
  'starts-without': startsWithout,
  reports,
  floods,
  'follows-node': followsNode,
  moves,
});
