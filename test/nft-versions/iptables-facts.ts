/** What the tools of an iptables version do with the rules of iptables mode, which the machine's own version wrote, and beside nftables mode. */
import type { Program, Version } from './debian.ts';
import { type Answer, allOf, answerOf, type Fact, YES } from './fact.ts';
import type { Place, Scene } from './scene.ts';

/** A version of iptables, and the machine's own. */
export interface AskedIptables {
  readonly scene: Scene;
  readonly version: Pick<Version, 'program'>;
}

type Variant = 'nft' | 'legacy';
const VARIANTS: readonly Variant[] = ['nft', 'legacy'];
const TOOLS = ['iptables', 'ip6tables'] as const;

export const IPTABLES_FACTS: readonly Fact<AskedIptables>[] = [
  ...VARIANTS.flatMap((variant): Fact<AskedIptables>[] => [
    { title: `iptables-${variant}-save, and -L of each table`, ask: (of) => saves(of, variant) },
    { title: `the list of iptables-${variant}-save has every match of every rule`, ask: (of) => showsAll(of, variant) },
    {
      title: `iptables-${variant}-restore loads that list, and the copy is the same`,
      ask: (of) => restores(of, variant),
    },
  ]),
  { title: 'iptables-nft-save beside nftables mode', ask: savesBeside },
  { title: 'iptables-nft adds and deletes a rule beside nftables mode, whose table stays as it is', ask: writesBeside },
];

/** One file has all tools of a variant; its first argument names the tool. */
const run = ({ scene, version }: AskedIptables, variant: Variant, place: Place, ...words: readonly string[]) =>
  scene.run(place, version.program(`xtables-${variant}-multi`), words);

async function saves(of: AskedIptables, variant: Variant): Promise<Answer> {
  const asks = TOOLS.flatMap((tool) => [
    [`${tool}-save`],
    [`${tool}-save`, '-c'],
    ...['filter', 'nat'].map((table) => [tool, '-t', table, '-n', '-v', '-L']),
    ...['filter', 'nat'].map((table) => [tool, '-t', table, '-S']),
  ]);
  return await allOf(
    ...asks.map((words) => async () => {
      const ran = await run(of, variant, variant, ...words);
      return /incompatible/.test(ran.out + ran.error) ? 'no: incompatible' : answerOf(ran);
    }),
  );
}

async function showsAll(of: AskedIptables, variant: Variant): Promise<Answer> {
  let [missing, all] = [0, 0];
  for (const tool of TOOLS) {
    const written = rulesIn(await of.scene.done(variant, [`${tool}-${variant}-save`]));
    const shown = new Set(rulesIn((await run(of, variant, variant, `${tool}-save`)).out));
    missing += written.filter((rule) => !shown.has(rule)).length;
    all += written.length;
  }
  if (missing === 0) return YES;
  return missing === all ? 'no' : 'leaves out matches of some rules, such as `--dport` and `--mark`';
}

async function restores(of: AskedIptables, variant: Variant): Promise<Answer> {
  const program = of.version.program(`xtables-${variant}-multi`);
  return await allOf(
    ...TOOLS.map((tool) => async () => {
      const { out } = await run(of, variant, variant, `${tool}-save`);
      const loaded = answerOf(await of.scene.runFile('copy', program, [`${tool}-restore`], out));
      if (loaded !== YES) return loaded;
      const copy = await run(of, variant, 'copy', `${tool}-save`);
      // The copy may have tables that only the place of the copy has.
      const isSame = tablesIn(out).every((table) => tablesIn(copy.out).includes(table));
      return isSame ? YES : 'loads it, and the copy differs';
    }),
  );
}

/** Its tables alone are listed; those of others are not its own. */
async function savesBeside(of: AskedIptables): Promise<Answer> {
  return await allOf(...TOOLS.map((tool) => async () => answerOf(await run(of, 'nft', 'ours', `${tool}-save`))));
}

async function writesBeside(of: AskedIptables): Promise<Answer> {
  const tables = async () => {
    const lists = ['ip', 'ip6'].map((family) => of.scene.done('ours', NFT, '-s', 'list', 'table', family, 'slicewire'));
    return (await Promise.all(lists)).join('');
  };
  const before = await tables();
  const rule = ['INPUT', '-p', 'tcp', '--dport', '9999', '-j', 'ACCEPT'];
  const answer = await allOf(
    ...TOOLS.flatMap((tool) =>
      ['-A', '-C', '-D'].map((verb) => async () => answerOf(await run(of, 'nft', 'ours', tool, verb, ...rule))),
    ),
  );
  if (answer !== YES) return answer;
  return (await tables()) === before ? YES : "slicewire's table is not what it was";
}

const NFT: Program = ['nft'];

/** Each table with its chains and rules, without counters. */
const tablesIn = (saved: string): string[] =>
  rulesIn(saved)
    .join('\n')
    .split(/^(?=\*)/m)
    .map((table) => table.trim());

/** Lines of rules and chains, without counters. */
function rulesIn(saved: string): string[] {
  return saved
    .split('\n')
    .filter((line) => /^[-:*]/.test(line))
    .map((line) => line.replace(/ \[\d+:\d+\]$/, '').trimEnd());
}
