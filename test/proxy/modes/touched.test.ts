/** The kernel's notices name what other programs touched: only that is read and repaired. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../../src/base/address.ts';
import type { ChainProbe } from '../../../src/kernel/chain-probe.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import type { NftElement, NftPart, NftTouched } from '../../../src/kernel/nftables-kernel.ts';
import { type Commit, tableKey } from '../../../src/kernel/ruleset-notices.ts';
import { driftText } from '../../../src/proxy/model/drift.ts';
import { iptablesMode } from '../../../src/proxy/modes/iptables/index.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { FakeNft } from '../../helpers/kernel/fake-nft.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { defaultSettings, fakeSysctls, Rig } from '../../helpers/proxy/rig.ts';

const BY = { pid: 4711, name: 'nft', startedBy: 'bash' };
const WEB = [
  service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
  slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: ['10.244.0.1'] }),
];

const UNTOUCHED: NftTouched = { isWhole: false, chains: new Set(), sets: new Set(), elements: new Map() };

/** nftables in memory whose notices a test gives. */
class TellingNft extends FakeNft {
  told: NftTouched | undefined = UNTOUCHED;

  touched(family: Family): Promise<NftTouched | undefined> {
    return Promise.resolve(family === 'IPv4' ? this.told : UNTOUCHED);
  }

  readPart(family: Family, { chains, elements, sets }: NftTouched): Promise<NftPart> {
    const table = this.tables.get(family) ?? assert.fail();
    const chainNow = (name: string) => {
      const found = table.chains.get(name);
      return found && { ...(found.hook === undefined ? {} : { hook: found.hook }), rules: found.rules };
    };
    const elementsNow = (set: string, keys: ReadonlySet<string>) =>
      new Map<string, NftElement | undefined>([...keys].map((key) => [key, table.sets.get(set)?.elements.get(key)]));
    return Promise.resolve({
      chains: new Map([...chains].map((name) => [name, chainNow(name)])),
      elements: new Map([...elements].map(([set, keys]) => [set, elementsNow(set, keys)])),
      sets: new Map([...sets].map((set) => [set, [...(table.sets.get(set)?.elements.values() ?? [])]])),
    });
  }
}

describe('what other programs touched, in nftables mode', () => {
  const made = async () => {
    const kernel = new TellingNft();
    const { rig } = nftRig({ kernel });
    rig.put(...WEB);
    assert.equal((await rig.sync()).outcome, 'complete');
    const services = kernel.tables.get('IPv4')?.sets.get('services')?.elements ?? assert.fail();
    const [key = ''] = services.keys();
    return { kernel, rig, services, key, reads: kernel.reads };
  };

  it('is read alone, and repaired', async () => {
    const { kernel, rig, services, key, reads } = await made();
    services.delete(key);
    kernel.told = {
      ...UNTOUCHED,
      chains: new Set(['refuse']),
      elements: new Map([['services', new Set([key])]]),
      by: BY,
    };
    assert.deepEqual(await rig.mode.probe.heard(), { kind: 'something', by: BY });
    rig.loop.distrust();
    const { drift, applied } = await rig.sync();
    assert.deepEqual([drift.length, applied], [1, 1]);
    assert.match(drift.map(driftText).join(), /^IPv4 services 10\.96\.0\.10 \. tcp \. 80/);
    // The other family was not touched, and is read as its generation says.
    assert.ok(kernel.reads - reads <= 1, `${kernel.reads - reads} tables were read`);
    assert.ok(kernel.tables.get('IPv4')?.sets.get('services')?.elements.has(key));
  });

  it('is a whole set where very many of its elements were touched, and no other set is read', async () => {
    const { kernel, rig, services, key, reads } = await made();
    services.clear();
    const other = 'x'.repeat(key.length);
    services.set(other, { key: other, end: '', data: 'drop' });
    kernel.told = { ...UNTOUCHED, sets: new Set(['services']), by: BY };
    assert.deepEqual(await rig.mode.probe.heard(), { kind: 'something', by: BY });
    rig.loop.distrust();
    const { drift, applied } = await rig.sync();
    assert.deepEqual([drift.length, applied], [2, 2]);
    assert.ok(kernel.reads - reads <= 1, `${kernel.reads - reads} tables were read`);
    assert.deepEqual([...(kernel.tables.get('IPv4')?.sets.get('services')?.elements.keys() ?? [])], [key]);
  });

  it('is nothing where they wrote elsewhere, all of the table where very much or a set of ranges was touched, and unknown where a notice was lost', async () => {
    const { kernel, rig } = await made();
    kernel.told = { ...UNTOUCHED, by: BY };
    assert.deepEqual(await rig.mode.probe.heard(), { kind: 'nothing', by: BY });
    kernel.told = { ...UNTOUCHED, elements: new Map([['source-ranges', new Set(['x'])]]) };
    assert.equal((await rig.mode.probe.heard()).kind, 'something');
    kernel.told = { ...UNTOUCHED, isWhole: true, by: BY };
    assert.deepEqual(await rig.mode.probe.heard(), { kind: 'something', by: BY });
    kernel.told = undefined;
    assert.equal((await rig.mode.probe.heard()).kind, 'unknown');
  });
});

