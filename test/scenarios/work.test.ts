/**
 * The work of a sync follows the change, not the cluster (invariant 11): counted, not timed, in both modes, at 1,000 Services
 * and at ten times as many.
 */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { KernelError, type KernelWrite } from '../../src/kernel/ipvs-kernel.ts';
import type { Work } from '../../src/proxy/reconcile/work.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { ipvsRig } from '../helpers/proxy/ipvs-rig.ts';
import { Rig } from '../helpers/proxy/rig.ts';

const [FEW, MANY] = [1000, 10_000];
const ENDPOINTS = 5;
/** An endpoint that the kernels refuse once they are told to. */
const REFUSED = '10.200.0.1';
/** Milliseconds: nobody who was refused is tried again within a test. */
const RETRY = 3_600_000;

/** What a sync did, and what was written: lines to iptables-restore, messages to IPVS. */
interface Cost extends Work {
  readonly written: number;
}

interface Bench {
  readonly rig: Rig;
  /** Lines and messages so far. */
  readonly written: () => number;
  /** From now on the kernel refuses `REFUSED`. */
  readonly refuse: () => void;
}

function iptablesBench(): Bench {
  const kernel = new FakeIptables();
  return {
    rig: new Rig({ commands: kernel, families: ['IPv4'], retry: RETRY }),
    written: () => linesOf(kernel),
    refuse: () => {
      kernel.options = { refuse: (line) => line.includes(` ${REFUSED}:`) };
    },
  };
}

function ipvsBench(): Bench {
  const { rig, kernel, iptables } = ipvsRig({ families: ['IPv4'], retry: RETRY });
  const isRefused = (write: KernelWrite) => 'destination' in write && write.destination.address === REFUSED;
  return {
    rig,
    written: () => kernel.written.length + linesOf(iptables),
    refuse: () => {
      const intercept = (write: KernelWrite) => (isRefused(write) ? new KernelError('refused', 'no') : undefined);
      kernel.options = { ...kernel.options, intercept };
    },
  };
}

function linesOf({ ran }: FakeIptables): number {
  return ran.reduce((sum, { lines }) => sum + lines.length, 0);
}

/** Every tenth has a node port and an endpoint on this node: it stands in three trees, others in one. */
const isRich = (n: number) => n % 10 === 0;

function serviceOf(n: number, externalIPs?: readonly string[]): object {
  const clusterIP = `10.${96 + (n % 16)}.${(n * 7919) % 256}.${n % 251}`;
  const port = { port: 80, ...(isRich(n) ? { nodePort: 30_000 + n / 10 } : {}) };
  const type = isRich(n) ? 'NodePort' : 'ClusterIP';
  return service({ name: `s${n}`, spec: { type, clusterIP, externalIPs, ports: [port] } });
}

/** The endpoints of Service n. Those of another generation have one that is new, instead of the first. */
function sliceOf(n: number, generation = 0): object {
  const pods = Array.from({ length: ENDPOINTS }, (_, i) => `10.${i}.${n >> 8}.${n & 255}`);
  const [first = '', ...others] = pods;
  return sliceWith(n, [generation === 0 ? first : `10.${10 + generation}.${n >> 8}.${n & 255}`, ...others]);
}

function sliceWith(n: number, addresses: readonly string[]): object {
  const nodeName = (i: number) => (isRich(n) && i === 0 ? 'node' : 'other');
  const endpoints = addresses.map((address, i) => ({ addresses: [address], nodeName: nodeName(i) }));
  return slice({ name: `s${n}-a`, service: `s${n}`, endpoints });
}

const remove = (rig: Rig, n: number) =>
  rig.remove('Service', `default/s${n}`).remove('EndpointSlice', `default/s${n}-a`);
const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);

/** In this order, each on what the ones before left; Services past 10,000 are new. */
const CHANGES: Readonly<Record<string, { readonly services: number; readonly act: (rig: Rig) => void }>> = {
  'one endpoint changes': { services: 1, act: (rig) => rig.put(sliceOf(50, 1)) },
  'a Service is added': { services: 1, act: (rig) => rig.put(serviceOf(20_000), sliceOf(20_000)) },
  'a Service is removed': { services: 1, act: (rig) => remove(rig, 60) },
  '100 Services change': { services: 100, act: (rig) => rig.put(...range(100, 100).map((n) => sliceOf(n, 1))) },
  '100 Services are added': {
    services: 100,
    act: (rig) => rig.put(...range(20_100, 100).flatMap((n) => [serviceOf(n), sliceOf(n)])),
  },
  'a Service gets an address far from all others': { services: 1, act: (rig) => rig.put(serviceOf(51, ['34.1.2.3'])) },
  '100 Services are removed': { services: 100, act: (rig) => range(100, 100).forEach((n) => void remove(rig, n)) },
};
const NOTHING: Cost = { services: 0, rendered: 0, compared: 0, steps: 0, written: 0 };

