/** `slicewire completion`: bash, zsh and fish themselves, with the script that they are given. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { SCRIPTS, SHELLS } from '../../src/cli/commands/completion.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { Terminal } from '../helpers/cli/terminal.ts';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'slicewire-completion-'));
const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder };
let agent: Server;
let asked: string[] = [];
let port = 0;

before(async () => {
  const program = join(folder, 'slicewire');
  writeFileSync(program, `#!/bin/sh\nexec ${SLICEWIRE.map((word) => `'${word}'`).join(' ')} "$@"\n`);
  chmodSync(program, 0o755);
  mkdirSync(join(folder, 'configs'));
  writeFileSync(join(folder, 'configs', 'node one.yaml'), '');
  writeFileSync(join(folder, 'unlike'), '');
  for (const shell of SHELLS) writeFileSync(join(folder, `completion.${shell}`), SCRIPTS[shell]);
  const row = (service: string) => ({
    service,
    type: 'ClusterIP',
    addresses: [],
    ports: [],
    endpoints: 1,
    state: 'served',
    why: '',
  });
  agent = createServer(({ url = '' }, response) => {
    asked.push(url);
    const by = { who: 'agent', mode: 'nftables', node: 'n', version: '1', at: '2026-01-01T00:00:00.000Z' };
    const rows = [row('shop/web'), row('other/shop'), row('shop/$(touch owned)')];
    const head = { apiVersion: 'slicewire/v1', kind: 'Services' };
    response.end(JSON.stringify({ ...head, by, search: 'shop', total: 3, offset: 0, rows }));
  });
  await new Promise<void>((resolve) => agent.listen(0, '127.0.0.1', resolve));
  port = (agent.address() as AddressInfo).port;
});

after(() => {
  agent.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What a person types before Tab, and what the line is then. */
const LINES: readonly (readonly [string, string, string])[] = [
  ['a command', 'slicewire expl', 'slicewire explain '],
  ['a flag', 'slicewire plan --hostname-ov', 'slicewire plan --hostname-override '],
  ['a value', 'slicewire plan --mode nft', 'slicewire plan --mode nftables '],
  ['a value after =', 'slicewire plan --mode=nft', 'slicewire plan --mode=nftables '],
  ['a word that goes on', 'slicewire explain node sv', 'slicewire explain node svc/'],
  ['a word with a colon', 'slicewire explain node node', 'slicewire explain node nodeport:'],
  ['a file', 'slicewire plan --config configs/n', 'slicewire plan --config configs/node\\ one.yaml '],
  ['a file after =', 'slicewire plan --config=configs/n', 'slicewire plan --config=configs/node\\ one.yaml '],
  ['a folder', 'slicewire run --record-dir conf', 'slicewire run --record-dir configs/'],
  ['a shell', 'slicewire completion fi', 'slicewire completion fish '],
];

const SETUP = {
  bash: { start: 'bash --norc --noprofile -i', load: 'source completion.bash' },
  zsh: { start: 'zsh -f -i', load: 'autoload -Uz compinit; compinit -D; source ./completion.zsh' },
} as const;

for (const shell of ['bash', 'zsh'] as const) {
  describe(shell, () => {
    it('completes what is typed, on a terminal', async () => {
      const { start, load } = SETUP[shell];
      const terminal = new Terminal(start, { columns: 150, rows: 40, env: { ...env, PS1: '> ' }, cwd: folder });
      try {
        await terminal.shows('>');
        terminal.type(`${load}; echo lo''aded\r`);
        await terminal.shows(/loaded\n>$/);
        const more = `slicewire explain node --metrics-bind-address=127.0.0.1:${port} svc/shop/w`;
        for (const [what, typed, line] of [...LINES, ['a Service', more, `${more}eb `] as const]) {
          terminal.type(`${typed}\t`);
          await terminal.shows(`> ${line.trimEnd()}`).catch((error) => assert.fail(`${what}: ${error}`));
          // A word that goes on has no blank after it: the mark shows where the cursor is.
          terminal.type('+');
          await terminal.shows(`> ${line}+`).catch((error) => assert.fail(`${what}: ${error}`));
          terminal.type('\x15\x0c');
          await terminal.shows(/^>$/);
        }
        terminal.type('exit\r');
        await terminal.ended;
      } finally {
        await terminal.close();
      }
      assert.ok(
        asked.some((url) => url.startsWith('/services?search=shop%2Fw')),
        asked.join(' '),
      );
    });
  });
}

describe('fish', () => {
  const ask = async (line: string) => {
    const script = `source completion.fish; complete -C '${line}'`;
    const { stdout } = await run('fish', ['--no-config', '-c', script], {
      env: { ...process.env, ...env },
      cwd: folder,
    });
    return stdout.split('\n').filter((text) => text !== '');
  };

  it('completes what is typed', async () => {
    for (const [what, typed, line] of LINES) {
      const word = line
        .slice(typed.lastIndexOf(' ') + 1)
        .replaceAll('\\ ', ' ')
        .trimEnd();
      const found = (await ask(typed)).map((text) => text.split('\t')[0]);
      assert.deepEqual(found, [word], what);
    }
  });

  it('shows what a word means, and offers names of Services that are names alone', async () => {
    assert.deepEqual(await ask('slicewire stat'), [
      "status\tshow the agent's status: health, source, last syncs, faults",
    ]);
    asked = [];
    const found = await ask(`slicewire history --metrics-bind-address 127.0.0.1:${port} shop`);
    assert.deepEqual(found, ['shop/web\tClusterIP, served']);
    assert.deepEqual(asked, ['/services?search=shop&limit=500']);
  });

  it('offers nothing where no agent answers', async () => {
    assert.deepEqual(await ask('slicewire history --metrics-bind-address 127.0.0.1:1 shop'), []);
  });
});
