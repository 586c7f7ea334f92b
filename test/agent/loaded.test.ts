/** What `slicewire run` loads before anybody asks it anything: an agent at rest keeps all of it in memory, on every node. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { importsOf, sourceFiles } from '../../scripts/imports.ts';

/** The files that are loaded with one, directly or not. */
function loadedWith(file: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(file)) return loaded;
  loaded.add(file);
  for (const { to, isTypeOnly, isLate } of importsOf(file)) {
    if (to.endsWith('.ts') && !isTypeOnly && !isLate) loadedWith(to, loaded);
  }
  return loaded;
}

describe('an agent that nobody asks', () => {
  const loaded = loadedWith('src/main.ts');

  it('loads no schema of answers or recordings, no explanation and no replay', () => {
    assert.ok(
      loaded.has('src/inspect/history/recorder.ts') && loaded.has('src/serve/query-handler.ts'),
      'its parts are found',
    );
    const schemas = [...loaded].filter(
      (file) => /^src\/inspect\/(wire|history)\//.test(file) && importsOf(file).some(({ to }) => to === 'zod'),
    );
    assert.deepEqual(schemas, []);
    const asked = [...loaded].filter((file) =>
      /^src\/(inspect\/explain\/(?!nearest)|inspect\/replay\/|cli\/lab\/)/.test(file),
    );
    assert.deepEqual(asked, []);
  });

  it('loads nothing of the page, of the plugin of kubectl, of a watched status, or of packages that only these need', () => {
    const unneeded =
      /^src\/(?:web\/|cli\/(?:kubectl\/(?!plugin-name)|demo\/(?!scene)|(?:watch|questions|complete|controller)\.ts))/;
    assert.deepEqual(
      [...loaded].filter((file) => unneeded.test(file)),
      [],
    );
    const packages = [...loaded].flatMap((file) =>
      importsOf(file).filter(({ isTypeOnly, isLate }) => !isTypeOnly && !isLate),
    );
    const late = /^(?:zod|ws|log-update|preact.*|uplot|pino-pretty|@kubernetes\/client-node)$/;
    assert.ok(
      packages.some(({ to }) => to === 'commander'),
      'packages are found',
    );
    assert.deepEqual(
      packages.filter(({ to }) => late.test(to)),
      [],
    );
  });

  it('loads no data about languages, which take 8 MB', () => {
    const text = (file: string) => readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8');
    const uses = sourceFiles('src').filter((file) => /toLocale\w*\(|\bIntl\.|localeCompare\(/.test(text(file)));
    assert.deepEqual(uses, []);
  });
});