describe('what other programs touched, in iptables mode', () => {
  const made = async () => {
    let generation = 7;
    const commits: Commit[] = [];
    let told = new Map<string, string>();
    /** Another program, right after a commit of ours. */
    const beside: (() => void)[] = [];
    const iptables = new FakeIptables({
      onCommit: () => {
        generation += 1;
        const now = new Map([...(iptables.kernels.IPv4.get('nat') ?? [])].map(([name, rules]) => [name, rules.join()]));
        const changed = [...told.keys(), ...now.keys()].filter((name) => told.get(name) !== now.get(name));
        told = now;
        const touched = { ...UNTOUCHED, chains: new Set(changed) };
        commits.push({ ...BY, name: 'us', generation, port: 2, tables: new Map([[tableKey('IPv4', 'nat'), touched]]) });
        beside.shift()?.();
      },
    });
    const probe: ChainProbe = {
      hasChain: () => Promise.resolve(true),
      state: () => Promise.resolve({ kind: 'ruleset', generation }),
      commits: (from, to) => {
        const found = commits.filter((commit) => commit.generation > from && commit.generation <= to);
        return Promise.resolve(found.length === to - from ? found : undefined);
      },
    };
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    const mode = iptablesMode([{ tools, probe, sysctls: fakeSysctls(), settings: defaultSettings('IPv4') }]);
    const rig = new Rig({ commands: iptables, mode });
    rig.put(...WEB);
    assert.equal((await rig.sync()).outcome, 'complete');
    const before = iptables.save('IPv4');
    const nat = iptables.kernels.IPv4.get('nat') ?? assert.fail();
    const writes = (table: string, ...all: (string | Partial<Commit>)[]) => {
      generation += 1;
      const chains = new Set(all.filter((one) => typeof one === 'string'));
      const more = all.find((one) => typeof one !== 'string');
      const touched = { ...UNTOUCHED, chains };
      commits.push({ ...BY, ...more, generation, port: 1, tables: new Map([[tableKey('IPv4', table), touched]]) });
    };
    const saves = () => iptables.ran.filter(({ file }) => file.endsWith('-save')).length;
    const skips = () => {
      generation += 1;
    };
    return { rig, iptables, nat, before, writes, saves, skips, beside };
  };

  it('are chains and jumps, which are read alone and repaired', async () => {
    const { rig, iptables, nat, before, writes, saves } = await made();
    const read = saves();
    nat.get('KUBE-POSTROUTING')?.shift();
    nat.get('PREROUTING')?.splice(0);
    writes('nat', 'KUBE-POSTROUTING', 'PREROUTING');
    assert.equal((await rig.mode.probe.heard()).kind, 'something');
    rig.loop.distrust();
    const { drift, outcome } = await rig.sync();
    assert.equal(outcome, 'complete');
    assert.deepEqual(drift.map(driftText).toSorted(), [
      'IPv4 nat KUBE-POSTROUTING (1 rule gone)',
      'IPv4 nat PREROUTING to KUBE-SERVICES (gone)',
    ]);
    assert.equal(iptables.save('IPv4'), before);
    assert.equal(saves(), read);
    assert.equal((await rig.mode.probe.heard()).kind, 'nothing');
  });

  it('are nothing of ours where they wrote other chains, also right before a write of ours', async () => {
    const { rig, writes, saves } = await made();
    const read = saves();
    writes('nat', 'DOCKER');
    writes('somebodys', 'PREROUTING');
    rig.put(slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: ['10.244.0.2'] }));
    assert.equal((await rig.sync()).outcome, 'complete');
    assert.equal(await rig.mode.probe.mayDiffer(), false);
    assert.equal(saves(), read);
  });

  it('are the order of our jumps in a built-in chain, which is read with it and repaired', async () => {
    const { rig, iptables, before, writes, saves } = await made();
    const read = saves();
    const forward = iptables.kernels.IPv4.get('filter')?.get('FORWARD') ?? assert.fail();
    assert.ok(forward.length > 1);
    forward.reverse();
    writes('filter', 'FORWARD');
    assert.equal((await rig.mode.probe.heard()).kind, 'something');
    rig.loop.distrust();
    const { drift, outcome } = await rig.sync();
    assert.deepEqual([outcome, drift.map(({ kind, name }) => `${kind} ${name}`)], ['complete', ['order FORWARD']]);
    assert.equal(iptables.save('IPv4'), before);
    assert.equal(saves(), read);
    assert.equal((await rig.mode.probe.heard()).kind, 'nothing');
  });

  it('are told by the name of who touched a chain of ours, not of who has rules in a built-in chain', async () => {
    const { rig, writes } = await made();
    writes('nat', 'KUBE-POSTROUTING');
    writes('nat', 'PREROUTING', { name: 'dockerd' });
    assert.equal((await rig.mode.probe.heard()).by?.name, 'nft');
  });

  for (const when of ['right before', 'during'] as const) {
    it(`are found where they wrote chains of ours ${when} a write of ours, and read alone`, async () => {
      const { rig, iptables, writes, saves, beside } = await made();
      const read = saves();
      const flush = () => {
        iptables.kernels.IPv4.get('nat')?.get('KUBE-POSTROUTING')?.splice(0);
        writes('nat', 'KUBE-POSTROUTING');
      };
      if (when === 'during') beside.push(flush);
      else flush();
      rig.put(slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: ['10.244.0.2'] }));
      assert.equal((await rig.sync()).outcome, 'complete');
      // A neighbour who touches nothing of ours does not hide who did.
      writes('somebodys', 'PREROUTING');
      const heard = await rig.mode.probe.heard();
      assert.deepEqual([heard.kind, heard.by?.name], ['something', 'nft']);
      rig.loop.distrust();
      const { drift, outcome } = await rig.sync();
      assert.deepEqual([outcome, drift.length], ['complete', 1]);
      assert.match(drift.map(driftText).join(), /^IPv4 nat KUBE-POSTROUTING \(\d+ rules gone\)$/);
      assert.equal(saves(), read);
      assert.equal((await rig.mode.probe.heard()).kind, 'nothing');
    });
  }

  it('are very many chains that are as before (iptables -Z): no drift, and a Service whose update was refused is served as before', async () => {
    const { rig, iptables, nat, writes } = await made();
    for (let n = 1; n <= 20; n++) {
      rig.put(
        service({ name: `web-${n}`, spec: { clusterIP: `10.96.1.${n}`, ports: [{ port: 80 }] } }),
        slice({ name: `web-${n}-1`, service: `web-${n}`, endpoints: [`10.244.1.${n}`] }),
      );
    }
    assert.equal((await rig.sync()).outcome, 'complete');
    const { onCommit } = iptables.options;
    const refuse = (line: string) => line.includes('10.244.9.9');
    iptables.options = onCommit === undefined ? { refuse } : { onCommit, refuse };
    rig.put(slice({ name: 'web-2-1', service: 'web-2', endpoints: ['10.244.9.9'] }));
    assert.equal((await rig.sync()).outcome, 'partial');
    const served = iptables.save('IPv4');
    writes('nat', ...nat.keys());
    assert.equal((await rig.mode.probe.heard()).kind, 'something');
    rig.loop.distrust();
    assert.deepEqual((await rig.sync()).drift, []);
    assert.equal(iptables.save('IPv4'), served);
    rig.remove('Service', 'default/web-2').remove('EndpointSlice', 'default/web-2-1');
    await rig.sync();
    assert.doesNotMatch(iptables.save('IPv4'), /10\.244\.1\.2:8080/);
  });

  it('are unknown where a transaction was not heard, or a chain of ours that nobody wants', async () => {
    const { rig, writes, skips } = await made();
    writes('nat', 'KUBE-SVC-AAAAAAAAAAAAAAAA');
    assert.equal((await rig.mode.probe.heard()).kind, 'something');
    rig.loop.distrust();
    await rig.sync();
    skips();
    assert.equal((await rig.mode.probe.heard()).kind, 'unknown');
  });
});
