/** The sweeper over a simulated connection table. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Flow } from '../../../native/conntrack.ts';
import { type Address, type Family, socketBytes } from '../../../src/base/address.ts';
import type { FlowTable } from '../../../src/kernel/conntrack.ts';
import type { FlowKind, Flows } from '../../../src/proxy/model/flows.ts';
import { FlowSweeper, type SweepCount, type SweepReport } from '../../../src/proxy/sync/flow-sweeper.ts';
import { FakeClock } from '../../helpers/base/fake-clock.ts';
import { aWhile, until } from '../../helpers/base/until.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { NEVER, Rig } from '../../helpers/proxy/rig.ts';

const VIP = socketBytes('10.96.0.10' as Address, 53);
const POD = socketBytes('10.244.1.11' as Address, 53);
const GONE = socketBytes('10.244.1.99' as Address, 53);

function flow(replySource: string): Flow {
  const identity = { tuple: new Uint8Array(), id: new Uint8Array() };
  return { family: 'IPv4', protocol: 'UDP', destination: VIP, replySource, ...identity };
}

interface Played {
  readonly parts: readonly (readonly Flow[])[];
  /** Unanswered connections. */
  readonly openings?: readonly (readonly Flow[])[];
  /** Connections that were translated. */
  readonly translated?: readonly (readonly Flow[])[];
  readonly changed?: boolean;
  readonly fails?: string;
  /** Called when a part is requested. */
  readonly onPart?: () => void;
  /** Milliseconds that the listing takes. */
  readonly takes?: number;
  /** Milliseconds in which others have the event loop before it. */
  readonly waits?: number;
}

/** Lists of IPv4, one for each time the table is opened; the last one is repeated. */
class Tables {
  readonly deleted: Flow[] = [];
  readonly clock = new FakeClock();
  opened = 0;
  closed = 0;
  /** Number of requested parts. */
  asked = 0;
  /** Number of listings of unanswered connections. */
  openings = 0;
  readonly #played: readonly Played[];

  constructor(...played: readonly Played[]) {
    this.#played = played;
  }

  readonly open = (): Promise<FlowTable> => {
    const played = this.#played[Math.min(this.opened, this.#played.length - 1)] ?? { parts: [] };
    this.opened += 1;
    this.clock.advance(played.waits ?? 0);
    if (played.fails !== undefined) return Promise.reject(new Error(played.fails));
    return Promise.resolve({
      udpFlows: (family: Family) => this.#list(family, played),
      openings: () => this.#listOpenings(played),
      translated: () => this.#listTranslated(played),
      unanswered: () => assert.fail('a sweep needs the translated ones alone'),
      entries: () => assert.fail('a sweep needs the translated ones alone'),
      delete: (flows: readonly Flow[]) => {
        this.deleted.push(...flows);
        return flows.length;
      },
      close: () => {
        this.closed += 1;
      },
    });
  };

  *#listTranslated({ translated = [] }: Played): Generator<readonly Flow[], boolean> {
    yield* translated;
    return false;
  }

  *#listOpenings({ openings = [] }: Played): Generator<readonly Flow[], boolean> {
    this.openings += 1;
    yield* openings;
    return false;
  }

  *#list(family: Family, { parts, changed = false, takes = 0, onPart }: Played): Generator<readonly Flow[], boolean> {
    if (family === 'IPv6') return false;
    for (const part of parts) {
      this.asked += 1;
      onPart?.();
      yield part;
    }
    this.clock.advance(takes);
    return changed;
  }
}

async function dnsFlows({ isDeleted = false } = {}): Promise<Flows> {
  const rig = new Rig({ commands: new FakeIptables() });
  const ports = [{ name: '', port: 53, protocol: 'UDP' }];
  rig.put(
    service({ name: 'dns', spec: { clusterIP: '10.96.0.10', ports: [{ port: 53, protocol: 'UDP' }] } }),
    slice({ name: 'dns-1', service: 'dns', ports, endpoints: ['10.244.1.11'] }),
  );
  await rig.sync();
  if (isDeleted) await rig.remove('Service', 'default/dns').remove('EndpointSlice', 'default/dns-1').sync();
  return rig.flows;
}

/** A TCP Service of both families. */
async function webFlows(): Promise<Flows> {
  const rig = new Rig({ commands: new FakeIptables() });
  const clusterIPs = ['10.96.0.20', 'fd00:96::10'];
  const spec = { clusterIP: clusterIPs[0], clusterIPs, ipFamilies: ['IPv4', 'IPv6'], ports: [{ port: 80 }] };
  rig.put(
    service({ name: 'web', spec }),
    slice({
      name: 'web-6',
      service: 'web',
      addressType: 'IPv6',
      ports: [{ name: '', port: 80 }],
      endpoints: ['fd00:244:1::11'],
    }),
  );
  await rig.sync();
  return rig.flows;
}

