/** `slicewire status --watch` on a terminal: what a person sees, also when the window changes and when the agent goes away. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { bundle } from '../../scripts/bundle.ts';
import { API_VERSION } from '../../src/inspect/wire/envelope.ts';
import type { Status } from '../../src/inspect/wire/status.ts';
import { Terminal } from '../helpers/cli/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'slicewire-watch-'));
const AT = '2026-11-22T12:03:04.000Z';

const STATUS: Status = {
  apiVersion: API_VERSION,
  kind: 'Status',
  by: { who: 'agent', mode: 'nftables', node: 'node-1', version: '1.2.3', at: AT },
  pid: 4711,
  startedAt: AT,
  families: ['IPv4'],
  source: 'https://10.0.0.1:6443',
  health: { live: true, ready: true, healthy: true, reasons: [] },
  heard: [],
  objects: { services: 3, slices: 4 },
  syncs: [],
  latency: null,
  faults: [],
  refused: [],
  drift: [],
  history: null,
};

/** Faults with these texts, in the order in which they are shown. */
const faulty = (...texts: readonly string[]): Status => ({
  ...STATUS,
  faults: texts.map((problem) => {
    return { kind: 'Service', object: 'shop/web', field: '', value: '', problem, effect: 'object set aside' };
  }),
});

describe('status --watch on a terminal', () => {
  let status = STATUS;
  let isSilent = false;
  let agent: Server;
  let port = 0;
  let terminal: Terminal;
  const command = () =>
    `'${process.execPath}' '${join(folder, 'slicewire.mjs')}' status --watch --metrics-bind-address 127.0.0.1:${port}`;

  before(async () => await bundle('src/main.ts', join(folder, 'slicewire.mjs')));
  after(() => rmSync(folder, { recursive: true, force: true }));
  beforeEach(async () => {
    [status, isSilent] = [STATUS, false];
    await listen(0);
    port = (agent.address() as AddressInfo).port;
  });
  afterEach(async () => {
    await terminal.close();
    stop();
  });

  async function listen(at: number): Promise<void> {
    agent = createServer((_, response) => {
      if (!isSilent) response.end(JSON.stringify(status));
    });
    await new Promise<void>((resolve) => agent.listen(at, '127.0.0.1', resolve));
  }

  function stop(): void {
    agent.closeAllConnections();
    agent.close();
  }

  it('redraws in place, and leaves the last picture and the cursor when Ctrl+C ends it', async () => {
    terminal = new Terminal(command());
    await terminal.shows('3 Services, 4 EndpointSlices');
    await terminal.shows('Asked each second; Ctrl+C ends.');
    assert.equal(terminal.screen.isCursorShown, false);
    status = faulty('one fault', 'another one');
    await terminal.shows('another one');
    status = { ...STATUS, objects: { services: 5, slices: 6 } };
    await terminal.shows('5 Services, 6 EndpointSlices');
    assert.doesNotMatch(terminal.screen.text, /fault|3 Services/, 'nothing of the former pictures');
    assert.equal(terminal.screen.text.match(/node-1/g)?.length, 1);
    terminal.type('\x03');
    assert.equal(await terminal.ended, 0);
    await terminal.shows('5 Services, 6 EndpointSlices');
    assert.equal(terminal.screen.isCursorShown, true);
  });

  it('says when the agent is gone, shows its last answer, and goes on when it is back', async () => {
    terminal = new Terminal(command());
    await terminal.shows('3 Services');
    stop();
    await terminal.shows(/^NO ANSWER since [\d:.]+, for \d+ s; asked again each second, Ctrl\+C ends\./);
    await terminal.shows(/\(nothing listens there\): start it, or\s+name\s+its address with --metrics-bind-address\n/);
    await terminal.shows(/The last answer, of .*:/);
    await terminal.shows('3 Services');
    status = { ...STATUS, objects: { services: 7, slices: 8 } };
    await listen(port);
    await terminal.shows('7 Services');
    assert.doesNotMatch(terminal.screen.text, /NO ANSWER/);
    isSilent = true;
    await terminal.shows('the agent has not answered for 5 s');
    terminal.type('\x03');
    assert.equal(await terminal.ended, 2);
    assert.equal(terminal.screen.isCursorShown, true);
  });

  it('fits a small window, also when it changes', async () => {
    status = faulty(...Array.from({ length: 20 }, (_, i) => `fault ${i}: ${'very '.repeat(20)}long`));
    terminal = new Terminal(command(), { rows: 12, columns: 40 });
    await terminal.shows(/… \d+ more lines/s);
    const fits = (rows: number, columns: number) => {
      const { lines } = terminal.screen;
      assert.ok(lines.length <= rows && lines.every((line) => line.length <= columns), terminal.screen.text);
      assert.match(lines[0] ?? '', /^slicewire 1\.2\.3 on node-1/);
    };
    fits(12, 40);
    terminal.resize(18, 60);
    await terminal.shows(/^slicewire 1\.2\.3 on node-1: nftables mode, IPv4, pid 4711/);
    await terminal.shows(/fault 2.*… \d+ more lines/s);
    fits(18, 60);
  });

  it('shows control characters of others as such', async () => {
    status = faulty('bad \x1b[2J\x1b[31mname\u009b2J');
    terminal = new Terminal(command());
    await terminal.shows('bad \ufffd[2J\ufffd[31mname\ufffd2J');
  });

  it('shows the cursor while Ctrl+Z stops it, and draws again when it goes on', async () => {
    terminal = new Terminal('bash --norc --noprofile -i', { env: { PS1: '> ' } });
    await terminal.shows('>');
    terminal.type(`clear; ${command()}\r`);
    await terminal.shows('Asked each second');
    terminal.type('\x1a');
    await terminal.shows('Stopped');
    assert.equal(terminal.screen.isCursorShown, true);
    status = { ...STATUS, objects: { services: 9, slices: 9 } };
    terminal.type('fg\r');
    await terminal.shows(/^slicewire.*9 Services/s);
    assert.doesNotMatch(terminal.screen.text, /Stopped/);
    terminal.type('\x03');
    await terminal.shows(/Ctrl\+C ends\.\n(\^C)?\n?>$/);
    assert.equal(terminal.screen.isCursorShown, true);
  });
});
