/**
 * Every nft and iptables that Debian carries, on slicewire's rules (k8s#135705, k8s#136786): what docs/nft-versions.md publishes is so. A
 * version that cannot be downloaded is skipped with the cause; the machine's own is always asked.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, describe, it, type TestContext } from 'node:test';
import { webObjects } from '../helpers/web.ts';
import { Beside } from './beside.ts';
import type { Version } from './debian.ts';
import { type Answer, YES } from './fact.ts';
import { type Column, Matrix, publishedAnswers } from './matrix.ts';

const PAGE = readFileSync(new URL('../../docs/nft-versions.md', import.meta.url), 'utf8');
/** A version that is newer than the page has to do everything that the newest one on the page does. */
const UNPUBLISHED = 'docs/nft-versions.md does not have it yet: run `npm run nft-versions` and commit the page';

const matrix = await Matrix.open();
after(() => matrix.close());
const { nftables, iptables, missing } = matrix.versions;

describe('versions of nft and iptables on the rules of slicewire', () => {
  for (const version of nftables) it(nameOf('nft', version), async (t) => check(t, 'nft', await matrix.nft(version)));
  for (const version of iptables)
    it(nameOf('iptables', version), async (t) => check(t, 'iptables', await matrix.iptables(version)));
  for (const { suite, cause } of missing)
    it(`nft and iptables of ${suite}`, { skip: `they could not be downloaded: ${cause}` }, () => undefined);
});

describe('an agent beside tables of the newest nft, which older ones cannot list (k8s#136786)', () => {
  const newest = nftables.at(-1)?.program('nft') ?? assert.fail('there is no nft');
  let beside: Beside;
  let before: string;
  after(() => beside.remove());

  it('syncs, verifies, explains, serves, and leaves them as they are', async (t) => {
    beside = await Beside.create(newest);
    const refused = await beside.writeForeign();
    t.diagnostic(`this kernel or nft does not know: ${refused.join(', ')}`);
    assert.ok(refused.length < 8, refused.join(', '));
    before = await beside.foreign();
    await beside.scene.start('nftables');
    await beside.isServed();
    await beside.scene.apply('web', ...webObjects([2], { hasOther: false }));
    await beside.isServed();
    assert.equal(await beside.foreign(), before);
  });

  it('does so where the nft of the node ends at that ruleset', async () => {
    const lists = await Promise.all(nftables.map((version) => beside.isListedBy(version.program('nft'))));
    assert.ok(lists.at(-1), 'the newest nft lists what it wrote');
    if (nftables.length > 1) assert.ok(lists.includes(false), 'an older nft fails');
  });

  it('takes over after a restart, and cleans up its own tables alone', async () => {
    await beside.scene.start('nftables');
    await beside.isServed();
    assert.equal((await beside.ownTables()).length, 2);
    await beside.scene.stop('nftables');
    const { status, text } = await beside.scene.slicewire('cleanup');
    assert.equal(status, 0, text);
    assert.deepEqual(await beside.ownTables(), []);
    assert.equal(await beside.foreign(), before);
  });
});

describe('the page of versions', () => {
  it('has a version that does everything but what no nft does', () => {
    const answers = publishedAnswers(PAGE, 'nft', '1.1.7-3') ?? assert.fail('it does not have nft 1.1.7');
    const others = [...answers].filter(([, answer]) => answer !== YES).map(([title]) => title);
    assert.deepEqual(others, [
      'the same over the table',
      '`nft -j -f` loads what `nft -j` lists',
      'loads what older versions listed',
    ]);
  });

  it('has no version that does not list the table', () => {
    const rows = PAGE.split('\n').filter((line) => line.startsWith('| `nft list`'));
    assert.match(rows.join('\n'), /^\| [^|]*( \| yes)+ \|$/);
  });
});

function nameOf(program: string, { version, suites }: Version): string {
  return `${program} ${version} (${suites.length === 0 ? 'of this machine' : suites.join(', ')})`;
}

function check(t: TestContext, name: string, { version, answers }: Column): void {
  const published = publishedAnswers(PAGE, name, version.version);
  if (published !== undefined) {
    assert.deepEqual(Object.fromEntries(answers), Object.fromEntries(published));
    return;
  }
  t.diagnostic(`${name} ${version.version}: ${UNPUBLISHED}`);
  const bad = [...answers.values()].filter((answer: Answer) => answer.startsWith('crashes'));
  assert.deepEqual(bad, []);
}
