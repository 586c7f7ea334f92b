/** The sweeper over a table of connections that a test plays. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Flow, FlowTable } from '../../src/host/conntrack.ts';
import { type Address, type Family, socketBytes } from '../../src/model/address.ts';
import type { UdpFlows } from '../../src/model/udp-flows.ts';
import { FlowSweeper, type SweepReport } from '../../src/sync/flow-sweeper.ts';
import { FakeClock } from '../helpers/fake-clock.ts';
import { FakeIptables } from '../helpers/fake-iptables.ts';
import { service, slice } from '../helpers/objects.ts';
import { NEVER, Rig } from '../helpers/rig.ts';
import { aWhile, until } from '../helpers/until.ts';

const VIP = socketBytes('10.96.0.10' as Address, 53);
const POD = socketBytes('10.244.1.11' as Address, 53);
const GONE = socketBytes('10.244.1.99' as Address, 53);

function flow(replySource: string): Flow {
  return { destination: VIP, replySource, tuple: new Uint8Array(), id: new Uint8Array() };
}

interface Played {
  readonly parts: readonly (readonly Flow[])[];
  readonly changed?: boolean;
  readonly fails?: string;
}

/** Lists, one for each opening, of IPv4; the last is repeated. */
class Tables {
  readonly deleted: Flow[] = [];
  opened = 0;
  closed = 0;
  readonly #played: readonly Played[];

  constructor(...played: readonly Played[]) {
    this.#played = played;
  }

  readonly open = (): Promise<FlowTable> => {
    const played = this.#played[Math.min(this.opened, this.#played.length - 1)];
    this.opened += 1;
    if (played?.fails !== undefined) return Promise.reject(new Error(played.fails));
    const { deleted } = this;
    return Promise.resolve({
      *udpFlows(family: Family): Generator<readonly Flow[], boolean> {
        if (family === 'IPv4') yield* played?.parts ?? [];
        return played?.changed === true;
      },
      delete(_: Family, flows: readonly Flow[]) {
        deleted.push(...flows);
        return flows.length;
      },
      close: () => {
        this.closed += 1;
      },
    });
  };
}

async function dnsFlows(): Promise<UdpFlows> {
  const rig = new Rig({ commands: new FakeIptables() });
  const ports = [{ name: '', port: 53, protocol: 'UDP' }];
  rig.put(
    service({ name: 'dns', spec: { clusterIP: '10.96.0.10', ports: [{ port: 53, protocol: 'UDP' }] } }),
    slice({ name: 'dns-1', service: 'dns', ports, endpoints: ['10.244.1.11'] }),
  );
  await rig.sync();
  return rig.flows;
}

interface Started {
  readonly sweeper: FlowSweeper;
  readonly clock: FakeClock;
  readonly reports: SweepReport[];
  readonly flows: UdpFlows;
}

async function sweeperOver(tables: Tables): Promise<Started> {
  const clock = new FakeClock();
  const reports: SweepReport[] = [];
  const flows = await dnsFlows();
  const sweeper = new FlowSweeper({
    flows,
    open: tables.open,
    clock,
    families: ['IPv4', 'IPv6'],
    nodeAddresses: () => () => false,
    retry: 30_000,
    onSweep: (report) => reports.push(report),
  });
  return { sweeper, clock, reports, flows };
}

describe('flow sweeper', () => {
  it('deletes what is stale, part by part, and nothing else', async () => {
    const tables = new Tables({
      parts: [
        [flow(POD), flow(GONE)],
        [flow(GONE), flow(POD), flow(VIP)],
      ],
    });
    const { sweeper, flows } = await sweeperOver(tables);
    const report = await sweeper.sweep(NEVER);
    assert.deepEqual([report.seen, report.deleted, report.cause], [5, 3, undefined]);
    assert.deepEqual([...report.owners], ['default/dns/UDP/IPv4']);
    assert.deepEqual(new Set(tables.deleted.map((one) => one.replySource)), new Set([GONE, VIP]));
    assert.equal(tables.closed, 1);
    assert.equal(flows.isDirty, false);
  });

  it('sweeps when it is asked and there is a reason, and rests in between', async () => {
    const tables = new Tables({ parts: [[flow(GONE)]] });
    const { sweeper, clock, reports, flows } = await sweeperOver(tables);
    const stop = new AbortController();
    const running = sweeper.start(stop.signal);
    sweeper.request();
    await until('sweep 1 and the rest after it', () => reports.length === 1 && clock.pending > 0);
    // Asked while nothing is to do, and again while it rests.
    sweeper.request();
    flows.distrust();
    clock.advance(900);
    assert.equal(reports.length, 1);
    clock.advance(100);
    await until('sweep 2 and the rest after it', () => reports.length === 2 && clock.pending > 0);
    sweeper.request();
    clock.advance(10_000);
    await aWhile();
    assert.equal(tables.opened, 2, 'nothing is to do');
    stop.abort();
    await running;
  });

  it('tries again what failed, or saw a table that changed', async () => {
    const tables = new Tables(
      { parts: [], fails: 'EPERM: operation not permitted' },
      { parts: [[flow(GONE)]], changed: true },
      { parts: [] },
    );
    const { sweeper, clock, reports, flows } = await sweeperOver(tables);
    const stop = new AbortController();
    const running = sweeper.start(stop.signal);
    sweeper.request();
    await until('sweep 1 and the rest after it', () => reports.length === 1 && clock.pending > 0);
    assert.match(reports[0]?.cause ?? '', /EPERM/);
    assert.equal(flows.isDirty, true);
    clock.advance(30_000);
    await until('sweep 2 and the rest after it', () => reports.length === 2 && clock.pending > 0);
    assert.match(reports[1]?.cause ?? '', /changed/);
    assert.equal(reports[1]?.deleted, 1);
    clock.advance(30_000);
    await until('sweep 3 and the rest after it', () => reports.length === 3 && clock.pending > 0);
    assert.equal(flows.isDirty, false);
    stop.abort();
    await running;
  });

  it('stops between two parts, and keeps in mind that it was not done', async () => {
    const stop = new AbortController();
    const flowsOf = function* (): Generator<readonly Flow[], boolean> {
      yield [flow(GONE)];
      stop.abort();
      yield [flow(GONE)];
      return false;
    };
    const flows = await dnsFlows();
    const table: FlowTable = { udpFlows: flowsOf, delete: (_, some) => some.length, close: () => undefined };
    const sweeper = new FlowSweeper({
      flows,
      open: () => Promise.resolve(table),
      clock: new FakeClock(),
      families: ['IPv4'],
      nodeAddresses: () => () => false,
      retry: 1000,
      onSweep: () => undefined,
    });
    assert.equal((await sweeper.sweep(stop.signal)).deleted, 2);
    assert.equal(flows.isDirty, true);
  });
});
