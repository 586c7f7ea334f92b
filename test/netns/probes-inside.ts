/** One story of test/netns/probes.test.ts, run inside the namespace of a node: an API server on its loopback, the agent beside it, and who asks for its health. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import type { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { OWN_LOCK } from '../helpers/kernel/own-lock.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { withoutSctp } from '../helpers/kernel/without-sctp.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { LONGEST, log, runStory, startAgent, web, webSlice } from './inside.ts';

/** Milliseconds. */
const SYNC_PERIOD = 1000;
const FAMILIES = ['IPv4', 'IPv6'];

interface Answer {
  readonly status: number;
  readonly body: {
    readonly healthy: boolean;
    readonly status: Readonly<Record<string, { readonly healthy: boolean }>>;
    readonly reasons?: readonly string[];
    readonly notes?: readonly string[];
  };
}

type Path = 'livez' | 'readyz' | 'healthz';

/** undefined while nobody answers. */
async function ask(path: Path): Promise<Answer | undefined> {
  try {
    const answer = await fetch(`http://127.0.0.1:10256/${path}`, { headers: { connection: 'close' } });
    return { status: answer.status, body: (await answer.json()) as Answer['body'] };
  } catch {
    return undefined;
  }
}

async function answers(path: Path, fits: (answer: Answer) => boolean): Promise<Answer> {
  const end = performance.now() + LONGEST;
  for (;;) {
    const answer = await ask(path);
    if (answer !== undefined && fits(answer)) return answer;
    if (performance.now() > end) {
      throw new Error(`/${path}: ${JSON.stringify(answer)}\n${log.map(({ msg }) => msg).join('\n')}`);
    }
    await pause(50);
  }
}

async function statuses(): Promise<Record<Path, number | undefined>> {
  const [livez, readyz, healthz] = [await ask('livez'), await ask('readyz'), await ask('healthz')];
  return { livez: livez?.status, readyz: readyz?.status, healthz: healthz?.status };
}

function start(kubeconfig: string): Child {
  const periods = ['--iptables-min-sync-period', '0s', '--iptables-sync-period', `${SYNC_PERIOD}ms`];
  return startAgent('--kubeconfig', kubeconfig, ...periods, '--conntrack-max-per-core', '0');
}

const output = async (file: string, ...args: string[]) => (await shellCommands.run({ file, args }, NEVER)).stdout;
const rules = () => output('iptables-save');

const NODE = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node' }, spec: {}, status: { addresses: [] } };

/** The API server is not where the kubeconfig says, then it is: what a roll-out with a wrong address must stop at. */
async function waits(server: ApiServer, kubeconfig: string): Promise<Child> {
  server.put(NODE);
  server.put(web(1));
  server.put(webSlice(1, '10.244.0.1'));
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
  const elsewhere = join(folder, 'kubeconfig');
  // Nobody listens there.
  await writeFile(elsewhere, (await readFile(kubeconfig, 'utf8')).replaceAll(server.url, 'http://127.0.0.1:9'));
  const lost = start(elsewhere);
  const { body } = await answers('readyz', ({ body }) => body.reasons?.some((text) => text.includes('ECONN')) === true);
  assert.match(
    body.reasons?.[0] ?? '',
    /^the first lists of Services, EndpointSlices and Nodes have not arrived for \d+ s: .*ECONNREFUSED/,
  );
  await pause(4 * SYNC_PERIOD);
  assert.deepEqual(await statuses(), { livez: 200, readyz: 503, healthz: 503 });
  for (const path of ['livez', 'readyz', 'healthz'] as const) {
    const answer = (await ask(path)) ?? assert.fail();
    assert.deepEqual(
      Object.entries(answer.body.status).map(([family, { healthy }]) => [family, healthy]),
      FAMILIES.map((family) => [family, false]),
    );
  }
  assert.ok(!(await rules()).includes('KUBE-SERVICES'));
  await lost.stop();
  await rm(folder, { recursive: true });
  const agent = start(kubeconfig);
  await answers('readyz', ({ status }) => status === 200);
  assert.match(await rules(), /--to-destination 10\.244\.0\.1:8080/);
  await answers('healthz', ({ status, body: { status: families } }) => {
    return status === 200 && FAMILIES.every((family) => families[family]?.healthy === true);
  });
  return agent;
}

/** Load balancers ask for the health of both on this node. */
const BALANCED = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' };
const HEALTH_PORTS = { game: 32_077, shop: 32_078 } as const;

