/** Asks an `nft` the questions of docs/reference/nft-versions.md about slicewire's table, in their order, because the last ones delete the table. */
import assert from 'node:assert/strict';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import { startChild } from '../../src/kernel/commands.ts';
import { SETS } from '../../src/proxy/modes/nftables/table-layout.ts';
import { until } from '../helpers/base/until.ts';
import type { Program } from './debian.ts';
import { type Answer, allOf, answerOf, CRASHES, type Fact, YES } from './fact.ts';
import type { Place, Scene } from './scene.ts';

/** A version of nft, and what it is asked about. */
export interface AskedNft {
  readonly scene: Scene;
  readonly nft: Program;
  /** The machine's own. */
  readonly installed: Program;
  /** Rules of both families. */
  readonly rules: number;
  /** What each older version listed, by version. */
  readonly older: ReadonlyMap<string, string>;
}

const TABLE: Readonly<Record<Family, string>> = { IPv4: 'ip slicewire', IPv6: 'ip6 slicewire' };
const TABLES = FAMILIES.map((family) => TABLE[family]);
/** A client that affinity remembers: packets add such elements. */
const CLIENT: Readonly<Record<Family, string>> = { IPv4: '192.0.2.77', IPv6: '2001:db8::77' };
/** The last thing that a monitor is to print. */
const END = 'add table ip the-end';

/** A range whose end nft has read from memory that it had freed. */
const FREED = /-0x-?[0-9a-f]{40}/;
const OWN_RANGES = `table ip own {
  set ranges {
    type ipv4_addr . inet_service
    flags interval
    elements = { 10.0.0.0/8 . 1, 10.1.0.0/16 . 2, 10.2.0.0/16 . 3, 10.3.0.0/16 . 4 }
  }
}
`;

/** The table as the agent writes it, and in the memories of clients an element each. */
export async function writeRich({ scene, installed }: Pick<AskedNft, 'scene' | 'installed'>): Promise<void> {
  await emptied({ scene, installed }, 'ours');
  await scene.writeTable('ours');
  const list = await scene.done('ours', installed, 'list', 'ruleset');
  const elements = FAMILIES.flatMap((family) =>
    objectsIn(list, TABLE[family])
      .filter((object) => object.includes(' affinity-'))
      .map((object) => `add element ${object.replace(/^set /, '')} { ${CLIENT[family]} timeout 3h }`),
  );
  assert.ok(elements.length > 0);
  await scene.done('ours', installed, elements.join('\n'));
}

/** The only fact that depends on which other versions could be had. */
export const LOADS_OLDER = 'loads what older versions listed';
/** What a monitor prints of freed memory is now and then right by chance. */
export const MISREADS: Answer = 'may crash or print nonsense at ranges in a concatenation, also of its own sets';

export const NFT_FACTS: readonly Fact<AskedNft>[] = [
  { title: '`nft list`: the ruleset, tables, maps, sets and chains, with every option', ask: lists },
  { title: 'the list has every rule, and each is more than its comment', ask: showsRules },
  { title: '`nft -j list ruleset` is JSON with every rule', ask: listsJson },
  { title: '`nft get element` finds elements of maps, sets and ranges', ask: getsElements },
  { title: '`nft monitor` follows the writes of slicewire', ask: monitors },
  { title: '`nft -f` loads what it lists, and the copy is the same', ask: (of) => loadsOwn(of, []) },
  { title: 'the agent finds nothing to do in the copy', ask: isKnown },
  {
    title: '`nft -c -f` accepts the list in place of the table (`flush ruleset` or `delete table` first)',
    ask: checks,
  },
  { title: 'the same over the table', ask: checksOver },
  { title: '`nft -j -f` loads what `nft -j` lists', ask: (of) => loadsOwn(of, ['-j']) },
  { title: LOADS_OLDER, ask: loadsOlder },
  { title: 'lists the rules of iptables mode (variant nft)', ask: listsIptables },
  { title: "`nft -f` makes, replaces and deletes somebody's table beside", ask: writesBeside },
  { title: 'deletes elements, empties maps and chains, deletes the table', ask: deletes },
];

const run = ({ scene, nft }: AskedNft, place: Place, ...words: readonly string[]) => scene.run(place, nft, words);
const asked = async (of: AskedNft, place: Place, ...words: readonly string[]) =>
  answerOf(await run(of, place, ...words));

