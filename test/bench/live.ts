/**
 * The live page: what its readers cost the agent, in processor time. 10 Services change a second, in syncs of their own. The floor is
 * the same without a reader. `node test/bench/live.ts` measures it alone.
 */
import { spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { noteChange } from '../../src/agent/feed.ts';
import { LivePage } from '../../src/agent/live-page.ts';
import { Overview } from '../../src/agent/questions/overview.ts';
import { type Address, FAMILIES } from '../../src/base/address.ts';
import { realClock } from '../../src/base/clock.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import { Recorder, type Tap } from '../../src/inspect/history/recorder.ts';
import { ChangeLedger, writtenChanges } from '../../src/proxy/ledger/change-ledger.ts';
import type { SyncReport } from '../../src/proxy/sync/sync-results.ts';
import { HttpServer } from '../../src/serve/http.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { defaultSettings, eventOf, Rig } from '../helpers/proxy/rig.ts';
import { type Aim, percent, table } from './text.ts';

export interface LiveResult {
  readonly services: number;
  readonly readers: number;
  /** Seconds that were measured. */
  readonly seconds: number;
  /** Milliseconds of processor time a second. */
  readonly cost: number;
  /** Events and bytes that a reader got. */
  readonly events: number;
  readonly bytes: number;
}

const SERVICES = 10_000;
export const LIVE_READERS = [0, 1, 20] as const;
const SECONDS = 15;
/** Changes a second, each with a sync. */
const RATE = 10;
/** The share of a processor that the readers may cost. */
const SHARE = 0.01;

/** Readers in a process of their own, whose time does not count; prints how many bytes and events the first one got. */
const READERS = `
import { writeSync } from 'node:fs';
import { get } from 'node:http';
const [port, count] = process.argv.slice(1).map(Number);
let [bytes, pieces] = [0, 0];
for (let i = 0; i < count; i++) {
  get({ port, host: '127.0.0.1', path: '/live', headers: { 'accept-encoding': 'gzip' } }, (answer) => {
    answer.on('data', (data) => { if (i === 0) { bytes += data.length; pieces += 1; } });
    answer.on('error', () => undefined);
  }).on('error', () => undefined);
}
setInterval(() => undefined, 60_000);
process.on('SIGTERM', () => { writeSync(1, JSON.stringify({ bytes, pieces })); process.exit(); });
`;

/** The parts that the page reads, fed as the agent feeds them. */
class Node {
  readonly page: LivePage;
  readonly #recorder = new Recorder(realClock);
  readonly #rig = new Rig({ commands: new FakeIptables() });
  readonly #ledger: ChangeLedger;
  readonly #tap: Tap;
  #turn = 0;

  constructor(services: number) {
    const { cache, mode, model, loop } = this.#rig;
    for (let n = 0; n < services; n++) {
      const clusterIP = `10.${96 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
      cache.take(eventOf(service({ name: `app-${n}`, spec: { clusterIP, ports: [{ port: 80 }] } })));
    }
    const { numbers } = this.#recorder;
    this.#ledger = new ChangeLedger({ clock: realClock, hasChanges: () => cache.hasChanges, numbers });
    this.#tap = this.#recorder.tap(cache, this.#ledger);
    const config = configFromFlags({ 'hostname-override': 'node', manifests: '/m' });
    const settings = { mode: 'iptables', families: FAMILIES.map(defaultSettings) } as const;
    const onNode = { families: FAMILIES, recorded: { settings, interfaces: [] } };
    const overview = new Overview({
      who: 'agent',
      clock: realClock,
      startedAt: realClock.wall(),
      config: () => config,
      feed: () => ({ cache, ledger: this.#ledger, watches: () => [] }),
      agent: () => ({ mode, model, loop, onNode }),
      health: () => ({ live: true, ready: true, healthy: true, reasons: [] }),
      recordings: { recorder: this.#recorder, fault: undefined },
    });
    this.page = new LivePage(overview, (text) => process.stderr.write(`${text}\n`));
    for (let i = 0; i < 200; i++) this.change();
  }

  change(): void {
    const { cache } = this.#rig;
    const turn = ++this.#turn;
    const name = `app-${(turn * 37) % SERVICES}`;
    const endpoints = [`10.${128 + ((turn >> 16) & 15)}.${(turn >> 8) & 255}.${turn & 255}`];
    const event = eventOf(slice({ name: `${name}-x7k2p`, service: name, endpoints }));
    const into = { ledger: this.#ledger, tap: this.#tap };
    cache.take(event, (before, version) => noteChange(into, event, before, version));
    this.page.changed();
    this.#recorder.syncBegan({ trigger: 'changes', by: '' }, this.#tap);
    this.#ledger.syncBegan();
    cache.takeChanges();
    this.#recorder.syncEnded(REPORT, this.#ledger.syncEnded(writtenChanges(REPORT)));
    this.#ledger.confirmed();
    this.page.changed();
  }
}

const REPORT: SyncReport = {
  ...{ outcome: 'complete', applied: 1, failed: [], skipped: [], drift: [] },
  ...{ work: { services: 1, rendered: 1, compared: 1, steps: 1 }, duration: 5, reading: 0, desiring: 1, writing: 4 },
};

export async function measureLive(readers: number): Promise<LiveResult> {
  const node = new Node(SERVICES);
  const server = await HttpServer.open({ address: '127.0.0.1' as Address, port: 0 }, (asked) => node.page.open(asked));
  const args = ['--input-type=module', '-e', READERS, String(server.port), String(readers)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let told = '';
  child.stdout.on('data', (data) => (told += String(data)));
  const ended = new Promise((resolve) => child.on('close', resolve));
  await pause(3000);
  const [began, before] = [performance.now(), process.cpuUsage()];
  while (performance.now() - began < SECONDS * 1000) {
    node.change();
    await pause(1000 / RATE);
  }
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(before);
  child.kill('SIGTERM');
  await ended;
  await server.close();
  const { bytes = 0, pieces = 0 } = JSON.parse(told) as { bytes?: number; pieces?: number };
  return { services: SERVICES, readers, seconds, cost: (user + system) / 1000 / seconds, events: pieces, bytes };
}

/** The share of a processor that the readers add. */
function shareOf(all: readonly LiveResult[], { cost }: LiveResult): number {
  const floor = all.find(({ readers }) => readers === 0)?.cost ?? 0;
  return Math.max(0, cost - floor) / 1000;
}

export function liveAims(all: readonly LiveResult[]): Aim[] {
  const most = all.at(-1);
  if (most === undefined) return [];
  const share = shareOf(all, most);
  return [
    {
      what: 'live page, processor',
      at: `${most.readers} pages, ${RATE} changes a second`,
      aim: percent(SHARE),
      found: percent(share),
      beside: `without a page ${percent((all.find(({ readers }) => readers === 0)?.cost ?? 0) / 1000)}`,
      isReached: share <= SHARE,
    },
  ];
}

export function liveSection(all: readonly LiveResult[]): string {
  return `## Live page

${RATE} changes a second, each with a sync, at ${SERVICES} Services. The readers are in a process of their own.

- Floor: the same changes without a reader.

${table(
  ['readers', 'processor', 'more than the floor', 'events a second', 'bytes a second of a reader'],
  all.map((one) => [
    String(one.readers),
    percent(one.cost / 1000),
    percent(shareOf(all, one)),
    (one.events / one.seconds).toFixed(1),
    String(Math.round(one.bytes / one.seconds)),
  ]),
)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const results: LiveResult[] = [];
  for (const readers of LIVE_READERS) results.push(await measureLive(readers));
  process.stdout.write(`${liveSection(results)}\n`);
}