function countOf({ kinds }: SweepReport, kind: FlowKind): SweepCount {
  return kinds.get(kind) ?? assert.fail(`no sweep of ${kind}`);
}

interface Started {
  readonly sweeper: FlowSweeper;
  readonly reports: SweepReport[];
  readonly flows: Flows;
  /** Milliseconds of the last started rest. */
  rest(): number | undefined;
  /** Wait for the n-th sweep and the rest after it. */
  swept(n: number): Promise<void>;
}

async function sweeperOver(
  tables: Tables,
  { flows: given, ...options }: Parameters<typeof dnsFlows>[0] & { flows?: Flows } = {},
): Promise<Started> {
  const { clock } = tables;
  const reports: SweepReport[] = [];
  const flows = given ?? (await dnsFlows(options));
  const sweeper = new FlowSweeper({
    flows,
    open: tables.open,
    clock,
    families: ['IPv4', 'IPv6'],
    nodeAddresses: () => Promise.resolve(() => false),
    retry: 30_000,
    onSweep: (report) => reports.push(report),
  });
  return {
    sweeper,
    reports,
    flows,
    rest: () => clock.waits.at(-1),
    swept: (n) => until(`sweep ${n} and the rest after it`, () => reports.length === n && clock.pending > 0),
  };
}

/** All flows must be read again, and rules are written. */
function dirty({ flows, sweeper }: Started): void {
  flows.distrust();
  flows.written(new Set());
  sweeper.request();
}

