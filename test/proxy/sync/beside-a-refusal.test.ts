/** Beside a Service that the kernel refuses the others are served, and what waits for it does not count as written. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type IpvsKernel, KernelError } from '../../../src/kernel/ipvs-kernel.ts';
import type { NftElement, NftWrite } from '../../../src/kernel/nftables-kernel.ts';
import { writtenChanges } from '../../../src/proxy/ledger/change-ledger.ts';
import type { ApplyReport } from '../../../src/proxy/reconcile/step.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import type { FakeNft } from '../../helpers/kernel/fake-nft.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const SHARED = '192.0.2.1';
const BAD = '10.244.2.1';

interface Web {
  readonly n: number;
  readonly endpoint: string;
  readonly spec?: object;
}

const web = (name: string, { n, endpoint, spec = {} }: Web) => [
  service({ name, spec: { clusterIP: `10.96.0.${n}`, ports: [{ port: 80 }], ...spec } }),
  slice({ name: `${name}-1`, service: name, endpoints: [{ addresses: [endpoint], nodeName: 'other' }] }),
];
const OLD = { n: 1, endpoint: '10.244.0.1', spec: { externalIPs: [SHARED] } };

/** The Services that do not count as written, because they are refused or wait; undefined: none counts. */
function unwritten(report: ApplyReport): readonly string[] | undefined {
  const { hasWritten, without } = writtenChanges(report);
  return hasWritten ? [...without.keys()].sort() : undefined;
}

const bytes = (address: string) => String.fromCharCode(...address.split('.').map(Number));

// Each mode with the Service `old`, in a kernel that refuses from then on each endpoint `BAD`.

async function oldInIptables() {
  const kernel = new FakeIptables();
  const rig = new Rig({ commands: kernel, families: ['IPv4'], retry: 3_600_000 });
  await servesOld(rig);
  kernel.options = { refuse: (line) => line.includes(`--to-destination ${BAD}:`) };
  return { rig, kernel };
}

async function oldInIpvs() {
  const { rig, kernel } = ipvsRig({ families: ['IPv4'] });
  await servesOld(rig);
  kernel.options = { ...kernel.options, intercept: refusesBad };
  return { rig, kernel };
}

async function oldInNftables() {
  const { rig, kernel } = nftRig({ families: ['IPv4'] });
  await servesOld(rig);
  const refuses = (_: NftWrite, element: NftElement | undefined) =>
    element?.data.startsWith(bytes(BAD)) === true ? 'EINVAL: invalid argument' : undefined;
  kernel.options = { ...kernel.options, refuses };
  return { rig, leads: (address: string) => clusterIPs(kernel).includes(bytes(address)) };
}

async function servesOld(rig: Rig): Promise<void> {
  rig.put(...web('old', OLD));
  assert.equal((await rig.sync()).outcome, 'complete');
}

function clusterIPs(kernel: FakeNft): string[] {
  return [...(kernel.tables.get('IPv4')?.sets.get('services')?.elements.keys() ?? [])].map((key) => key.slice(0, 4));
}

