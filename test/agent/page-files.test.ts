/** The files of the live page where the agent runs from a checkout. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { PAGE_ASSETS } from '../../scripts/executable/program.ts';
import { pageFiles } from '../../scripts/page.ts';
import { readPageFile } from '../../src/agent/page-files.ts';

describe('the page of a checkout', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'page-files-'));
  });
  after(async () => {
    await rm(folder, { recursive: true });
  });

  it('is built when somebody asks for it and it is missing, once for all who ask', async () => {
    const built = join(folder, 'dist/page');
    const files = await Promise.all(PAGE_ASSETS.map(async (name) => [name, await readPageFile(name, built)] as const));
    assert.deepEqual(new Map(files), await pageFiles());
    assert.deepEqual((await readdir(built)).toSorted(), PAGE_ASSETS.map((name) => `${name}.gz`).toSorted());
    // It stays as it is.
    await writeFile(join(built, 'page.html.gz'), 'mine');
    assert.equal(String(await readPageFile('page.html', built)), 'mine');
  });

  it('that cannot be built is missing, with what to do and the reason', async () => {
    const file = join(folder, 'file');
    await writeFile(file, '');
    await assert.rejects(readPageFile('page.html', join(file, 'page')), {
      message:
        /^the page is not built: run "node scripts\/page\.ts" in the folder of the sources.*\(.*not a directory/s,
    });
  });

  it('that could not be built is built again a minute later, and not at each request before', async () => {
    const built = join(folder, 'leads-nowhere');
    let now = 0;
    const read = () => readPageFile('page.html', built, () => now);
    // The file is missing, and the folder cannot be made.
    await symlink(join(folder, 'nowhere'), built);
    const said = await read().then(
      () => assert.fail('it was built'),
      (error: Error) => error.message,
    );
    await rm(built);
    now = 59_999;
    await assert.rejects(read(), { message: said });
    now = 60_000;
    assert.ok((await read()).length > 0);
  });
});