interface Costs {
  readonly nothing: Cost;
  readonly changes: ReadonlyMap<string, Cost>;
  /** Of one changed endpoint, while another Service is set aside. */
  readonly besideRefused: Cost;
}

async function costsAt(size: number, bench: Bench): Promise<Costs> {
  const { rig, refuse } = bench;
  for (const n of range(0, size)) rig.put(serviceOf(n), sliceOf(n));
  const { outcome, work } = await rig.sync();
  assert.deepEqual([outcome, work.services], ['complete', size]);
  // As a list that is read again, or no more than a bookmark.
  const nothing = await costOf(bench, () => rig.put(serviceOf(5), sliceOf(5)));
  const changes = new Map<string, Cost>();
  for (const [name, { act }] of Object.entries(CHANGES)) changes.set(name, await costOf(bench, () => act(rig)));
  refuse();
  assert.equal((await rig.put(sliceWith(70, [REFUSED])).sync()).outcome, 'partial');
  const besideRefused = await costOf(bench, () => rig.put(sliceOf(50, 2)), 'partial');
  return { nothing, changes, besideRefused };
}

async function costOf({ rig, written }: Bench, act: () => void, outcome = 'complete'): Promise<Cost> {
  const start = written();
  act();
  const report = await rig.sync();
  assert.equal(report.outcome, outcome, JSON.stringify(report.failed));
  return { ...report.work, written: written() - start };
}

interface Bounds {
  readonly make: () => Bench;
  /** For each Service that changed. */
  readonly most: Cost;
  /** By how much a count at 10,000 Services may differ from that at 1,000, for each Service that changed. */
  readonly apart: number;
}

const MODES: Readonly<Record<string, Bounds>> = {
  /**
   * Two chains of its own; the way to its leaf in the trees of addresses, of node ports, and of endpoints here, there to the
   * one that goes and the one that comes: the root, two branches, the leaf; and what a leaf that splits becomes. Of a leaf
   * there are 32 lines at most. With ten times as many Services each of the four ways may be longer by a chain.
   */
  iptables: {
    make: iptablesBench,
    most: { services: 1, rendered: 2 + 4 * 4 + 4, compared: 2 + 4 * 4 + 4, steps: 12, written: 3 * 34 + 28 },
    apart: 4,
  },
  /**
   * Virtual servers on the cluster IP and two addresses of the node, each with five endpoints; an address; eight entries of
   * sets. Endpoints and servers are compared once for those that come and once for those that go.
   */
  ipvs: {
    make: ipvsBench,
    most: { services: 1, rendered: 3 * 6 + 1 + 8, compared: 2 * 3 * 7 + 2 * 9, steps: 12, written: 3 * 6 + 1 + 8 },
    apart: 0,
  },
};

/** Each count is at most this, `times` over. */
function assertWithin(cost: Cost, most: Cost, times: number): void {
  for (const [what, count] of Object.entries(cost)) {
    const bound = most[what as keyof Cost] * times;
    assert.ok(count <= bound, `${count} ${what}, at most ${bound}: ${JSON.stringify(cost)}`);
  }
}

/** But for the lines: a leaf is as long as it happens to be. */
function assertNear(few: Cost, many: Cost, apart: number): void {
  for (const what of ['services', 'rendered', 'compared', 'steps'] as const) {
    assert.ok(Math.abs(few[what] - many[what]) <= apart, `${what}: ${few[what]} and ${many[what]}`);
  }
}

for (const [mode, { make, most, apart }] of Object.entries(MODES)) {
  describe(`the work of a sync in ${mode} mode`, () => {
    let few: Costs;
    let many: Costs;
    before(async () => {
      few = await costsAt(FEW, make());
      many = await costsAt(MANY, make());
    });

    it('is none when nothing changed', () => {
      assert.deepEqual([few.nothing, many.nothing], [NOTHING, NOTHING]);
    });

    for (const [name, { services }] of Object.entries(CHANGES)) {
      it(`follows the change when ${name}`, () => {
        const [a, b] = [few.changes.get(name) ?? assert.fail(name), many.changes.get(name) ?? assert.fail(name)];
        assert.deepEqual([a.services, b.services], [services, services]);
        for (const cost of [a, b]) assertWithin(cost, most, services);
        assertNear(a, b, apart * services);
      });
    }

    it('follows the change, and who is set aside, while the kernel refuses a Service', () => {
      const [a, b] = [few.besideRefused, many.besideRefused];
      assert.deepEqual([a.services, b.services], [1, 1]);
      for (const cost of [a, b]) assertWithin(cost, most, 2);
      assertNear(a, b, apart);
    });
  });
}
