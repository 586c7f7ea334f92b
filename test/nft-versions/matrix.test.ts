/**
 * Every nft and iptables that Debian carries, on slicewire's rules (k8s#135705, k8s#136786): what docs/reference/nft-versions.md publishes is so. A
 * version that cannot be downloaded is skipped with the cause. One that the page does not have is asked, and its answers are told, but they
 * decide nothing: what Debian takes in must not break the tests of a commit.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, describe, it, type TestContext } from 'node:test';
import { webObjects } from '../helpers/cli/lab/web.ts';
import { Beside } from './beside.ts';
import { upstream, type Version } from './debian.ts';
import { YES } from './fact.ts';
import { type Column, Matrix, publishedAnswers, publishedVersions, writerLine } from './matrix.ts';
import { LOADS_OLDER, MISREADS } from './nft-facts.ts';

const PAGE = readFileSync(new URL('../../docs/reference/nft-versions.md', import.meta.url), 'utf8');
const PUBLISHED = publishedVersions(PAGE, 'nft');
const UNPUBLISHED =
  'docs/reference/nft-versions.md does not have it yet: run `npm run nft-versions` and commit the page';

const matrix = await Matrix.open();
after(() => matrix.close());
const { nftables, iptables, installed, missing } = matrix.versions;

describe('versions of nft and iptables on the rules of slicewire', () => {
  for (const version of nftables)
    it(nameOf('nft', version), (t) => check(t, 'nft', version.version, () => matrix.nft(version)));
  for (const version of iptables)
    it(nameOf('iptables', version), (t) => check(t, 'iptables', version.version, () => matrix.iptables(version)));
  for (const { suite, cause } of missing)
    it(`nft and iptables of ${suite}`, { skip: `they could not be downloaded: ${cause}` }, () => undefined);
});

/** Versions from 1.1 list what each other wrote. Only one that the page has is relied on. */
const isNew = ({ version }: Version) => upstream(version).localeCompare('1.1', 'en', { numeric: true }) >= 0;
const newest = nftables
  .filter((one) => isNew(one) && PUBLISHED.includes(one.version))
  .at(-1)
  ?.program('nft');
const skip = newest === undefined && 'no nft of docs/reference/nft-versions.md from 1.1 on could be had';

describe('an agent beside tables of a new nft, which older ones cannot list (k8s#136786)', { skip }, () => {
  let beside: Beside | undefined;
  let before: string;
  after(() => beside?.remove());
  const opened = () => beside ?? assert.fail('there are no tables of a new nft');

  it('syncs, verifies, explains, serves, and leaves them as they are', async (t) => {
    beside = await Beside.create(newest ?? assert.fail('there is no new nft'));
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

  it('does so though an nft before 1.1 ends at that ruleset', async (t) => {
    const older = nftables.filter((version) => !isNew(version));
    if (older.length === 0) return t.skip('no nft before 1.1 could be had');
    const lists = await Promise.all(older.map((version) => opened().isListedBy(version.program('nft'))));
    assert.deepEqual([...new Set(lists)], [false]);
  });

  it('takes over after a restart, and cleans up its own tables alone', async () => {
    const beside = opened();
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

async function check(t: TestContext, name: string, version: string, ask: () => Promise<Column>): Promise<void> {
  const published = publishedAnswers(PAGE, name, version);
  if (published === undefined || (name === 'iptables' && !PAGE.includes(writerLine(installed.iptables)))) {
    const told = await ask().then(({ answers }) => JSON.stringify(Object.fromEntries(answers)), String);
    t.skip(`${published === undefined ? UNPUBLISHED : 'the page is about rules of another iptables'}; ${told}`);
    return;
  }
  const { answers } = await ask();
  const expected = [...published].map(([title, answer]): [string, string] => {
    // Without an older version its list is not there to load.
    if (title === LOADS_OLDER && !hasAllBefore(version)) return [title, answers.get(title) ?? ''];
    if (answer === MISREADS && answers.get(title) === YES) return [title, YES];
    return [title, answer];
  });
  assert.deepEqual(Object.fromEntries(answers), Object.fromEntries(expected));
}

/** Whether each nft that the page has before this one could be had. */
function hasAllBefore(version: string): boolean {
  const had = nftables.map((one) => upstream(one.version));
  return PUBLISHED.slice(0, PUBLISHED.indexOf(version)).every((one) => had.includes(upstream(one)));
}
