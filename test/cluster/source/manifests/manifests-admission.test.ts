/** What an API server would refuse is refused of manifests, and so is what would take a port of this node from its programs. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type Address, parseAddress } from '../../../../src/base/address.ts';
import { realClock } from '../../../../src/base/clock.ts';
import { specialProblem } from '../../../../src/cluster/source/manifests/admission.ts';
import { ManifestStore, type StoreOptions } from '../../../../src/cluster/source/manifests/manifest-store.ts';
import { NodeGuard } from '../../../../src/cluster/source/manifests/node-guard.ts';
import { manifestsSource, NodeWatch } from '../../../../src/cluster/source/manifests/source.ts';
import type { ListeningSocket } from '../../../../src/kernel/listeners.ts';
import type { SourceEvent } from '../../../../src/proxy/model/events.ts';
import { type Fault, faultText, type Service } from '../../../../src/proxy/model/objects.ts';
import { parsePortRange } from '../../../../src/proxy/model/port-range.ts';
import { until } from '../../../helpers/base/until.ts';
import { setText } from '../../../helpers/cluster/documents/documents.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { MANIFESTS } from '../../../messages/manifests.ts';
import { problemIn } from '../../../messages/row.ts';

class Seen {
  readonly events: SourceEvent[] = [];
  readonly emit = (event: SourceEvent): void => {
    this.events.push(event);
  };

  /** Every fault that stands. */
  get faults(): string[] {
    const standing = new Map<string, readonly Fault[]>();
    for (const event of this.events)
      if (event.kind !== 'synced' && event.kind !== 'reached') standing.set(`${event.kind} ${event.key}`, event.faults);
    return [...standing.values()].flat().map(faultText);
  }

  get service(): Service | undefined {
    const last = this.events.findLast((event) => event.kind === 'service');
    return last?.kind === 'service' ? last.service : undefined;
  }

  /** Addresses of endpoints in all slices that are there. */
  get endpoints(): string[] {
    const slices = new Map<string, readonly string[]>();
    for (const event of this.events) {
      if (event.kind !== 'slice') continue;
      slices.set(
        event.key,
        (event.slice?.endpoints ?? []).map(({ address }) => address),
      );
    }
    return [...slices.values()].flat();
  }
}

function taken(objects: readonly object[], options: StoreOptions = {}): Seen {
  const seen = new Seen();
  const store = new ManifestStore('node-a', seen.emit, options);
  setText(store, 'f', objects.map((object) => JSON.stringify(object)).join('\n---\n'));
  store.flush();
  return seen;
}

const LOOPBACK = problemIn(MANIFESTS, 'Service default/web: spec.clusterIP: 127.0.0.1');
const LINK_LOCAL = problemIn(MANIFESTS, 'Service default/web: spec.externalIPs[0]: 169.254.169.254');
const MULTICAST = problemIn(MANIFESTS, 'Pod default/web-1: status.podIP: 224.0.0.1');
const UNSPECIFIED = problemIn(MANIFESTS, 'Endpoints default/web: subsets[0].addresses[0].ip: 0.0.0.0');
const BROADCAST = problemIn(MANIFESTS, 'Service default/web: spec.externalIPs[0]: 255.255.255.255');
const OUTSIDE = problemIn(MANIFESTS, 'Service default/web: spec.ports[0].nodePort: 22');
const SSH_IN_USE = problemIn(MANIFESTS, 'Service default/web: spec.externalIPs: 192.0.2.7');

describe('addresses that are special', () => {
  for (const [text, problem] of [
    ['0.0.0.0', UNSPECIFIED],
    ['::', UNSPECIFIED],
    ['127.0.0.1', LOOPBACK],
    ['127.255.255.254', LOOPBACK],
    ['::1', LOOPBACK],
    ['::ffff:127.0.0.1', LOOPBACK],
    ['169.254.169.254', LINK_LOCAL],
    ['fe80::1', LINK_LOCAL],
    ['febf::1', LINK_LOCAL],
    ['224.0.0.1', MULTICAST],
    ['239.255.255.255', MULTICAST],
    ['ff02::1', MULTICAST],
    ['ff0e::1', MULTICAST],
    ['255.255.255.255', BROADCAST],
    ...['10.0.0.1', '0.0.0.1', '128.0.0.1', '169.253.0.1', '223.255.255.255', '240.0.0.1', '255.255.255.254'].map(
      (one) => [one, undefined] as const,
    ),
    ...['::2', 'fec0::1', 'fd00::1', '2001:db8::1', 'fe7f::1'].map((one) => [one, undefined] as const),
  ] as const) {
    test(`${text} ${problem === undefined ? 'is none' : 'is one'}`, () => {
      assert.equal(specialProblem(parseAddress(text) as Address), problem);
    });
  }
});