async function lists(of: AskedNft): Promise<Answer> {
  const whole = [[], ['-a'], ['-s'], ['-t'], ['-n'], ['-j'], ['-j', '-a']];
  const list = await of.scene.done('ours', of.installed, 'list', 'ruleset');
  const objects = TABLES.flatMap((table) => objectsIn(list, table)).filter((object) => !/-[a-z2-7]{16}$/.test(object));
  const tables = TABLES.map((table) => `table ${table}`);
  const what = [...tables, 'tables', 'sets', 'maps', 'chains', ...objects];
  return await allOf(
    ...whole.map((options) => () => asked(of, 'ours', ...options, 'list', 'ruleset')),
    ...what.map((object) => () => asked(of, 'ours', 'list', ...object.split(' '))),
  );
}

/** `map ip slicewire services`, … of each object in a listing. */
function objectsIn(list: string, table: string): string[] {
  const [, text = ''] = list.split(`table ${table} {\n`);
  const own = text.slice(0, text.indexOf('\n}'));
  return [...own.matchAll(/^\t(map|set|chain) (\S+) \{/gm)].map(([, kind, name]) => `${kind} ${table} ${name}`);
}

async function showsRules(of: AskedNft): Promise<Answer> {
  const { out } = await run(of, 'ours', 'list', 'ruleset');
  const rules = out.match(/^\t\t.* comment ".* \[[0-9a-f]{6}\]"$/gm)?.length ?? 0;
  const strange = out.match(/^.*(unknown|invalid type|\[ ).*$/m);
  if (strange !== null) return `no: ${strange[0].trim()}`;
  return rules === of.rules ? YES : `no: ${rules} of ${of.rules}`;
}

async function listsJson(of: AskedNft): Promise<Answer> {
  const { out } = await run(of, 'ours', '-j', 'list', 'ruleset');
  const { nftables } = JSON.parse(out) as { nftables: readonly { rule?: { expr: readonly object[] } }[] };
  const rules = nftables.filter(({ rule }) => rule !== undefined && rule.expr.length > 0).length;
  return rules === of.rules ? YES : `no: ${rules} of ${of.rules}`;
}

async function getsElements(of: AskedNft): Promise<Answer> {
  const elements = [
    `${TABLE.IPv4} ${SETS.services.name} { 10.96.0.1 . tcp . 80 }`,
    `${TABLE.IPv4} ${SETS.endpoints.name} { 10.96.0.1 . tcp . 80 . 0 }`,
    `${TABLE.IPv4} ${SETS.sourceRanges.name} { 198.51.100.1 . tcp . 80 . 10.244.1.7 }`,
    `${TABLE.IPv6} ${SETS.hairpin.name} { fd00:244:1::11 . fd00:244:1::11 }`,
  ];
  return await allOf(...elements.map((element) => () => asked(of, 'ours', `get element ${element}`)));
}

async function monitors(of: AskedNft): Promise<Answer> {
  if (await hears(of, () => of.scene.writeTable('copy'))) return YES;
  const isOurs = await hears(of, () => of.scene.runFile('copy', of.nft, ['-f'], OWN_RANGES));
  return isOurs ? CRASHES : MISREADS;
}

/** Whether nft's monitor prints what is done in a namespace without tables, to its end. */
async function hears(of: AskedNft, act: () => Promise<unknown>): Promise<boolean> {
  await emptied(of, 'copy');
  const lines: string[] = [];
  let hasEnded = false;
  const monitor = startChild({ ...of.scene.inside('copy', of.nft, 'monitor'), onLine: (line) => lines.push(line) });
  const ended = monitor.ended.then(() => {
    hasEnded = true;
  });
  // It hears what is written after its socket is open.
  for (let i = 0; lines.length === 0 && !hasEnded; i++) await run(of, 'copy', `add table ip probe-${i}`);
  await act();
  await run(of, 'copy', END);
  await until('the end of what nft monitor prints', () => lines.includes(END) || hasEnded);
  await monitor.stop();
  await ended;
  return lines.includes(END) && !lines.some((line) => FREED.test(line));
}

async function loadsOwn(of: AskedNft, options: readonly string[]): Promise<Answer> {
  await emptied(of, 'copy');
  const { out } = await run(of, 'ours', ...options, 'list', 'ruleset');
  return await loads(of, out, options, async () => (await run(of, 'ours', '-s', 'list', 'ruleset')).out);
}

async function loads(
  of: AskedNft,
  text: string,
  options: readonly string[],
  original: () => Promise<string>,
): Promise<Answer> {
  const loaded = answerOf(await of.scene.runFile('copy', of.nft, [...options, '-f'], text));
  if (loaded !== YES) return loaded;
  const copy = await run(of, 'copy', '-s', 'list', 'ruleset');
  if (answerOf(copy) !== YES) return `loads it, and lists the copy: ${answerOf(copy)}`;
  return copy.out === (await original()) ? YES : 'loads it, and the copy differs';
}

/** Of the copy that was loaded last. */
async function isKnown(of: AskedNft): Promise<Answer> {
  const tables = await of.scene.done('copy', of.nft, 'list', 'tables');
  if (tables === '') return 'there is no copy';
  const steps = await of.scene.writeTable('copy');
  return steps === 0 ? YES : `no: ${steps} steps`;
}

/** As people write such files: with the deletion of what is there. */
async function checks(of: AskedNft): Promise<Answer> {
  const { out } = await run(of, 'ours', 'list', 'ruleset');
  const deleted = TABLES.map((table) => `table ${table}\ndelete table ${table}\n`).join('');
  const texts = [`flush ruleset\n${out}`, deleted + out];
  return await allOf(
    ...texts.map((text) => async () => answerOf(await of.scene.runFile('ours', of.nft, ['-c', '-f'], text))),
  );
}

/** Without the deletion. */
async function checksOver(of: AskedNft): Promise<Answer> {
  const { out } = await run(of, 'ours', 'list', 'ruleset');
  return answerOf(await of.scene.runFile('ours', of.nft, ['-c', '-f'], out));
}

async function loadsOlder(of: AskedNft): Promise<Answer> {
  const failed: string[] = [];
  for (const [version, list] of of.older) {
    await emptied(of, 'copy');
    const answer = await loads(of, list, [], async () => (await run(of, 'ours', '-s', 'list', 'ruleset')).out);
    if (answer !== YES) failed.push(version);
  }
  if (of.older.size === 0) return 'there is none';
  return failed.length === 0 ? YES : `not of ${failed.join(', ')}`;
}

/** It warns that these tables belong to iptables-nft. */
async function listsIptables(of: AskedNft): Promise<Answer> {
  const { status } = await run(of, 'nft', 'list', 'ruleset');
  return answerOf({ status, out: '', error: '' });
}

async function writesBeside(of: AskedNft): Promise<Answer> {
  const before = await of.scene.done('ours', of.installed, '-s', 'list', 'ruleset');
  const chain = 'chain input { type filter hook input priority 10; tcp dport @ports counter accept; }';
  const table = `table ip somebodys {\n set ports { type inet_service; elements = { 22, 80 }; }\n ${chain}\n}\n`;
  const texts = [table, `delete table ip somebodys\n${table}`, 'delete table ip somebodys\n'];
  const answer = await allOf(
    ...texts.map((text) => async () => answerOf(await of.scene.runFile('ours', of.nft, ['-f'], text))),
  );
  if (answer !== YES) return answer;
  const isSame = (await of.scene.done('ours', of.installed, '-s', 'list', 'ruleset')) === before;
  return isSame ? YES : "slicewire's table is not what it was";
}

async function deletes(of: AskedNft): Promise<Answer> {
  const commands = [
    `delete element ${TABLE.IPv4} ${SETS.endpoints.name} { 10.96.0.1 . tcp . 80 . 0 }`,
    `delete element ${TABLE.IPv6} ${SETS.services.name} { fd00:96::1 . tcp . 80 }`,
    `flush map ${TABLE.IPv4} ${SETS.services.name}`,
    `flush set ${TABLE.IPv6} ${SETS.sourceRanges.name}`,
    `flush chain ${TABLE.IPv4} services`,
    ...TABLES.map((table) => `flush table ${table}`),
    ...TABLES.map((table) => `delete table ${table}`),
  ];
  const answer = await allOf(...commands.map((command) => () => asked(of, 'ours', command)));
  if (answer !== YES) return answer;
  const left = await of.scene.done('ours', of.installed, 'list', 'tables');
  return left === '' ? YES : `leaves ${left.trim()}`;
}

/** By the machine's own nft: the copy may be one that nobody else can delete. */
async function emptied({ scene, installed }: Pick<AskedNft, 'scene' | 'installed'>, place: Place): Promise<void> {
  await scene.done(place, installed, 'flush', 'ruleset');
}