describe('a frontend that goes from one Service to another, of which the kernel refuses one', () => {
  it('nftables mode: the former Service, whose rules stand, does not count as deleted', async () => {
    const { rig, leads } = await oldInNftables();
    rig.remove('Service', 'default/old').remove('EndpointSlice', 'default/old-1');
    rig.put(...web('new', { n: 2, endpoint: BAD, spec: OLD.spec }));
    const report = await rig.sync();
    assert.equal(leads('10.96.0.1'), true);
    assert.deepEqual(unwritten(report), ['default/new', 'default/old']);
  });

  const givenAway = [
    service({ name: 'old', spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] } }),
    slice({ name: 'old-1', service: 'old', endpoints: [BAD] }),
  ];
  const NEW = web('new', { n: 2, endpoint: '10.244.3.1', spec: OLD.spec });

  it('nftables mode: the next Service, which is not served yet, does not count as written', async () => {
    const { rig, leads } = await oldInNftables();
    const report = await rig.put(...givenAway, ...NEW).sync();
    assert.equal(leads('10.96.0.2'), false);
    assert.deepEqual(unwritten(report), ['default/new', 'default/old']);
  });

  it('iptables mode: the next Service does not count as written while the first rule is that of the former one, also in later syncs', async () => {
    const { rig, kernel } = await oldInIptables();
    rig.put(...givenAway, ...NEW);
    for (let n = 1; n <= 2; n++) {
      assert.deepEqual(unwritten(await rig.sync()), ['default/new', 'default/old']);
      const [first] = kernel
        .save('IPv4')
        .split('\n')
        .filter((line) => line.includes(`${SHARED}/32`));
      assert.match(first ?? '', /default\/old/);
    }
  });

  it('iptables mode: the same where the rules of the next one come into other chains', async () => {
    const { rig } = await oldInIptables();
    rig.put(...givenAway, ...NEW);
    for (let n = 3; n <= 80; n++)
      rig.put(...web(`web-${n}`, { n, endpoint: `10.244.0.${n}`, spec: { externalIPs: [`192.0.2.${n}`] } }));
    for (let n = 1; n <= 2; n++) assert.deepEqual(unwritten(await rig.sync()), ['default/new', 'default/old']);
  });

  it('IPVS mode: the former Service, whose endpoint stands, does not count as deleted', async () => {
    const { rig, kernel } = await oldInIpvs();
    rig.remove('Service', 'default/old').remove('EndpointSlice', 'default/old-1');
    const report = await rig.put(...web('new', { n: 2, endpoint: BAD, spec: OLD.spec })).sync();
    assert.equal(kernel.virtual.get(`TCP ${SHARED}:80`)?.destinations.size, 1);
    assert.deepEqual(unwritten(report), ['default/new', 'default/old']);
  });

  it('IPVS mode: the next Service has no endpoints of the former one', async () => {
    const { rig, kernel } = await oldInIpvs();
    const report = await rig.put(...givenAway, ...NEW).sync();
    assert.deepEqual(unwritten(report), ['default/old']);
    const there = [...(kernel.virtual.get(`TCP ${SHARED}:80`)?.destinations.values() ?? [])];
    assert.deepEqual(
      there.filter(({ weight }) => weight > 0).map(({ address }) => address),
      ['10.244.3.1'],
    );
  });
});

function refusesBad(write: Parameters<IpvsKernel['write']>[0][number]): KernelError | undefined {
  return 'destination' in write && write.destination.address === BAD ? new KernelError('refused', 'EINVAL') : undefined;
}

