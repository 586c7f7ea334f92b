/**
 * What `nft` lists of the table, `nft` loads: people save their firewall by `nft list ruleset > file` and load it at boot, and one
 * table that does not load leaves a node without any of it.
 *
 * With the machine's nft, and with others that NFT_PROGRAMS names (paths, a colon between).
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Cidr, FAMILIES, type Family } from '../../src/base/address.ts';
import { type Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { SETS } from '../../src/proxy/modes/nftables/table-layout.ts';
import { cluster } from '../conformance/cluster.ts';
import { NFTABLES, nftablesSettingsOf } from '../conformance/nftables.ts';
import { STORIES } from '../conformance/stories/index.ts';
import { isTestedIn } from '../conformance/suite.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';
import { nftablesUnderTest } from './nftables-under-test.ts';
import { type RealStory, realStories, sendStory, storyLab } from './story-packets.ts';

const PROGRAMS = ['nft', ...(process.env.NFT_PROGRAMS ?? '').split(':').filter((path) => path !== '')];
/** Nobody asks for an address of it. */
const SERVICE_CIDR: Readonly<Record<Family, Cidr>> = { IPv4: '10.97.0.0/16' as Cidr, IPv6: 'fd00:97::/64' as Cidr };
const PATIENCE = { silence: 400, answer: 2500 };
const STICKY = '10.96.0.77';
/** Kinds of chains that are made of Services. */
const KINDS = new Set(
  ['cluster-ip', 'cluster-ip-local', 'external', 'node-port', 'no-endpoints', 'refuse', 'source-ranges'].concat(
    ['external', 'node-port'].flatMap((entry) => [`${entry}-pods`, `${entry}-here`, `${entry}-local`]),
  ),
);
/** Chains of this kind: without the numbers of endpoints and the names of Services that they are for. */
const kindOf = (chain: string) => chain.replace(/(-of)?(-\d+)+$/, '').replace(/-[a-z2-7]{16}$/, '');

describe('what nft lists, nft loads', () => {
  const namespaces = [1, 2].map((n) => `sw${process.pid}-list-${n}`) as [string, string];
  let folder: string;
  let kernel: NftNetlink;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    for (const name of namespaces) await done('ip', 'netns', 'add', name);
    kernel = new NftNetlink(transportsIn(namespaces[0]));
  });
  after(async () => {
    kernel.close();
    for (const name of namespaces) await done('ip', 'netns', 'delete', name);
    await rm(folder, { recursive: true });
  });

  const inside = (i: 0 | 1, ...words: string[]) => done('ip', 'netns', 'exec', namespaces[i], ...words);

  for (const nft of PROGRAMS) {
    it(`${nft}: every story's table, and the copy lists as the original`, async () => {
      const file = join(folder, 'ruleset.nft');
      const seen = new Set<string>();
      for (const one of tables()) {
        await write(kernel, one);
        const list = await inside(0, nft, 'list', 'ruleset');
        if (seen.has(list)) continue;
        seen.add(list);
        await writeFile(file, `flush ruleset\n${list}`);
        await inside(1, nft, '-f', file);
        assert.equal(await inside(1, nft, 'list', 'ruleset'), list, one.story.title);
      }
      assert.ok(seen.size > 50, `${seen.size} tables`);
      assert.match([...seen].join(), /chain cluster-ip-sticky-/);
    });
  }
});

