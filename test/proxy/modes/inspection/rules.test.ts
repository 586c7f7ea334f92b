/** The inspection of iptables mode: views, and a kernel that was changed behind the mode's back. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Comparison, ObjectDifference } from '../../../../src/proxy/modes/inspection.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { NEVER, Rig } from '../../../helpers/proxy/rig.ts';
import { plain, put, synced } from './objects.ts';

type Kernel = Map<string, string[]>;

async function running(): Promise<{ rig: Rig; nat: Kernel; filter: Kernel; commands: FakeIptables }> {
  const commands = new FakeIptables();
  const rig = new Rig({ commands, families: ['IPv4'] });
  put(rig);
  await synced(rig);
  const tables = () => commands.kernels.IPv4;
  const [nat, filter] = [tables().get('nat') ?? new Map(), tables().get('filter') ?? new Map()];
  return { rig, nat, filter, commands };
}

/** The only difference. */
function only({ differences }: Comparison): ObjectDifference {
  assert.equal(differences.length, 1, JSON.stringify(differences, undefined, 1));
  return differences[0] ?? assert.fail();
}

/** The chain whose rules match. */
function chainWith(kernel: Kernel, pattern: RegExp): [string, string[]] {
  return [...kernel].find(([, rules]) => rules.some((rule) => pattern.test(rule))) ?? assert.fail(String(pattern));
}

