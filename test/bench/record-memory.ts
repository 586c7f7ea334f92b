/**
 * Memory of an agent that records (--record-dir) while endpoints change all the time: a line each so many seconds, until the history is
 * full and for as long again. `node test/bench/record-memory.ts --per-second 200 --minutes 20` measures it; 20 a second fill the history in
 * about ten times as long. Nothing is asserted: docs/explain.md has the figures.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { residentMemory } from './process-cost.ts';
import { Trial } from './trial.ts';

const { values } = parseArgs({
  options: {
    services: { type: 'string', default: '1000' },
    endpoints: { type: 'string', default: '5' },
    'per-second': { type: 'string', default: '200' },
    minutes: { type: 'string', default: '20' },
    every: { type: 'string', default: '15' },
    size: { type: 'string', default: '64Mi' },
    mode: { type: 'string', default: 'nftables' },
    executable: { type: 'boolean', default: false },
    unrecorded: { type: 'boolean', default: false },
  },
});

const MEGABYTE = 2 ** 20;
const perSecond = Number(values['per-second']);
const every = Number(values.every);
const mode = values.mode === 'iptables' ? 'iptables' : 'nftables';
const shape = { services: Number(values.services), endpoints: Number(values.endpoints) };
const folder = mkdtempSync(join(tmpdir(), 'slicewire-record-memory-'));
const recording = values.unrecorded ? [] : ['--record-dir', folder, '--record-size', values.size];

interface Status {
  readonly history: { readonly bytes: number };
}

const folderBytes = () => readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
const mb = (bytes: number) => (bytes / MEGABYTE).toFixed(1);

try {
  await Trial.of({ shape, mode, isSource: !values.executable, flags: recording }, async (trial) => {
    const { pid } = await trial.start();
    const start = performance.now();
    process.stdout.write('seconds changes anonymous-MB resident-MB history-MB folder-MB\n');
    for (let turn = 1, changes = 0; performance.now() - start < Number(values.minutes) * 60_000; turn++) {
      await trial.server.churn({ perSecond, seconds: every, turn });
      changes += perSecond * every;
      const { anonymous, now } = residentMemory(pid);
      const text = await trial.lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/status');
      const { bytes } = (JSON.parse(text) as Status).history;
      const seconds = Math.round((performance.now() - start) / 1000);
      process.stdout.write(`${seconds} ${changes} ${mb(anonymous)} ${mb(now)} ${mb(bytes)} ${mb(folderBytes())}\n`);
      await pause(0);
    }
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