describe('beside a Service that the kernel refuses', () => {
  for (const [bad, good] of [
    ['a', 'b'],
    ['b', 'a'],
  ] as const) {
    it(`IPVS mode serves another one with the same external IP: ${bad} is refused, and ${good} is not`, async () => {
      const { rig, kernel } = ipvsRig({ families: ['IPv4'] });
      kernel.options = { ...kernel.options, intercept: refusesBad };
      const externalIPs = [SHARED];
      rig.put(...web(bad, { n: 3, endpoint: BAD, spec: { externalIPs } }));
      rig.put(...web(good, { n: 2, endpoint: '10.244.0.2', spec: { externalIPs, ports: [{ port: 443 }] } }));
      assert.deepEqual(unwritten(await rig.sync()), [`default/${bad}`]);
      assert.ok(kernel.virtual.has(`TCP ${SHARED}:443`));
      assert.ok(kernel.dump().some((line) => line.includes('address') && line.includes(SHARED)));
    });
  }

  it('IPVS mode removes an address that two Services shared', async () => {
    const { rig, kernel } = ipvsRig({ families: ['IPv4'] });
    const externalIPs = [SHARED];
    rig.put(...web('a', { n: 1, endpoint: '10.244.0.1', spec: { externalIPs } }));
    rig.put(...web('b', { n: 2, endpoint: '10.244.0.2', spec: { externalIPs, ports: [{ port: 443 }] } }));
    assert.equal((await rig.sync()).outcome, 'complete');
    kernel.options = { ...kernel.options, intercept: refusesBad };
    for (const name of ['a', 'b'])
      rig.remove('Service', `default/${name}`).remove('EndpointSlice', `default/${name}-1`);
    assert.deepEqual(unwritten(await rig.put(...web('c', { n: 3, endpoint: BAD })).sync()), ['default/c']);
    assert.deepEqual(
      kernel.dump().filter((line) => line.includes(SHARED)),
      [],
    );
  });

  it('IPVS mode has all other addresses, where an address that two Services share is refused', async () => {
    const { rig, kernel } = ipvsRig({ families: ['IPv4'], retry: 3_600_000 });
    const intercept = (write: Parameters<IpvsKernel['write']>[0][number]) =>
      write.kind === 'add-address' && write.address === SHARED
        ? new KernelError('refused', 'EADDRNOTAVAIL')
        : undefined;
    kernel.options = { ...kernel.options, intercept };
    const externalIPs = [SHARED];
    rig.put(...web('a', { n: 1, endpoint: '10.244.0.1', spec: { externalIPs } }));
    rig.put(...web('b', { n: 2, endpoint: '10.244.0.2', spec: { externalIPs, ports: [{ port: 443 }] } }));
    for (const n of [3, 4]) {
      rig.put(...web(`good-${n}`, { n, endpoint: `10.244.0.${n}` }));
      assert.deepEqual(unwritten(await rig.sync()), ['default/a', 'default/b']);
      assert.ok(kernel.dump().includes(`address 10.96.0.${n}`));
    }
  });

  it('IPVS mode counts the others as written, also after a restart, while the refused one keeps what was read', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const good = web('good', { n: 2, endpoint: '10.244.0.2' });
    assert.equal(
      (await made.rig.put(...web('bad', { n: 1, endpoint: '10.244.0.1' }), ...good).sync()).outcome,
      'complete',
    );
    const { kernel, iptables } = made;
    kernel.options = { ...kernel.options, intercept: refusesBad };
    const next = ipvsRig({ families: ['IPv4'], kernel, iptables });
    next.rig.put(...web('bad', { n: 1, endpoint: BAD }), ...good);
    assert.deepEqual(unwritten(await next.rig.sync()), ['default/bad']);
  });

  for (const [how, legacy, all, bad] of [
    ['the legacy tool names no line', true, 4, [4]],
    ['so many lines are refused', false, 20, [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]],
  ] as const) {
    it(`iptables mode counts the others as written, although the search went by halves: ${how}`, async () => {
      const kernel = new FakeIptables({ legacy, refuse: (line) => line.includes(`--to-destination ${BAD}:`) });
      const rig = new Rig({ commands: kernel, families: ['IPv4'] });
      const isBad = new Set<number>(bad);
      for (let n = 1; n <= all; n++) rig.put(...web(`web-${n}`, { n, endpoint: isBad.has(n) ? BAD : `10.244.0.${n}` }));
      assert.deepEqual(unwritten(await rig.sync()), bad.map((n) => `default/web-${n}`).sort());
    });
  }

  it('IPVS mode counts nothing as written while the server of a Service stands that was deleted when no agent ran', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    made.rig.put(...web('old', OLD), ...web('kept', { n: 2, endpoint: '10.244.0.2' }));
    assert.equal((await made.rig.sync()).outcome, 'complete');
    const { kernel, iptables } = made;
    kernel.options = { ...kernel.options, intercept: refusesBad };
    const next = ipvsRig({ families: ['IPv4'], kernel, iptables });
    next.rig.put(...web('kept', { n: 2, endpoint: '10.244.0.2' }), ...web('bad', { n: 3, endpoint: BAD }));
    const report = await next.rig.sync();
    assert.ok(kernel.virtual.has('TCP 10.96.0.1:80'));
    assert.equal(unwritten(report), undefined);
  });

  for (const isFirst of [true, false]) {
    it(`nftables mode serves the others, also where a rule of a chain is refused: in ${isFirst ? 'the first' : 'a later'} sync`, async () => {
      const { rig, kernel } = nftRig({ families: ['IPv4'] });
      const isSticky = (write: NftWrite) => write.kind === 'add-rule' && write.chain.startsWith('sticky-');
      kernel.options = {
        ...kernel.options,
        refuses: (write) => (isSticky(write) ? 'EMLINK: too many links' : undefined),
      };
      rig.put(...web('good', { n: 1, endpoint: '10.244.0.1' }));
      if (!isFirst) assert.equal((await rig.sync()).outcome, 'complete');
      rig.put(...web('bad', { n: 2, endpoint: '10.244.0.2', spec: { sessionAffinity: 'ClientIP' } }));
      rig.put(...web('fine', { n: 3, endpoint: '10.244.0.3' }));
      const report = await rig.sync();
      assert.deepEqual(clusterIPs(kernel).sort(), [bytes('10.96.0.1'), bytes('10.96.0.3')]);
      assert.deepEqual(unwritten(report), ['default/bad']);
    });
  }
});