const PORTS = [{ port: 80 }];

describe('of a manifest', () => {
  test('a Service with such a cluster IP is set aside', () => {
    const seen = taken([service({ name: 'web', spec: { clusterIP: '127.0.0.1', ports: PORTS } })]);
    assert.equal(seen.service, undefined);
    assert.deepEqual(seen.faults, [`Service default/web: spec.clusterIP: 127.0.0.1: ${LOOPBACK} (object set aside)`]);
  });

  test('such external IPs and addresses of a load balancer are left out, and the rest is there', () => {
    const spec = { clusterIPs: ['10.96.0.1'], externalIPs: ['169.254.169.254', '192.0.2.1'], ports: PORTS };
    const ingress = [{ ip: '198.51.100.1' }, { ip: '224.0.0.5' }];
    const seen = taken([service({ name: 'web', spec, status: { loadBalancer: { ingress } } })]);
    assert.deepEqual([seen.service?.externalIPs, seen.service?.loadBalancerIPs], [['192.0.2.1'], ['198.51.100.1']]);
    assert.deepEqual(seen.faults, [
      `Service default/web: spec.externalIPs[0]: 169.254.169.254: ${LINK_LOCAL} (part left out)`,
      `Service default/web: status.loadBalancer.ingress[1].ip: 224.0.0.5: ${MULTICAST} (part left out)`,
    ]);
  });

  test('such endpoints of slices are left out', () => {
    const seen = taken([slice({ name: 's', service: 'web', endpoints: ['127.0.0.1', '10.0.0.1', '0.0.0.0'] })]);
    assert.deepEqual(seen.endpoints, ['10.0.0.1']);
    assert.deepEqual(seen.faults, [
      `EndpointSlice default/s: endpoints[0].addresses[0]: 127.0.0.1: ${LOOPBACK} (part left out)`,
      `EndpointSlice default/s: endpoints[2].addresses[0]: 0.0.0.0: ${UNSPECIFIED} (part left out)`,
    ]);
  });

  test('such addresses of Endpoints and Pods are left out of the slices that are made of them', () => {
    const subsets = [{ addresses: [{ ip: '169.254.1.1' }, { ip: '10.0.0.1' }], ports: PORTS }];
    const pod = (name: string, podIP: string) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels: { app: 'db' } },
      spec: { nodeName: 'node-a', containers: [] },
      status: { podIP },
    });
    const seen = taken([
      service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: PORTS } }),
      { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'web' }, subsets },
      service({ name: 'db', spec: { clusterIP: '10.96.0.2', selector: { app: 'db' }, ports: PORTS } }),
      pod('a', '127.0.0.1'),
      pod('b', '10.0.0.2'),
    ]);
    assert.deepEqual(seen.endpoints.sort(), ['10.0.0.1', '10.0.0.2']);
    assert.deepEqual(seen.faults, [
      `Endpoints default/web: subsets[0].addresses[0].ip: 169.254.1.1: ${LINK_LOCAL} (part left out)`,
      `Pod default/a: status.podIP: 127.0.0.1: ${LOOPBACK} (part left out)`,
    ]);
  });

  test('node ports outside the range are left out, with the name of the flag that widens it', () => {
    const ports = [
      { name: 'a', port: 80, nodePort: 22 },
      { name: 'b', port: 81, nodePort: 30_080 },
    ];
    const spec = { type: 'NodePort', clusterIP: '10.96.0.1', ports, healthCheckNodePort: 10_250 };
    const seen = taken([service({ name: 'web', spec })]);
    assert.deepEqual(seen.faults, [
      `Service default/web: spec.ports[0].nodePort: 22: ${OUTSIDE} (part left out)`,
      `Service default/web: spec.healthCheckNodePort: 10250: ${OUTSIDE} (part left out)`,
    ]);
    assert.deepEqual(
      seen.service?.ports.map(({ nodePort }) => nodePort),
      [0, 30_080],
    );
    assert.equal(seen.service?.healthCheckNodePort, 0);
    const wider = taken([service({ name: 'web', spec })], { nodePorts: { least: 1, most: 65_535 } });
    assert.deepEqual([wider.faults, wider.service?.ports[0]?.nodePort], [[], 22]);
  });

  test('an edit that an API server would refuse leaves the Service as it was', () => {
    const seen = new Seen();
    const store = new ManifestStore('node-a', seen.emit);
    const web = (clusterIP: string) => JSON.stringify(service({ name: 'web', spec: { clusterIP, ports: PORTS } }));
    setText(store, 'f', web('10.96.0.1'));
    setText(store, 'f', web('127.0.0.1'));
    assert.deepEqual(seen.service?.clusterIPs, ['10.96.0.1']);
    assert.ok(seen.faults.join().includes(`spec.clusterIP: 127.0.0.1: ${LOOPBACK}`), seen.faults.join());
  });
});