describe('the inspection of iptables mode', () => {
  it('has nothing to say before the first reading, but what is desired', async () => {
    const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
    assert.deepEqual(rig.mode.inspection.believed(), []);
    assert.equal(await rig.mode.inspection.isCertain(), false);
    assert.deepEqual(
      rig.mode.inspection.desired().map(({ rules }) => rules?.chain('nat', 'PREROUTING')?.length),
      [1],
    );
  });

  it('believes, desires and reads the same after a sync', async () => {
    const { rig, nat, filter } = await running();
    const { inspection } = rig.mode;
    const names = [
      ...[...nat.keys()].map((name) => ['nat', name] as const),
      ...[...filter.keys()].map((name) => ['filter', name] as const),
    ];
    const [believed, desired, read] = [inspection.believed(), inspection.desired(), await inspection.read(NEVER)].map(
      ([view]) => plain(view ?? assert.fail(), { chains: names }),
    );
    assert.deepEqual(believed, read);
    assert.deepEqual(desired, read);
    const [forward] = inspection.believed();
    assert.deepEqual(
      forward?.rules?.chain('filter', 'FORWARD')?.map(({ text }) => text),
      filter.get('FORWARD'),
    );
    assert.equal(forward?.rules?.chain('nat', 'KUBE-NONE'), undefined);
    const { differences, compared, lastWriter } = await inspection.compare(NEVER);
    assert.deepEqual(differences, []);
    assert.ok(compared > names.length, String(compared));
    assert.equal(lastWriter, undefined);
  });

  it('reads the policies of built-in chains', async () => {
    const { rig, commands } = await running();
    commands.policies.set('FORWARD', 'DROP');
    const [view] = await rig.mode.inspection.read(NEVER);
    assert.equal(view?.rules?.policy('FORWARD'), 'drop');
    assert.equal(view?.rules?.policy('INPUT'), 'accept');
  });

  it('names a rule that is gone, with its Service', async () => {
    const { rig, nat } = await running();
    const [name, rules] = chainWith(nat, /-j DNAT --to-destination 10\.244\.1\.12:8080/);
    const gone = rules.pop() ?? '';
    const difference = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual(difference, {
      family: 'IPv4',
      object: `nat chain ${name}`,
      owner: 'shop/web',
      kind: 'changed',
      wanted: [gone],
      found: [],
      because: undefined,
      isRepaired: true,
    });
  });

  it('names the Service of a changed line in a shared chain', async () => {
    const { rig, nat } = await running();
    const [name, rules] = chainWith(nat, /-d 10\.96\.0\.20\/32/);
    const at = rules.findIndex((rule) => rule.includes('-d 10.96.0.20/32'));
    const wanted = rules[at] ?? '';
    rules[at] = wanted.replace('--dport 80', '--dport 81');
    const difference = only(await rig.mode.inspection.compare(NEVER));
    assert.equal(difference.object, `nat chain ${name}`);
    assert.equal(difference.owner, 'shop/web');
    assert.deepEqual([difference.wanted, difference.found], [[wanted], [rules[at]]]);
  });

  it('tells the same rules in another order from other rules', async () => {
    const { rig, nat } = await running();
    const [, rules] = chainWith(nat, /--probability/);
    rules.reverse();
    const { kind, wanted, found, owner } = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual({ kind, wanted, found, owner }, { kind: 'order', wanted: [], found: [], owner: 'shop/web' });
  });

  it('names a chain that is missing, and one that nobody wants', async () => {
    const { rig, nat } = await running();
    nat.set('KUBE-SVC-FOREIGNFOREIGN00', ['-j ACCEPT']);
    nat.set('SOMEBODYS', ['-j ACCEPT']);
    const foreign = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual(
      { kind: foreign.kind, object: foreign.object, found: foreign.found },
      { kind: 'foreign', object: 'nat chain KUBE-SVC-FOREIGNFOREIGN00', found: ['-j ACCEPT'] },
    );
    nat.delete('KUBE-SVC-FOREIGNFOREIGN00');
    nat.delete('KUBE-MARK-MASQ');
    const missing = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([missing.kind, missing.object], ['missing', 'nat chain KUBE-MARK-MASQ']);
  });

  it('names jumps that are gone, foreign, or in another order', async () => {
    const { rig, nat, filter } = await running();
    const jumps = nat.get('PREROUTING') ?? assert.fail();
    const [jump = ''] = jumps.splice(0, 1);
    const gone = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual(
      [gone.kind, gone.object, gone.wanted],
      ['missing', 'nat chain PREROUTING, jump to KUBE-SERVICES', [jump]],
    );
    jumps.push(jump, '-p tcp -j KUBE-SERVICES');
    const foreign = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([foreign.kind, foreign.found], ['foreign', ['-p tcp -j KUBE-SERVICES']]);
    jumps.pop();
    filter.get('FORWARD')?.reverse();
    const misplaced = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([misplaced.kind, misplaced.object], ['order', 'filter chain FORWARD, jumps']);
    assert.deepEqual([misplaced.because, misplaced.isRepaired], [undefined, true]);
  });

  it('does not mind where the jump to a chain stands that the kubelet shares', async () => {
    const { rig, filter } = await running();
    for (const chain of ['INPUT', 'OUTPUT']) {
      const rules = filter.get(chain) ?? assert.fail();
      const at = rules.findIndex((rule) => rule.endsWith('-j KUBE-FIREWALL'));
      assert.ok(at >= 0 && rules.length > 1);
      const [shared = ''] = rules.splice(at, 1);
      rules.splice(at === 0 ? rules.length : 0, 0, shared);
    }
    assert.deepEqual((await rig.mode.inspection.compare(NEVER)).differences, []);
  });

  it('says what is not written yet', async () => {
    const { rig } = await running();
    rig.put(...newService());
    await rig.loop.plan(NEVER);
    const { differences } = await rig.mode.inspection.compare(NEVER);
    assert.ok(differences.some(({ kind, owner }) => kind === 'missing' && owner === 'default/new'));
    assert.deepEqual(new Set(differences.map(({ because }) => because)), new Set(['not written yet']));
  });

  it('says what the kernel refuses', async () => {
    const { rig, commands } = await running();
    commands.options = { ...commands.options, refuse: (line) => line.includes('10.244.1.14') };
    rig.put(...newService());
    const { outcome } = await rig.sync();
    assert.equal(outcome, 'partial');
    const { differences } = await rig.mode.inspection.compare(NEVER, new Set(['default/new', 'IPv4 nat KUBE-HAIRPIN']));
    assert.ok(differences.length > 0);
    assert.deepEqual(
      differences.filter(({ because }) => because !== 'refused by the kernel'),
      [],
    );
  });

  it('throws when the rules cannot be read', async () => {
    const { rig, commands } = await running();
    const broken = { exitCode: 1, stdout: '', stderr: 'broken' };
    commands.options = { ...commands.options, intercept: ({ file }) => (file.endsWith('-save') ? broken : undefined) };
    await assert.rejects(rig.mode.inspection.compare(NEVER), /iptables-save failed .* broken/);
    await assert.rejects(rig.mode.inspection.read(NEVER), /iptables-save failed/);
    assert.equal(rig.mode.inspection.believed().length, 1);
  });
});

function newService(): object[] {
  return [
    service({ name: 'new', spec: { clusterIP: '10.96.0.50', ports: [{ port: 80 }] } }),
    slice({ name: 'new-1', service: 'new', endpoints: ['10.244.1.14'] }),
  ];
}
