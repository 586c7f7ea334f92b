/**
 * docs/screenshots: the views of the live page, photographed in Chromium before an agent on a real kernel, and the fleet's page before a
 * made-up fleet. Needs root, Chromium and the tools of the kernel tests; the agent runs in network namespaces of its own.
 *
 *   node scripts/screenshots.ts [MINUTES]      writes the pictures after that many minutes of changes (12)
 *   node scripts/screenshots.ts fleet          writes the fleet's picture alone
 */
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { nodeOf, service, slice } from '../test/helpers/cluster/objects.ts';
import { FleetScene } from '../test/web/browser/fleet-scene.ts';
import { fleetOf } from '../test/web/browser/fleets.ts';
import { BrowserScene, type Tab } from '../test/web/browser/scene.ts';

const FOLDER = fileURLToPath(new URL('../docs/screenshots', import.meta.url));
/** Bytes of a picture that README or a document shows. */
const MAX_BYTES = 150_000;

const NAMESPACES = [
  'accounts',
  'billing',
  'catalogue',
  'checkout',
  'kube-system',
  'metrics',
  'payments',
  'search',
  'shop',
];
const NAMES = [
  'api',
  'cache',
  'cart',
  'database',
  'events',
  'frontend',
  'gateway',
  'images',
  'jobs',
  'queue',
  'web',
  'worker',
];
const PORTS = [{ name: 'http', port: 8080 }];

const VIEWS = [
  { name: 'overview', view: '#/', colorScheme: 'light' },
  { name: 'overview-dark', view: '#/', colorScheme: 'dark' },
  { name: 'services', view: '#/services?search=web', colorScheme: 'light' },
  { name: 'service', view: '#/service?name=shop%2Fweb', colorScheme: 'light' },
  { name: 'explain', view: '#/explain?from=outside&to=203.0.113.9:80', colorScheme: 'light' },
  { name: 'exposure', view: '#/exposure', colorScheme: 'dark' },
] as const;

const [, , given = '12'] = process.argv;
const minutes = Number(given);
if (given !== 'fleet' && !(minutes >= 0)) throw new Error(`${given}: must be a number of minutes, or fleet`);
mkdirSync(FOLDER, { recursive: true });
await photographFleet();
if (given !== 'fleet') await photographAgent();

async function photographFleet(): Promise<void> {
  const fleet = await FleetScene.create(fleetOf(420, Date.now()));
  try {
    await photograph(await fleet.open(), 'fleet');
  } finally {
    await fleet.remove();
  }
}

async function photographAgent(): Promise<void> {
  const scene = await BrowserScene.create();
  try {
    await scene.node.write('node', nodeOf('zone-a'));
    for (const [n, namespace] of NAMESPACES.entries()) await scene.node.write(namespace, ...objectsOf(namespace, n));
    await scene.node.write('changing', endpoints(3));
    await scene.start('--hostname-override', 'node-7', '--nodeport-addresses', '192.168.77.0/24');
    await live(scene, minutes * 60_000);
    for (const { name, view, colorScheme } of VIEWS) await photograph(await scene.open(view, { colorScheme }), name);
  } finally {
    await scene.remove();
  }
}

/** The Services of a namespace. Shop's web is reached from outside, and one of its Services has a mistake. */
function objectsOf(namespace: string, n: number): object[] {
  return NAMES.flatMap((name, i) => {
    const clusterIP = `10.96.${n + 1}.${i + 10}`;
    const ports = [{ name: 'http', port: 80 }];
    if (namespace === 'shop' && name === 'web') return [webService()];
    const wrong = namespace === 'billing' && name === 'gateway' ? { externalIPs: ['203.0.113.300'] } : {};
    const open = name === 'gateway' ? { type: 'NodePort', ports: [{ ...ports[0], nodePort: 30_100 + n }] } : { ports };
    const made = service({ name, namespace, spec: { clusterIP, ...open, ...wrong } });
    if (name === 'jobs' && n % 4 === 0) return [made];
    const addresses = Array.from({ length: 1 + ((n + i) % 4) }, (_, k) => `10.244.${2 + (k % 3)}.${20 + n * 12 + i}`);
    return [made, slice({ name: `${name}-1`, namespace, service: name, ports: PORTS, endpoints: addresses })];
  });
}

function webService(): object {
  const spec = {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.10',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32_000,
    loadBalancerSourceRanges: ['192.0.2.0/24', '198.51.100.0/24'],
    ports: [{ name: 'http', port: 80, nodePort: 30_080 }],
  };
  const status = { loadBalancer: { ingress: [{ ip: '203.0.113.9' }] } };
  return service({ name: 'web', namespace: 'shop', spec, status });
}

/** The slice of shop/web. */
function endpoints(count: number): object {
  const here = Array.from({ length: count }, (_, i) => ({ addresses: [`10.244.1.${11 + i}`], nodeName: 'node-7' }));
  const there = { addresses: ['10.244.2.17'], nodeName: 'node-2' };
  return slice({ name: 'web-x7k2p', namespace: 'shop', service: 'web', ports: PORTS, endpoints: [...here, there] });
}

/** Changes at uneven times, and now and then another program that meddles. */
async function live(scene: BrowserScene, milliseconds: number): Promise<void> {
  const end = Date.now() + milliseconds;
  for (let i = 1; Date.now() < end; i++) {
    await scene.node.write('changing', endpoints(2 + (i % 3)));
    if (i % 5 === 0) await scene.node.write('metrics', ...objectsOf('metrics', 5 + ((i / 5) % 2) * 20));
    if (i % 40 === 20) await scene.exec('nft', 'add', 'rule', 'ip', 'slicewire', 'services', 'counter');
    await pause(2500 + ((i * 7919) % 11) * 900);
  }
  // The last change is a moment ago.
  await scene.node.write('changing', endpoints(3));
  await pause(2000);
}

async function photograph(tab: Tab, name: string): Promise<void> {
  await tab.sees('live', '.pulse');
  await pause(1500);
  const path = join(FOLDER, `${name}.png`);
  await tab.page.screenshot({ path });
  await tab.close();
  const { size } = statSync(path);
  if (size > MAX_BYTES) throw new Error(`${path} has ${size} bytes, and a document may show ${MAX_BYTES}`);
  process.stdout.write(`${path} (${size} bytes)\n`);
}