describe('a range of ports', () => {
  for (const [text, range] of [
    ['30000-32767', [30_000, 32_767]],
    ['30000+2767', [30_000, 32_767]],
    ['80', [80, 80]],
    ['1-65535', [1, 65_535]],
    ...['', '0-100', '5-4', '60000+6000', '1-65536', '-5', '1 - 2', 'a-b', '1-2-3'].map((one) => [one] as const),
  ] as const) {
    test(`${JSON.stringify(text)} is ${range === undefined ? 'none' : range.join(' to ')}`, () => {
      const [least, most] = range ?? [];
      assert.deepEqual(parsePortRange(text), least === undefined ? undefined : { least, most });
    });
  }
});

/** A machine with addresses and sockets, and the source's look at it. */
class Machine {
  readonly seen = new Seen();
  addresses: string[] = ['192.0.2.7', 'fd00::7'];
  listeners: string[] = ['TCP 0.0.0.0 22', 'TCP :: 10250', 'TCP 127.0.0.1 80', 'UDP 192.0.2.7 53'];
  broken: Error | undefined;
  asked = 0;
  readonly #look: NodeWatch;
  readonly #store: ManifestStore;

  constructor() {
    const guard = new NodeGuard();
    const reader = {
      addresses: async () => {
        if (this.broken) throw this.broken;
        return this.addresses as Address[];
      },
      listeners: async () => {
        this.asked += 1;
        return this.listeners.map((text) => {
          const [protocol, address, port] = text.split(' ');
          return { protocol, address, port: Number(port) } as ListeningSocket;
        });
      },
    };
    this.#look = new NodeWatch(guard, { nodeName: 'node-a', reader, emit: this.seen.emit });
    this.#store = new ManifestStore('node-a', this.seen.emit, { guard });
  }

