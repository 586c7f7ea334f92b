/** Stories of inspection.test.ts, run inside an empty network namespace: the mode writes, real tools change the kernel behind its back. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { type Address, FAMILIES } from '../../src/base/address.ts';
import { openRules, rulesProbe } from '../../src/kernel/chain-probe.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { IptablesTools } from '../../src/kernel/iptables-tools.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import { RulesetJournal } from '../../src/kernel/ruleset-journal.ts';
import type { ModeInspection } from '../../src/proxy/modes/inspection.ts';
import { iptablesMode } from '../../src/proxy/modes/iptables/index.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { cluster } from '../conformance/cluster.ts';
import { nftablesSettingsOf } from '../conformance/nftables.ts';
import { STORIES } from '../conformance/stories/index.ts';
import { isTestedIn } from '../conformance/suite.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { nftSettings } from '../helpers/proxy/nft-rig.ts';
import { defaultSettings, fakeSysctls, NEVER, Rig } from '../helpers/proxy/rig.ts';
import { plain, put, synced } from '../proxy/modes/inspection/objects.ts';

const CLIENT = '10.244.1.7' as Address;

async function done(file: string, ...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await shellCommands.run({ file, args }, NEVER);
  assert.equal(exitCode, 0, `${file} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

/** Differences in a few words, each with its Service. */
async function differences(inspection: ModeInspection): Promise<string[]> {
  const { differences: found } = await inspection.compare(NEVER);
  return found.map(({ kind, object, owner, because }) => [kind, object, owner ?? '-', because ?? ''].join(' | '));
}

async function nftables(): Promise<void> {
  const kernel = new NftNetlink();
  const mode = nftablesMode({ families: FAMILIES.map(nftSettings), kernel, keep: 0 });
  const rig = new Rig({ commands: new FakeIptables(), mode });
  put(rig);
  await synced(rig);
  const { inspection } = mode;
  const list = await done('nft', 'list', 'table', 'ip', 'slicewire');
  const names = {
    tableChains: [...list.matchAll(/^\tchain (\S+) \{/gm)].map(([, name = '']) => name),
    sets: [...list.matchAll(/^\t(?:set|map) (\S+) \{/gm)].map(([, name = '']) => name),
  };
  assert.ok(names.tableChains.length > 10 && names.sets.length > 10);
  const viewed = (views: readonly Parameters<typeof plain>[0][]) => views.map((view) => plain(view, names));
  const read = viewed(await inspection.read(NEVER));
  assert.deepEqual(viewed(inspection.believed()), read);
  assert.deepEqual(viewed(inspection.desired()), read);
  assert.deepEqual(await differences(inspection), []);
  assert.equal(await inspection.isCertain(), true);
  assert.equal((await inspection.compare(NEVER)).lastWriter?.isUs, true);

  await done('nft', 'delete', 'element', 'ip', 'slicewire', 'services', '{ 10.96.0.20 . tcp . 80 }');
  assert.equal(await inspection.isCertain(), false);
  assert.deepEqual(await differences(inspection), ['missing | services 10.96.0.20 . tcp . 80 | shop/web | ']);
  const { lastWriter } = await inspection.compare(NEVER);
  assert.deepEqual([lastWriter?.name, lastWriter?.isUs], ['nft', false]);
  await mode.observe(NEVER);
  rig.loop.distrust();
  await synced(rig);
  assert.deepEqual(await differences(inspection), []);
  assert.equal((await inspection.compare(NEVER)).lastWriter?.isUs, true);

  const chain = await done('nft', '-a', 'list', 'chain', 'ip', 'slicewire', 'services');
  const [, comment = '', handle = ''] = /comment "(addresses of Services [^"]*)" # handle (\d+)/.exec(chain) ?? [];
  const rule = ['ip', 'protocol', 'tcp', 'counter', 'accept', 'comment', `"${comment}"`];
  await done('nft', 'replace', 'rule', 'ip', 'slicewire', 'services', 'handle', handle, ...rule);
  await done('nft', 'add', 'chain', 'ip', 'slicewire', 'theirs');
  const { differences: found } = await inspection.compare(NEVER);
  assert.deepEqual(
    found.map(({ kind, object }) => `${kind} ${object}`),
    ['changed chain services', 'foreign chain theirs'],
  );
  assert.match(found[0]?.found.join() ?? '', /^addresses of Services \[\w+\]: .*; count; accept$/);

  const memory = names.sets.find((name) => name.startsWith('affinity-')) ?? assert.fail('no memory');
  await done('nft', 'add', 'element', 'ip', 'slicewire', memory, `{ ${CLIENT} timeout 100s }`);
  const seconds = (await inspection.remembered('IPv4', { lists: [memory], destinations: [] }, CLIENT)).get(memory) ?? 0;
  assert.ok(seconds > 90 && seconds <= 100, String(seconds));
  assert.equal(
    (await inspection.remembered('IPv4', { lists: [memory], destinations: [] }, '10.244.1.8' as Address)).size,
    0,
  );
  kernel.close();
}