describe('a table that was listed, deleted and loaded does the same to real packets', () => {
  let lab: Lab;
  let folder: string;
  let mode: ReturnType<typeof nftablesUnderTest>;
  const seen = { sets: new Set<string>(), chains: new Set<string>() };
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    lab = await storyLab();
    mode = nftablesUnderTest(lab, PATIENCE, (family) => ({
      serviceCidrs: [SERVICE_CIDR[family]],
      countsConnections: true,
    }));
  });
  after(async () => {
    mode.close();
    await lab.remove();
    await rm(folder, { recursive: true });
  });

  /** Save the firewall and load it, as at a boot. */
  async function reload(): Promise<void> {
    const file = join(folder, 'ruleset.nft');
    const list = await lab.exec('node', 'nft', 'list', 'ruleset');
    await writeFile(file, list);
    await lab.exec('node', 'nft', 'flush', 'ruleset');
    await lab.exec('node', 'nft', '-f', file);
    note(list, seen);
  }

  for (const { name, story, family } of realStories(NFTABLES).filter(isChosen)) {
    it(name, () => sendStory(lab, { ...mode, onSynced: reload }, { story, family }));
  }

  it('these were tables with every map and set in use, and every kind of chain', () => {
    const idle = Object.values(SETS).map(({ name }) => name);
    assert.deepEqual(
      idle.filter((name) => !seen.sets.has(name)),
      [],
    );
    assert.deepEqual(KINDS.difference(seen.chains), new Set());
  });

  it('a client with affinity stays where it was', async () => {
    const endpoints = [1, 2].map((n) => ({ addresses: [podAddress(n).v4], nodeName: 'node' }));
    const rig = await mode.open({ objects: [], packets: [] }, 'IPv4');
    const spec = { clusterIP: STICKY, sessionAffinity: 'ClientIP', ports: [{ port: 80 }] };
    rig.put(service({ name: 'sticky', spec }), slice({ name: 'sticky-1', service: 'sticky', endpoints }));
    assert.equal((await rig.sync()).outcome, 'complete');
    const ask = () => lab.ask('pod-3', { address: STICKY, port: 80, timeout: PATIENCE.answer });
    const first = await ask();
    await reload();
    for (let i = 0; i < 8; i++) {
      const again = await ask();
      assert.ok(first.outcome === 'reply' && again.outcome === 'reply' && again.by === first.by, JSON.stringify(again));
    }
  });
});

type StoryInFamily = Pick<RealStory, 'story' | 'family'>;

/** Every story of IPv4, and of IPv6 one for each field of the API. */
function tables(): StoryInFamily[] {
  const all = FAMILIES.flatMap((family) =>
    STORIES.filter((story) => isTestedIn(story, family)).map((story) => ({ story, family })),
  );
  return all.filter((one) => one.family === 'IPv4' || isFirst(one, all));
}

function isFirst({ story, family }: StoryInFamily, all: readonly StoryInFamily[]): boolean {
  return all.find((other) => other.story.field === story.field && other.family === family)?.story === story;
}

/** The first story of each field of the API, in either family, and of one family those that lead to chains of every kind. */
function isChosen(one: StoryInFamily, _: number, all: readonly StoryInFamily[]): boolean {
  const { story, family } = one;
  const hasMore = /externalTrafficPolicy/.test(story.field) || story.id === 'ranges-let-in';
  return (family === 'IPv4' && hasMore) || isFirst(one, all);
}

/** Sets that hold something, and chains. */
function note(list: string, { sets, chains }: { sets: Set<string>; chains: Set<string> }): void {
  for (const [, name = ''] of list.matchAll(/^\t(?:map|set) (\S+) \{\n(?:\t\t(?!elements).*\n)*\t\telements = /gm))
    sets.add(name);
  for (const [, name = ''] of list.matchAll(/^\tchain (\S+) \{/gm)) chains.add(kindOf(name));
}

async function write(kernel: NftNetlink, { story, family }: StoryInFamily): Promise<void> {
  const first = story.tell(cluster(family));
  const families = FAMILIES.map((each) => nftablesSettingsOf(each, each === family ? (first.settings ?? {}) : {}));
  const rig = new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel }) });
  const { outcome, failed } = await rig.become(first).sync();
  assert.equal(outcome, 'complete', JSON.stringify(failed));
}

async function done(file: string, ...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await shellCommands.run({ file, args }, NEVER);
  assert.equal(exitCode, 0, `${file} ${args.join(' ')}: ${stderr}`);
  return stdout;
}
