/** The manual pages: two readers of them find nothing wrong, and they have what --help has. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { manPages } from '../../scripts/man-pages.ts';
import { programOf } from '../../src/cli/command-line.ts';
import { COMMANDS } from '../../src/cli/commands/command-table.ts';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'slicewire-man-'));
const pages = manPages('2026-11-23');
const files = [...pages.keys()].map((file) => join(folder, file));

describe('the manual pages', () => {
  before(() => {
    for (const [file, text] of pages) writeFileSync(join(folder, file), text);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('are one for the program and one for each command', () => {
    const shown = COMMANDS.filter(({ isHidden }) => !isHidden).map(({ name }) => `slicewire-${name}.8`);
    assert.deepEqual([...pages.keys()], ['slicewire.8', ...shown]);
  });

  it('are free of faults for mandoc and groff', async () => {
    await run('mandoc', ['-T', 'lint', '-W', 'warning', ...files]);
    for (const file of files) {
      const { stderr } = await run('groff', ['-man', '-ww', '-z', '-Tascii', file]);
      assert.equal(stderr, '');
    }
  });

  it('would not be, with a fault', async () => {
    const file = join(folder, 'wrong.8');
    writeFileSync(file, `${pages.get('slicewire.8')}.NOSUCH\n.SH\n`);
    await assert.rejects(run('mandoc', ['-T', 'lint', '-W', 'warning', file]));
    assert.match((await run('groff', ['-man', '-ww', '-z', '-Tascii', file])).stderr, /NOSUCH/);
  });

  it('have every flag and every sentence of the help', async () => {
    const program = programOf(async () => undefined);
    const read: string[] = [];
    assert.ok(program.commands.filter(({ options }) => options.length > 0).length > 10);
    for (const command of program.commands) {
      const file = `slicewire-${command.name()}.8`;
      if (!pages.has(file)) continue;
      read.push(file);
      const { stdout } = await run('mandoc', ['-T', 'ascii', '-O', 'width=400', join(folder, file)]);
      const page = plain(stdout);
      const shown = command.options.filter(({ hidden }) => !hidden);
      for (const { long, description } of shown) {
        assert.ok(page.includes(`${long}`), `${file}: ${long}`);
        assert.ok(page.includes(plain(description)), `${file}: ${description}`);
      }
      assert.ok(page.includes(plain(command.summary())), `${file}: its summary`);
    }
    assert.deepEqual(['slicewire.8', ...read].sort(), [...pages.keys()].sort());
  });

  it('have the commands by subject', async () => {
    const { stdout } = await run('mandoc', ['-T', 'ascii', join(folder, 'slicewire.8')]);
    for (const { name, subject, isHidden = false } of COMMANDS) {
      assert.equal(plain(stdout).includes(`slicewire-${name}(8)`), !isHidden, name);
      assert.ok(plain(stdout).includes(subject));
    }
  });
});

/** Without bold and underlined letters, which are written over, and with single blanks. */
function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a backspace
  return text.replace(/.\x08/g, '').replaceAll('…', '...').replace(/\s+/g, ' ');
}