describe('a refusal in iptables mode because another program wrote meanwhile', () => {
  it('is nobody’s: a jump that is gone before its deletion', async () => {
    const kernel = new FakeIptables();
    const rig = new Rig({ commands: kernel, families: ['IPv4'], retry: 30_000 });
    rig.put(...web('web', OLD));
    assert.equal((await rig.sync()).outcome, 'complete');
    const before = kernel.save('IPv4');
    const forward = () => kernel.kernels.IPv4.get('filter')?.get('FORWARD') ?? assert.fail();
    forward().splice(1, 1);
    let isFirst = true;
    kernel.options = {
      intercept({ file, input }) {
        if (!file.endsWith('-restore') || !isFirst) return undefined;
        isFirst = false;
        const lines = [...(input?.() ?? [])];
        const line = lines.findIndex((one) => one.startsWith('-D FORWARD'));
        const rules = forward();
        rules.splice(rules.indexOf((lines[line] ?? '').slice('-D FORWARD '.length)), 1);
        // As iptables-nft-restore 1.8.9 says it.
        const cause = 'failed: Bad rule (does a matching rule exist in that chain?).';
        return { exitCode: 1, stdout: '', stderr: `iptables-nft-restore: line ${line + 1} ${cause}\n` };
      },
    };
    rig.loop.distrust();
    const { outcome, failed } = await rig.sync();
    assert.deepEqual([outcome, failed], ['complete', []]);
    assert.equal(kernel.save('IPv4'), before);
  });

  for (const legacy of [false, true]) {
    it(`is nobody’s: chains that are gone (${legacy ? 'legacy' : 'nft'})`, async () => {
      const kernel = new FakeIptables({ legacy });
      const rig = new Rig({ commands: kernel, families: ['IPv4'], retry: 30_000 });
      for (let n = 1; n <= 5; n++) rig.put(...web(`web-${n}`, { n, endpoint: `10.244.0.${n}` }));
      assert.equal((await rig.sync()).outcome, 'complete');
      // iptables -t nat -F; iptables -t nat -X
      const nat = kernel.kernels.IPv4.get('nat') ?? assert.fail();
      for (const name of [...nat.keys()]) {
        if (name.startsWith('KUBE-')) nat.delete(name);
        else nat.set(name, []);
      }
      const { outcome, failed } = await rig.put(...web('web-6', { n: 6, endpoint: '10.244.0.6' })).sync();
      assert.deepEqual([outcome, failed], ['complete', []]);
      for (let n = 1; n <= 6; n++) assert.match(kernel.save('IPv4'), new RegExp(`-d 10\\.96\\.0\\.${n}/32 `));
    });
  }
});