/** Every rule of every story: what was written is what is read. */
async function rules(): Promise<void> {
  const kernel = new NftNetlink();
  const seen = new Set<string>();
  for (const family of FAMILIES) {
    for (const story of STORIES.filter((one) => isTestedIn(one, family))) {
      const first = story.tell(cluster(family));
      const families = FAMILIES.map((each) => nftablesSettingsOf(each, each === family ? (first.settings ?? {}) : {}));
      const mode = nftablesMode({ families, kernel, keep: 0 });
      const rig = new Rig({ commands: new FakeIptables(), mode });
      assert.equal((await rig.become(first).sync()).outcome, 'complete');
      const waiting = await mode.inspection.compare(NEVER);
      assert.deepEqual(
        waiting.differences.filter(({ because }) => because === undefined),
        [],
        story.title,
      );
      seen.add(`${family} ${waiting.compared}`);
    }
  }
  assert.ok(seen.size > 20, String(seen.size));
  kernel.close();
}

async function iptables(backend: 'nft' | 'legacy'): Promise<void> {
  const members = [];
  const notices = new RulesetJournal();
  for (const family of FAMILIES) {
    const tools = new IptablesTools(realCommands, family, backend);
    await tools.version(NEVER);
    const probe = rulesProbe({ tools, onProblem: (text) => assert.fail(text), open: openRules, notices });
    members.push({ tools, probe, sysctls: fakeSysctls(), settings: defaultSettings(family) });
  }
  const mode = iptablesMode(members);
  const rig = new Rig({ commands: realCommands, mode });
  put(rig);
  await synced(rig);
  assert.equal(await mode.probe.isInstalled(NEVER), true);
  notices.listen();
  const { inspection } = mode;
  const tool = (...args: string[]) => done(`iptables-${backend}`, ...args);
  const saved = await done(`iptables-${backend}-save`);
  const chainsIn = (table: 'nat' | 'filter') =>
    [...(saved.split(`*${table}\n`)[1]?.split('COMMIT')[0] ?? '').matchAll(/^:(\S+) /gm)].map(
      ([, name = '']) => [table, name] as const,
    );
  const names = { chains: [...chainsIn('nat'), ...chainsIn('filter')] };
  const viewed = (views: readonly Parameters<typeof plain>[0][]) => views.map((view) => plain(view, names));
  const read = viewed(await inspection.read(NEVER));
  assert.deepEqual(viewed(inspection.believed()), read);
  assert.deepEqual(viewed(inspection.desired()), read);
  assert.deepEqual(await differences(inspection), []);
  assert.equal(await inspection.isCertain(), true);

  const rule =
    saved.split('\n').find((line) => /^-A .* -j DNAT .*10\.244\.1\.12:8080/.test(line)) ?? assert.fail(saved);
  await tool('-t', 'nat', ...words(rule.replace('-A', '-D')));
  assert.equal(await inspection.isCertain(), false);
  const { differences: found, lastWriter } = await inspection.compare(NEVER);
  const chain = rule.split(' ')[1];
  assert.deepEqual(
    found.map(({ kind, object, owner }) => [kind, object, owner]),
    [['changed', `nat chain ${chain}`, 'shop/web']],
  );
  assert.deepEqual(found[0]?.wanted, [rule.slice(`-A ${chain} `.length)]);
  if (backend === 'nft') assert.deepEqual([lastWriter?.name, lastWriter?.isUs], ['iptables-nft', false]);
  else assert.equal(lastWriter, undefined);
  rig.loop.distrust();
  await synced(rig);
  assert.deepEqual(await differences(inspection), []);
  if (backend === 'nft') assert.equal((await inspection.compare(NEVER)).lastWriter?.isUs, true);

  const [, list = ''] = /--rcheck --seconds 10800 .*?--name (\S+) /.exec(saved) ?? assert.fail(saved);
  await writeFile(`/proc/net/xt_recent/${list}`, `+${CLIENT}\n`);
  const seconds = (await inspection.remembered('IPv4', { lists: [list], destinations: [] }, CLIENT)).get(list) ?? 0;
  assert.ok(seconds > 10_790 && seconds <= 10_800, String(seconds));
  assert.equal(
    (await inspection.remembered('IPv4', { lists: [list], destinations: [] }, '10.244.1.8' as Address)).size,
    0,
  );
  for (const { probe } of members) probe.close();
  notices.close();
}

/** The words of a line of iptables-save. */
function words(line: string): string[] {
  return (line.match(/"(?:\\.|[^"])*"|\S+/g) ?? []).map((word) => word.replace(/^"(.*)"$/, '$1'));
}

const WHAT: Readonly<Record<string, () => Promise<void>>> = {
  nftables,
  rules,
  'iptables-nft': () => iptables('nft'),
  'iptables-legacy': () => iptables('legacy'),
};
await (WHAT[process.argv[2] ?? ''] ?? assert.fail('no such story'))();
process.exit(0);