  async set(...objects: object[]): Promise<void> {
    setText(this.#store, 'f', objects.map((object) => JSON.stringify(object)).join('\n---\n'));
    await this.#look.judge();
  }

  async rescan(): Promise<void> {
    this.#look.expire();
    await this.#look.judge();
  }
}

const web = (externalIP: string, port: number, protocol = 'TCP') =>
  service({
    name: 'web',
    spec: { clusterIP: '10.96.0.1', externalIPs: [externalIP, '198.51.100.9'], ports: [{ port, protocol }] },
  });
const INUSE = (what: string) => SSH_IN_USE.replace('TCP port 22', what);

describe('a frontend on an address of this node', () => {
  for (const [externalIP, port, protocol, refused] of [
    ['192.0.2.7', 22, 'TCP', true],
    ['192.0.2.7', 22, 'UDP', false],
    ['192.0.2.7', 10_250, 'TCP', true],
    ['fd00::7', 10_250, 'TCP', true],
    ['fd00::7', 22, 'TCP', false],
    ['192.0.2.7', 53, 'UDP', true],
    ['192.0.2.7', 80, 'TCP', false],
    ['198.51.100.7', 22, 'TCP', false],
  ] as const) {
    test(`${externalIP} ${protocol} ${port} is ${refused ? 'left out' : 'served'}`, async () => {
      const machine = new Machine();
      await machine.set(web(externalIP, port, protocol));
      const expected = refused ? ['198.51.100.9'] : [externalIP, '198.51.100.9'];
      assert.deepEqual(machine.seen.service?.externalIPs, expected);
      const fault = `Service default/web: spec.externalIPs: ${externalIP}: ${INUSE(`${protocol} port ${port}`)} (part left out)`;
      assert.deepEqual(machine.seen.faults, refused ? [fault] : []);
    });
  }

  test('of a load balancer, or as a cluster IP, is refused as well', async () => {
    const machine = new Machine();
    const status = { loadBalancer: { ingress: [{ ip: '192.0.2.7' }] } };
    await machine.set(service({ name: 'web', spec: { clusterIP: '10.96.0.1', ports: [{ port: 22 }] }, status }));
    assert.deepEqual(machine.seen.service?.loadBalancerIPs, []);
    assert.deepEqual(machine.seen.faults, [
      `Service default/web: status.loadBalancer.ingress: 192.0.2.7: ${INUSE('TCP port 22')} (part left out)`,
    ]);
    await machine.set(service({ name: 'web', spec: { clusterIP: '192.0.2.7', ports: [{ port: 22 }] } }));
    assert.equal(machine.seen.service, undefined);
    assert.deepEqual(machine.seen.faults, [
      `Service default/web: spec.clusterIPs: 192.0.2.7: ${INUSE('TCP port 22')} (object set aside)`,
    ]);
  });

  test('that the own Node object names is refused as well', async () => {
    const machine = new Machine();
    const addresses = [{ type: 'ExternalIP', address: '203.0.113.5' }];
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' }, status: { addresses } };
    await machine.set(web('203.0.113.5', 22), node);
    assert.deepEqual(machine.seen.service?.externalIPs, ['198.51.100.9']);
  });

  test('that was free stays, whatever listens there later; one that becomes free is served', async () => {
    const machine = new Machine();
    await machine.set(web('192.0.2.7', 8080));
    machine.listeners.push('TCP 0.0.0.0 8080');
    await machine.rescan();
    await machine.set(web('192.0.2.7', 8080), service({ name: 'b', spec: { clusterIP: '10.96.0.2', ports: PORTS } }));
    assert.deepEqual(machine.seen.faults, []);
    await machine.set(web('192.0.2.7', 22));
    assert.equal(machine.seen.faults.length, 1);
    machine.listeners = [];
    await machine.rescan();
    assert.deepEqual([machine.seen.faults, machine.seen.service?.externalIPs.length], [[], 2]);
  });

  test('is judged when the address comes to this node later, and reported once', async () => {
    const machine = new Machine();
    await machine.set(web('192.0.2.99', 22));
    assert.deepEqual([machine.seen.faults, machine.asked], [[], 0]);
    machine.addresses.push('192.0.2.99');
    await machine.rescan();
    assert.equal(machine.seen.faults.length, 1);
    const reported = machine.seen.events.length;
    await machine.rescan();
    assert.equal(machine.seen.events.length, reported);
    machine.addresses.pop();
    await machine.rescan();
    assert.deepEqual(machine.seen.faults, []);
  });

  test('is forgotten with its Service', async () => {
    const machine = new Machine();
    await machine.set(web('192.0.2.7', 22));
    await machine.set(service({ name: 'b', spec: { clusterIP: '10.96.0.2', ports: PORTS } }));
    const gone = machine.seen.events.findLast((event) => event.kind === 'service' && event.key === 'default/web');
    assert.deepEqual(gone, { kind: 'service', key: 'default/web', service: undefined, faults: [] });
  });

  test('waits while this machine cannot be read, and the first read must succeed', async () => {
    const machine = new Machine();
    machine.broken = new Error('EMFILE: too many open files');
    await assert.rejects(machine.set(web('192.0.2.7', 22)), {
      code: 'MANIFESTS_UNUSABLE',
      message:
        'this node: its addresses and the ports in use cannot be read: EMFILE: too many open files; --allow-node-address-ports turns this check off',
    });
    machine.broken = undefined;
    await machine.set(web('192.0.2.7', 8080));
    machine.broken = new Error('EMFILE: too many open files');
    await machine.set(web('192.0.2.7', 22));
    assert.equal(machine.seen.service?.ports[0]?.port, 8080);
    assert.deepEqual(machine.seen.faults, [
      'Node node-a: its addresses and the ports in use cannot be read: EMFILE: too many open files; changed Services wait until they can be read (part left out)',
    ]);
    machine.broken = undefined;
    await machine.rescan();
    assert.match(machine.seen.faults.join(), /^Service default\/web: spec\.externalIPs: 192\.0\.2\.7/);
  });
});

test('a Service that is judged goes together with its endpoints, though the machine answers slowly', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-guard-'));
  const file = join(folder, 'web.json');
  const items = [web('192.0.2.7', 8080), slice({ name: 's', service: 'web', endpoints: ['10.0.0.1'] })];
  await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  const seen = new Seen();
  const turns: string[] = [];
  let isNewTurn = true;
  const emit = (event: SourceEvent): void => {
    seen.emit(event);
    if (event.kind !== 'service' && event.kind !== 'slice') return;
    if (isNewTurn) turns.push('');
    isNewTurn = false;
    turns.push(`${turns.pop() ?? ''}${event.kind} `);
    setImmediate(() => {
      isNewTurn = true;
    });
  };
  const addresses = async () => {
    await wait(20);
    return ['192.0.2.7'] as Address[];
  };
  const node = { addresses, listeners: async () => [] };
  const abort = new AbortController();
  const source = manifestsSource({ path: folder, nodeName: 'node-a', clock: realClock, once: false, node });
  const ended = source.run(emit, abort.signal);
  t.after(async () => {
    abort.abort();
    await ended;
    await rm(folder, { recursive: true });
  });
  await until('the Service is there', () => seen.service !== undefined);
  await rm(file);
  await until('both are gone', () => seen.service === undefined && seen.endpoints.length === 0);
  assert.deepEqual(
    turns.map((turn) => turn.trim().split(' ').sort().join(' ')),
    ['service slice', 'service slice'],
  );
});