const game = service({
  name: 'game',
  spec: {
    ...BALANCED,
    healthCheckNodePort: HEALTH_PORTS.game,
    ...{ clusterIP: '10.96.0.77', clusterIPs: ['10.96.0.77'], ports: [{ port: 77, protocol: 'SCTP' }] },
  },
});
const gameSlice = slice({
  ...{ name: 'game-a', service: 'game', addressType: 'IPv4' },
  endpoints: [{ addresses: ['10.244.0.7'], nodeName: 'node' }],
  ports: [{ name: '', port: 77, protocol: 'SCTP' }],
});
const shop = service({
  name: 'shop',
  spec: {
    ...BALANCED,
    healthCheckNodePort: HEALTH_PORTS.shop,
    ...{ clusterIP: '10.96.0.78', clusterIPs: ['10.96.0.78'], ports: [{ port: 80 }] },
  },
});
const shopSlice = (...addresses: string[]) =>
  slice({
    ...{ name: 'shop-a', service: 'shop', addressType: 'IPv4' },
    endpoints: addresses.map((address) => ({ addresses: [address], nodeName: 'node' })),
    ports: [{ name: '', port: 8080 }],
  });

/** The endpoints that a load balancer is told of; undefined: nobody answers. */
async function told(of: keyof typeof HEALTH_PORTS): Promise<number | undefined> {
  try {
    const answer = await fetch(`http://127.0.0.1:${HEALTH_PORTS[of]}/`, { headers: { connection: 'close' } });
    return ((await answer.json()) as { readonly localEndpoints: number }).localEndpoints;
  } catch {
    return undefined;
  }
}

/** One tenant's Service is refused: reported to those whom it concerns, and no reason to take the node from all others. */
async function refuses(server: ApiServer, kubeconfig: string): Promise<Child> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
  await withoutSctp(folder, (await output('sh', '-c', 'command -v iptables-restore')).trim());
  process.env.PATH = `${folder}:${process.env.PATH}`;
  const all = [NODE, web(1), webSlice(1, '10.244.0.1'), game, gameSlice, shop, shopSlice('10.244.0.8')];
  for (const object of all) server.put(object);
  const agent = start(kubeconfig);
  const { body } = await answers('readyz', ({ status, body: { notes = [] } }) => status === 200 && notes.length > 0);
  assert.match(
    body.notes?.join('\n') ?? '',
    /^Service default\/game: the kernel refused IPv4 \w+ KUBE-\S+: iptables-restore failed .*line \d+: RULE_APPEND failed/m,
  );
  // Two sync periods after which what is pending would be an illness, and a few.
  await pause(5 * SYNC_PERIOD);
  assert.deepEqual(await statuses(), { livez: 200, readyz: 200, healthz: 200 });
  const metrics = await (await fetch('http://127.0.0.1:10249/metrics')).text();
  assert.match(metrics, /^slicewire_services_refused 1$/m);
  assert.match(metrics, /^slicewire_(ready|healthy) 1$/m);
  const aside = server.events.filter(({ reason }) => reason === 'SetAside');
  assert.deepEqual(
    aside.map(({ regarding }) => (regarding as { kind: string; name: string }).name),
    ['game'],
  );
  assert.match(JSON.stringify(aside), /is set aside, since the kernel refused IPv4/);
  assert.deepEqual([await told('game'), await told('shop')], [0, 1]);
  server.put(shopSlice('10.244.0.8', '10.244.0.9'));
  server.put(webSlice(1, '10.244.0.2'));
  const end = performance.now() + LONGEST;
  while (!(await rules()).includes('10.244.0.2:8080') && performance.now() < end) await pause(50);
  while ((await told('shop')) !== 2 && performance.now() < end) await pause(50);
  assert.deepEqual([await told('game'), await told('shop')], [0, 2], 'what was written counts');
  assert.match(await rules(), /--to-destination 10\.244\.0\.2:8080/, 'all others are followed');
  // Its SCTP port goes.
  server.delete('Service', 'default/game');
  await answers('healthz', ({ status, body: { notes } }) => status === 200 && notes === undefined);
  await rm(folder, { recursive: true });
  return agent;
}

/** Nothing can be written at all: that is an illness, and its reason names what and who. */
async function locked(server: ApiServer, kubeconfig: string): Promise<Child> {
  for (const object of [NODE, web(1), webSlice(1, '10.244.0.1')]) server.put(object);
  const holder = startChild({ file: 'flock', args: ['--no-fork', OWN_LOCK, 'sleep', '60'] });
  const periods = ['--iptables-min-sync-period', '0s', '--iptables-sync-period', `${SYNC_PERIOD}ms`];
  const flags = ['--iptables-backend', 'legacy', '--conntrack-max-per-core', '0'];
  const agent = startAgent('--kubeconfig', kubeconfig, ...periods, ...flags);
  try {
    const who = /did not get the xtables lock: (flock|sleep) \(process \d+\) holds it/;
    await answers('readyz', ({ status, body: { reasons = [] } }) => status === 503 && who.test(reasons.join('\n')));
    assert.deepEqual((await statuses()).livez, 200, 'no restart frees the lock');
  } finally {
    await holder.stop();
  }
  await answers('readyz', ({ status }) => status === 200);
  return agent;
}

await runStory({ waits, refuses, locked });
