/** A write that is impossible leaves the rules of its family as they are: those of iptables mode still serve (docs/ipvs.md). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES, type Family } from '../../../../src/base/address.ts';
import { IptablesTools } from '../../../../src/kernel/iptables-tools.ts';
import { KernelError, type KernelWrite } from '../../../../src/kernel/ipvs-kernel.ts';
import { iptablesMode } from '../../../../src/proxy/modes/iptables/index.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { type IpvsRig, ipvsRig } from '../../../helpers/proxy/ipvs-rig.ts';
import { defaultSettings, fakeSysctls, Rig } from '../../../helpers/proxy/rig.ts';

const IPS = (last: string) => [`10.96.0.${last}`, `fd00:96::${last}`];

function objects(name: string, last: string): object[] {
  const [clusterIP] = IPS(last);
  const dual = { clusterIP, clusterIPs: IPS(last), ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'RequireDualStack' };
  return [
    service({ name, spec: { ...dual, ports: [{ port: 80 }] } }),
    slice({ name: `${name}-4`, service: name, endpoints: [`10.244.1.${last}`] }),
    slice({ name: `${name}-6`, service: name, addressType: 'IPv6', endpoints: [`fd00:244:1::${last}`] }),
  ];
}

const OBJECTS = [...objects('web', '10'), ...objects('api', '20')];

/** A node whose rules are those of iptables mode, and the agent in IPVS mode that takes over. */
async function takingOver(): Promise<IpvsRig> {
  const iptables = new FakeIptables();
  const former = iptablesMode(
    FAMILIES.map((family) => ({
      settings: defaultSettings(family),
      tools: new IptablesTools(iptables, family, 'auto'),
      sysctls: fakeSysctls(),
    })),
  );
  await wellSynced(new Rig({ commands: iptables, mode: former }).put(...OBJECTS));
  const made = ipvsRig({ iptables });
  made.rig.put(...OBJECTS);
  return made;
}

async function wellSynced(rig: Rig): Promise<void> {
  const report = await rig.sync();
  assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
}

/** Whether the write is for the family, and before its rules. */
function isOf(family: Family, write: KernelWrite): boolean {
  if (write.kind === 'add-set') return write.set.family === family;
  const is6 = family === 'IPv6';
  if (write.kind === 'add-entry') return write.set.startsWith('KUBE-6-') === is6;
  if (write.kind === 'add-address') return write.address.includes(':') === is6;
  if (write.kind === 'add-server' || write.kind === 'add-destination')
    return write.server.address.includes(':') === is6;
  return false;
}

/** Let the n-th write of the family fail. */
function failAt(n: number, family: Family, { kernel }: IpvsRig): { write?: KernelWrite } {
  const failed: { write?: KernelWrite } = {};
  let count = 0;
  const intercept = (write: KernelWrite) => {
    if (!isOf(family, write) || count++ !== n) return undefined;
    failed.write = write;
    return new KernelError('environment', 'ENOBUFS: no buffer space available');
  };
  kernel.options = { ...kernel.options, intercept };
  return failed;
}

const isIpvs = ({ iptables }: IpvsRig, family: Family) =>
  /--match-set KUBE-(6-)?CLUSTER-IP /.test(iptables.save(family));

/** The rules without the chain for packets that the node sends, which comes before the addresses and changes nothing before them. */
function rulesOf({ iptables }: IpvsRig, family: Family): string[] {
  return iptables
    .save(family)
    .split('\n')
    .filter((line) => !line.includes('KUBE-IPVS-SOURCE'));
}

describe('from iptables to ipvs, a write that is impossible', () => {
  for (const family of FAMILIES) {
    it(`for ${family}, at each place, leaves the rules of the family, and the next sync takes over`, async () => {
      const end = await takingOver();
      await wellSynced(end.rig);
      const other = family === 'IPv4' ? 'IPv6' : 'IPv4';
      const kinds = new Set<string>();
      for (let n = 0; ; n++) {
        const made = await takingOver();
        const before = rulesOf(made, family);
        const failed = failAt(n, family, made);
        const report = await made.rig.sync();
        if (failed.write === undefined) break;
        kinds.add(failed.write.kind);
        const what = `write ${n}: ${JSON.stringify(failed.write)}`;
        assert.deepEqual(rulesOf(made, family), before, what);
        assert.ok(isIpvs(made, other), `${what}: the other family goes on`);
        const [cause] = report.failed;
        const blocked = report.skipped.find(({ key }) => key.startsWith(`${family} nat KUBE-SERVICES`));
        assert.deepEqual([cause?.blame, blocked?.blockedBy], ['environment', cause?.key], what);
        await wellSynced(made.rig);
        assert.deepEqual(made.kernel.dump(), end.kernel.dump(), what);
        assert.equal(made.iptables.save(family), end.iptables.save(family), what);
      }
      assert.deepEqual([...kinds].sort(), ['add-address', 'add-destination', 'add-entry', 'add-server', 'add-set']);
    });
  }
});

describe('from iptables to ipvs, a refused object', () => {
  it('of one Service does not stop the rules: the other Services move (invariant 6)', async () => {
    const made = await takingOver();
    const intercept = (write: KernelWrite) =>
      write.kind === 'add-server' && IPS('10').includes(write.server.address)
        ? new KernelError('refused', 'EINVAL: invalid argument')
        : undefined;
    made.kernel.options = { ...made.kernel.options, intercept };
    const report = await made.rig.sync();
    assert.equal(report.outcome, 'partial');
    assert.deepEqual([...new Set(report.failed.map(({ owner }) => owner))], ['default/web']);
    for (const family of FAMILIES) assert.ok(isIpvs(made, family), family);
  });
});