describe('flow sweeper', () => {
  it('deletes what is stale, part by part, and nothing else', async () => {
    const tables = new Tables({ parts: [[flow(POD), flow(GONE)], [], [flow(GONE), flow(POD), flow(VIP)]] });
    const { sweeper, flows } = await sweeperOver(tables);
    const report = await sweeper.sweep(NEVER);
    const { seen, deleted, owners } = countOf(report, 'udp');
    assert.deepEqual([seen, deleted, report.outcome], [5, 3, 'complete']);
    assert.deepEqual([...owners], ['default/dns/UDP/IPv4']);
    assert.deepEqual(new Set(tables.deleted.map((one) => one.replySource)), new Set([GONE, VIP]));
    assert.equal(tables.closed, 1);
    assert.equal(flows.isDirty, false);
  });

  it('lets others work after each part', async () => {
    const tables = new Tables({ parts: [[], [], [], []] });
    const { sweeper } = await sweeperOver(tables);
    const seen: number[] = [];
    let isDone = false;
    const other = () => {
      seen.push(tables.asked);
      if (!isDone) setImmediate(other);
    };
    setImmediate(other);
    await sweeper.sweep(NEVER);
    isDone = true;
    assert.ok(
      [1, 2, 3, 4].every((part) => seen.includes(part)),
      `others worked after parts ${seen.join()}`,
    );
  });

  it('sweeps on request if there is a reason, and rests a second in between', async () => {
    const tables = new Tables({ parts: [[flow(GONE)]] });
    const started = await sweeperOver(tables);
    const stop = new AbortController();
    const running = started.sweeper.start(stop.signal);
    started.sweeper.request();
    await started.swept(1);
    assert.equal(started.rest(), 1000);
    dirty(started);
    tables.clock.advance(999);
    await aWhile();
    assert.equal(tables.opened, 1, 'it rests');
    tables.clock.advance(1);
    await started.swept(2);
    started.sweeper.request();
    tables.clock.advance(10_000);
    await aWhile();
    assert.equal(tables.opened, 2, 'nothing is to do');
    stop.abort();
    await running;
  });

  it('rests nine times as long as a sweep worked, however long others had the event loop meanwhile (k8s#135323)', async () => {
    const started = await sweeperOver(new Tables({ parts: [], takes: 700, waits: 2000 }));
    const stop = new AbortController();
    const running = started.sweeper.start(stop.signal);
    started.sweeper.request();
    await started.swept(1);
    assert.equal(started.rest(), 6300);
    stop.abort();
    await running;
  });

  it('repeats a failed sweep after growing pauses, up to the retry', async () => {
    const tables = new Tables({ parts: [], fails: 'EPERM: operation not permitted' });
    const started = await sweeperOver(tables);
    const stop = new AbortController();
    const running = started.sweeper.start(stop.signal);
    started.sweeper.request();
    const rests: (number | undefined)[] = [];
    for (let n = 1; n <= 7; n++) {
      await started.swept(n);
      rests.push(started.rest());
      assert.equal(started.flows.isDirty, true);
      tables.clock.advance(30_000);
    }
    assert.deepEqual(rests, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    assert.match(started.reports[0]?.cause ?? '', /EPERM/);
    stop.abort();
    await running;
  });

  it('repeats the sweep of a changing table five times, then treats the seen flows as all, and forgets removed frontends', async () => {
    const tables = new Tables({ parts: [[flow(GONE)]], changed: true });
    const started = await sweeperOver(tables, { isDeleted: true });
    assert.equal(started.flows.handOver().udp.length, 1);
    const stop = new AbortController();
    const running = started.sweeper.start(stop.signal);
    started.sweeper.request();
    for (let n = 1; n <= 5; n++) {
      await started.swept(n);
      assert.equal(started.reports.at(-1)?.outcome, 'changed');
      assert.equal(started.rest(), 1000);
      tables.clock.advance(1000);
    }
    await aWhile();
    assert.equal(tables.opened, 5);
    assert.equal(tables.deleted.length, 5);
    assert.equal(started.flows.handOver().udp.length, 0);
    stop.abort();
    await running;
  });

  it('sweeps again when rules were written during the fifth repetition', async () => {
    let started: Started | undefined;
    const tables = new Tables({
      parts: [[flow(GONE)]],
      changed: true,
      onPart: () => {
        if (tables.opened === 5 && started !== undefined) dirty(started);
      },
    });
    started = await sweeperOver(tables);
    const stop = new AbortController();
    const running = started.sweeper.start(stop.signal);
    started.sweeper.request();
    for (let n = 1; n <= 6; n++) {
      await started.swept(n);
      tables.clock.advance(1000);
    }
    stop.abort();
    await running;
  });

  it('stops between two parts, and remembers that the sweep is not complete', async () => {
    const stop = new AbortController();
    const parts = [[flow(GONE)], [flow(GONE)], [flow(GONE)]];
    const tables = new Tables({ parts, onPart: () => stop.abort() });
    const { sweeper, flows } = await sweeperOver(tables);
    const report = await sweeper.sweep(stop.signal);
    assert.equal(report.outcome, 'stopped');
    assert.deepEqual([tables.asked, tables.deleted.length], [1, 1]);
    assert.equal(tables.closed, 1);
    assert.equal(flows.isDirty, true);
  });

  it('reads only the kinds of flows that may be stale, and counts them separately', async () => {
    const opening: Flow = { ...flow(GONE), protocol: 'TCP' };
    const tables = new Tables({ parts: [[flow(GONE)]], openings: [[opening], [opening]] });
    const started = await sweeperOver(tables);
    const { sweeper, flows, reports } = started;
    const stop = new AbortController();
    const running = sweeper.start(stop.signal);
    sweeper.request();
    await started.swept(1);
    assert.deepEqual([...(reports[0]?.kinds.keys() ?? [])], ['udp', 'opening']);
    assert.deepEqual([countOf(reports[0] ?? assert.fail(), 'opening').seen, tables.openings], [2, 1]);
    // A connection to a port that no Service has is not stale: the Service has only a UDP port.
    assert.deepEqual([countOf(reports[0] ?? assert.fail(), 'opening').deleted, tables.deleted.length], [0, 1]);
    tables.clock.advance(1000);
    flows.notSwept(flows.begin(['opening']));
    sweeper.request();
    await started.swept(2);
    assert.deepEqual([...(reports[1]?.kinds.keys() ?? [])], ['opening']);
    assert.deepEqual([tables.asked, tables.openings], [1, 2]);
    stop.abort();
    await running;
  });

  it('lists unanswered connections of both families in one walk, and deletes each in its family', async () => {
    const vip6 = socketBytes('fd00:96::10' as Address, 80);
    const flows = await webFlows();
    const opening = (one: Partial<Flow>): Flow => ({ ...flow(GONE), protocol: 'TCP', ...one });
    const ofIpv6 = opening({
      family: 'IPv6',
      destination: vip6,
      replySource: socketBytes('fd00:244:1::99' as Address, 80),
    });
    const tables = new Tables({ parts: [], openings: [[ofIpv6, opening({ destination: VIP })]] });
    const { sweeper } = await sweeperOver(tables, { flows });
    const { deletedIn } = countOf(await sweeper.sweep(NEVER), 'opening');
    assert.deepEqual([...deletedIn], [['IPv6', 1]]);
    assert.deepEqual([tables.deleted, tables.openings], [[ofIpv6], 1]);
  });

  it('rests longer between sweeps of unanswered connections, and sweeps UDP flows meanwhile', async () => {
    const tables = new Tables({ parts: [], takes: 100 });
    const started = await sweeperOver(tables);
    const { sweeper, flows, reports } = started;
    const stop = new AbortController();
    const running = sweeper.start(stop.signal);
    sweeper.request();
    await started.swept(1);
    dirty(started);
    tables.clock.advance(1000);
    await started.swept(2);
    assert.deepEqual([...(reports[1]?.kinds.keys() ?? [])], ['udp']);
    assert.deepEqual(flows.due, ['opening']);
    tables.clock.advance(1000);
    await aWhile();
    assert.deepEqual([reports.length, started.rest()], [2, 7900], '10,000 in all, of which 2100 are over');
    tables.clock.advance(7900);
    await started.swept(3);
    assert.deepEqual([...(reports[2]?.kinds.keys() ?? [])], ['opening']);
    stop.abort();
    await running;
  });

  it('sweeps unanswered connections without that rest where a Node died, also when it is sweeping', async () => {
    let onPart: () => void = () => undefined;
    const tables = new Tables({ parts: [[]], takes: 100, onPart: () => onPart() });
    const started = await sweeperOver(tables);
    const { sweeper, flows, reports } = started;
    onPart = () => {
      onPart = () => undefined;
      sweeper.request(true);
    };
    const stop = new AbortController();
    const running = sweeper.start(stop.signal);
    sweeper.request();
    await started.swept(1);
    dirty(started);
    tables.clock.advance(1000);
    await started.swept(2);
    assert.deepEqual([...(reports[1]?.kinds.keys() ?? [])], ['udp', 'opening']);
    dirty(started);
    sweeper.request(true);
    tables.clock.advance(2000);
    await started.swept(3);
    assert.ok(reports[2]?.kinds.has('opening'));
    assert.deepEqual(flows.due, []);
    stop.abort();
    await running;
  });

  it('finishes with at most three sweeps of the due flows', async () => {
    const tables = new Tables({ parts: [[flow(GONE)]], changed: true }, { parts: [[flow(GONE)]] });
    const { sweeper, flows, reports } = await sweeperOver(tables);
    await sweeper.finish(NEVER);
    assert.deepEqual(
      reports.map(({ outcome }) => outcome),
      ['changed', 'complete'],
    );
    assert.equal(flows.isDirty, false);
    await sweeper.finish(NEVER);
    assert.equal(reports.length, 2, 'nothing was due');
    const changing = await sweeperOver(new Tables({ parts: [[flow(GONE)]], changed: true }));
    await changing.sweeper.finish(NEVER);
    assert.equal(changing.reports.length, 3);
    const failing = await sweeperOver(new Tables({ parts: [], fails: 'EPERM: operation not permitted' }));
    await failing.sweeper.finish(NEVER);
    assert.deepEqual(
      failing.reports.map(({ outcome }) => outcome),
      ['failed'],
    );
  });

  it('does not start the finishing sweep when the time is over, and ends it between two parts', async () => {
    const stop = new AbortController();
    const tables = new Tables({ parts: [[flow(GONE)], [flow(GONE)]], onPart: () => stop.abort() });
    const { sweeper, reports } = await sweeperOver(tables);
    await sweeper.finish(stop.signal);
    assert.deepEqual(
      reports.map(({ outcome }) => outcome),
      ['stopped'],
    );
    assert.equal(tables.asked, 1);
    await sweeper.finish(stop.signal);
    assert.equal(reports.length, 1);
  });

  it('hands over the addresses that took node ports: flows to former ones are deleted, until a sweep saw all flows', async () => {
    const rig = new Rig({ commands: new FakeIptables() });
    const ports = [{ name: '', port: 53, protocol: 'UDP' }];
    rig.put(
      service({
        name: 'dns',
        spec: { type: 'NodePort', clusterIP: '10.96.0.10', ports: [{ port: 53, protocol: 'UDP', nodePort: 30_053 }] },
      }),
      slice({ name: 'dns-1', service: 'dns', ports, endpoints: ['10.244.1.11'] }),
    );
    await rig.sync();
    const to: Flow = { ...flow(POD), destination: socketBytes('192.0.2.2' as Address, 30_053) };
    const made = (tables: Tables, isServed: boolean) =>
      new FlowSweeper({
        flows: rig.flows,
        open: tables.open,
        clock: tables.clock,
        families: ['IPv4'],
        nodeAddresses: () => Promise.resolve(() => isServed),
        retry: 30_000,
        onSweep: () => undefined,
      });
    const before = new Tables({ parts: [[to]] });
    const first = made(before, true);
    await first.sweep(NEVER);
    assert.deepEqual(before.deleted, []);
    const now = new Tables({ parts: [[to]], changed: true }, { parts: [[to]] });
    const next = made(now, false);
    next.inherit(first.handOver());
    rig.flows.written(new Set());
    for (const deleted of [1, 2, 2]) {
      await next.sweep(NEVER);
      assert.equal(now.deleted.length, deleted, 'as long as not every flow was seen');
    }
  });
});
