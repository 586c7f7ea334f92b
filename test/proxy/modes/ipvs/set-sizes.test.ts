/** The sizes of sets: kube-proxy's, so that it can take them over, and larger ones only where the entries need them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES, type Family } from '../../../../src/base/address.ts';
import { IptablesTools } from '../../../../src/kernel/iptables-tools.ts';
import { type IpsetSpec, KernelError, type KernelWrite, type SetType } from '../../../../src/kernel/ipvs-kernel.ts';
import { handover } from '../../../../src/proxy/modes/handover.ts';
import { iptablesMode } from '../../../../src/proxy/modes/iptables/index.ts';
import type { SetKept, SetResized } from '../../../../src/proxy/modes/virtual-servers/apply.ts';
import { ENTRY_ORDER, SET_IDS, type SetId, setName } from '../../../../src/proxy/modes/virtual-servers/sets.ts';
import { stepText } from '../../../../src/proxy/reconcile/step.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import type { FakeIpvs } from '../../../helpers/kernel/fake-ipvs.ts';
import { type IpvsRig, type IpvsRigOptions, ipvsRig } from '../../../helpers/proxy/ipvs-rig.ts';
import { defaultSettings, fakeSysctls, NEVER, Rig } from '../../../helpers/proxy/rig.ts';

/** kube-proxy's sets and their types (pkg/proxy/ipvs/proxier.go, ipsetInfo). */
const KUBE_PROXYS: Readonly<Record<string, SetType>> = {
  'KUBE-LOOP-BACK': 'hash:ip,port,ip',
  'KUBE-CLUSTER-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-FW': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-SOURCE-IP': 'hash:ip,port,ip',
  'KUBE-LOAD-BALANCER-SOURCE-CIDR': 'hash:ip,port,net',
  'KUBE-NODE-PORT-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-SCTP-HASH': 'hash:ip,port',
  'KUBE-NODE-PORT-LOCAL-SCTP-HASH': 'hash:ip,port',
  'KUBE-HEALTH-CHECK-NODE-PORT': 'bitmap:port',
  'KUBE-IPVS-IPS': 'hash:ip',
};
const LIMIT = 65_536;
const FORMER = 1_048_576;
const CLUSTER = 'KUBE-CLUSTER-IP';

/** The sets as kube-proxy asks for them before each sync: `ipset create … maxelem 65536 -exist`. Returns the sets that it is refused. */
function refusedToKubeProxy(kernel: FakeIpvs, families: readonly Family[] = FAMILIES): string[] {
  const specs = families.flatMap((family) =>
    Object.entries(KUBE_PROXYS).map(([id, type]): IpsetSpec => {
      return { name: setName(family, id as SetId), type, family, maxelem: LIMIT };
    }),
  );
  return specs.filter((spec) => kernel.state.createIfMissing(spec) !== undefined).map(({ name }) => name);
}

/** Cluster IPs with so many ports together, at most a thousand of each Service. */
function withPorts(count: number): object[] {
  const objects: object[] = [];
  for (let from = 0; from < count; from += 1000) {
    const ports = Array.from({ length: Math.min(1000, count - from) }, (_, i) => ({ name: `p${i}`, port: i + 2000 }));
    const name = `s${from / 1000}`;
    objects.push(service({ name, spec: { clusterIP: `10.96.1.${from / 1000}`, ports } }));
  }
  return objects;
}

const WEB = [
  service({ name: 'web', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
  slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.11'] }),
];

async function synced({ rig }: IpvsRig): Promise<void> {
  const report = await rig.sync();
  assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
}

async function served(objects: readonly object[], options: IpvsRigOptions = {}): Promise<IpvsRig> {
  const made = ipvsRig({ families: ['IPv4'], ...options });
  made.rig.become({ objects });
  await synced(made);
  return made;
}

/** The node as an earlier version of slicewire left it: every hash takes 1,048,576 entries. */
async function ofFormerVersion(): Promise<IpvsRig> {
  const made = await served(WEB);
  for (const [name, { spec, entries }] of made.kernel.sets) {
    const maxelem = spec.type === 'bitmap:port' ? 0 : FORMER;
    made.kernel.sets.set(name, { spec: { ...spec, maxelem }, entries });
  }
  return made;
}

const restarted = ({ kernel, iptables }: IpvsRig, options: IpvsRigOptions = {}) =>
  ipvsRig({ families: ['IPv4'], kernel, iptables, ...options });
const maxelem = ({ kernel }: IpvsRig, name = CLUSTER) => kernel.sets.get(name)?.spec.maxelem;
const names = ({ kernel }: IpvsRig) => [...kernel.sets.keys()].sort();

describe('the sets of a node', () => {
  it('are those that kube-proxy creates, so that it takes them over', async () => {
    const made = await served(WEB, { families: FAMILIES });
    assert.deepEqual(refusedToKubeProxy(made.kernel), []);
    const shared = SET_IDS.filter((id) => id in KUBE_PROXYS);
    assert.deepEqual([...shared].sort(), Object.keys(KUBE_PROXYS).sort());
  });

  it('each have their place in the order in which entries are written', () => {
    assert.deepEqual([...ENTRY_ORDER].sort(), [...SET_IDS].sort());
  });

  it('of an earlier version are brought back to that size at once: each entry is there at any time', async () => {
    const former = await ofFormerVersion();
    assert.equal(
      refusedToKubeProxy(former.kernel, ['IPv4']).includes(CLUSTER),
      true,
      'the kernel in memory refuses it',
    );
    const told: SetResized[] = [];
    const made = restarted(former, { onResized: (one) => told.push(one) });
    const before = made.kernel.dump();
    const watched = () => assert.ok(made.kernel.sets.get(CLUSTER)?.entries.has('10.96.0.10,tcp:80'));
    made.kernel.options = { ...made.kernel.options, intercept: () => void watched() };
    made.rig.become({ objects: WEB });
    await synced(made);
    assert.deepEqual(refusedToKubeProxy(made.kernel, ['IPv4']), []);
    assert.deepEqual(made.kernel.dump(), before);
    assert.equal(names(made).includes('KUBE-IPVS-RESIZE'), false);
    assert.equal(maxelem(made, 'KUBE-IPVS-SERVERS'), FORMER, 'kube-proxy has no such set');
    const healed: SetResized = { set: CLUSTER, from: FORMER, to: LIMIT, kubeProxys: LIMIT };
    assert.deepEqual(
      told.filter(({ set }) => set === CLUSTER),
      [healed],
    );
    assert.equal((await made.rig.sync()).applied, 0, 'then there is nothing to do');
  });

  it('that are too small grow, whoever made them', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const spec: IpsetSpec = { name: CLUSTER, type: 'hash:ip,port', family: 'IPv4', maxelem: 1 };
    made.kernel.sets.set(CLUSTER, { spec, entries: new Set(['10.96.0.99,tcp:80']) });
    const steps: string[] = [];
    const again = restarted(made, { onPlan: (plan) => steps.push(...plan.steps.map(stepText)) });
    again.rig.become({ objects: WEB });
    await synced(again);
    assert.deepEqual([...(again.kernel.sets.get(CLUSTER)?.entries ?? [])], ['10.96.0.10,tcp:80']);
    assert.equal(maxelem(again), LIMIT);
    assert.ok(
      steps.some((text) => text.startsWith(`~ IPv4 set ${CLUSTER}\n    + maxelem ${LIMIT}, was 1\n`)),
      steps.join('\n'),
    );
  });

  it('become larger than kube-proxy allows where the entries need it, which is told, and small again when they do not', async () => {
    const told: SetResized[] = [];
    const made = await served(withPorts(LIMIT - 1), { onResized: (one) => told.push(one) });
    assert.deepEqual([maxelem(made), told], [LIMIT, []]);
    made.rig.put(...WEB);
    await synced(made);
    assert.deepEqual([maxelem(made), told], [LIMIT, []], 'it is full, and no entry is missing');
    const one = service({ name: 'one', spec: { clusterIP: '10.96.0.11', ports: [{ port: 80 }] } });
    made.rig.put(one);
    await synced(made);
    assert.equal(made.kernel.sets.get(CLUSTER)?.entries.size, LIMIT + 1);
    assert.deepEqual([...told], [{ set: CLUSTER, from: LIMIT, to: 2 * LIMIT, kubeProxys: LIMIT }]);
    assert.deepEqual(made.rig.mode.metrics.enlargedSets(), [{ set: CLUSTER, maxelem: 2 * LIMIT }]);
    made.rig.remove('Service', 'default/one');
    await synced(made);
    made.rig.put(one);
    await synced(made);
    assert.equal(told.length, 1, 'a number that moves around the limit copies nothing');
    // A new agent brings it back as soon as the entries fit.
    const next = restarted(made, { onResized: (each) => told.push(each) });
    next.rig.become({ objects: withPorts(LIMIT - 1) });
    await synced(next);
    await synced(next);
    assert.deepEqual(told.slice(1), [{ set: CLUSTER, from: 2 * LIMIT, to: LIMIT, kubeProxys: LIMIT }]);
    assert.equal(next.kernel.sets.get(CLUSTER)?.entries.size, LIMIT - 1);
    // The same agent, when an eighth is free.
    made.rig.become({ objects: withPorts(57_000) });
    made.rig.loop.distrust();
    await synced(made);
    assert.deepEqual([maxelem(made), made.rig.mode.isWaiting], [2 * LIMIT, true], 'entries go last');
    await synced(made);
    assert.deepEqual([maxelem(made), made.rig.mode.isWaiting], [LIMIT, false]);
    assert.deepEqual(made.rig.mode.metrics.enlargedSets(), []);
  });

  it('are made large at once where the first sync needs it', async () => {
    const told: SetResized[] = [];
    const made = await served(withPorts(LIMIT + 1), { onResized: (one) => told.push(one) });
    assert.equal(made.kernel.sets.get(CLUSTER)?.entries.size, LIMIT + 1);
    assert.deepEqual(told, [{ set: CLUSTER, from: undefined, to: 2 * LIMIT, kubeProxys: LIMIT }]);
  });
});

describe('a set that is resized', () => {
  /** Writes that belong to a resize. */
  const isOfResize = (write: KernelWrite) => JSON.stringify(write).includes('KUBE-IPVS-RESIZE');

  for (const failure of ['refused', 'environment', 'exists', 'missing'] as const) {
    it(`lacks no entry where a write of it fails with «${failure}», at each place, and the next reading ends it`, async () => {
      let total = 0;
      for (let n = 0; n === total; n++) {
        const made = restarted(await ofFormerVersion());
        const before = made.kernel.dump();
        let count = 0;
        made.kernel.options = {
          ...made.kernel.options,
          intercept(write) {
            assert.ok(made.kernel.sets.get(CLUSTER)?.entries.has('10.96.0.10,tcp:80'));
            if (!isOfResize(write) || count++ !== n) return undefined;
            total += 1;
            // Another program was faster.
            if (failure === 'missing' && write.kind === 'remove-set') made.kernel.state.write(write);
            return new KernelError(failure, `injected: ${failure}`);
          },
        };
        made.rig.become({ objects: WEB });
        const report = await made.rig.sync();
        if (total === n) break;
        assert.equal(report.outcome, 'complete', `write ${n}: every rule is right`);
        assert.equal(made.rig.mode.isWaiting, false, `write ${n}`);
        made.kernel.options = { isSetUsed: made.kernel.options.isSetUsed ?? (() => false) };
        made.rig.loop.distrust();
        await synced(made);
        assert.deepEqual(made.kernel.dump(), before, `write ${n}`);
        assert.deepEqual(refusedToKubeProxy(made.kernel, ['IPv4']), [], `write ${n}`);
        assert.equal(names(made).includes('KUBE-IPVS-RESIZE'), false, `write ${n}`);
      }
      assert.ok(total > 20, `${total} writes were made to fail`);
    });
  }

  /** Refuses these writes, and counts them. */
  function refusing(made: IpvsRig, isRefused: (write: KernelWrite) => boolean): { count: number } {
    const refused = { count: 0 };
    const { options } = made.kernel;
    made.kernel.options = {
      ...options,
      intercept(write) {
        if (!isRefused(write)) return undefined;
        refused.count += 1;
        return new KernelError('refused', 'ENOTSUPP: injected');
      },
    };
    return refused;
  }

  it('that cannot be made smaller is told once, and tried again when the kernel is read, not at each sync', async () => {
    const told: SetKept[] = [];
    const made = restarted(await ofFormerVersion(), { onSetKept: (one) => told.push(one) });
    const refused = refusing(made, (write) => write.kind === 'swap-set' && write.set === CLUSTER);
    made.rig.become({ objects: WEB });
    await synced(made);
    assert.deepEqual([refused.count, maxelem(made), made.rig.mode.isWaiting], [1, FORMER, false]);
    await synced(made);
    assert.equal(refused.count, 1);
    made.rig.loop.distrust();
    await synced(made);
    assert.equal(refused.count, 2, 'the kernel was read');
    assert.deepEqual(told, [{ set: CLUSTER, maxelem: FORMER, cause: 'ENOTSUPP: injected' }]);
  });

  it('makes nothing incomplete where the spare set stays, because it cannot be removed', async () => {
    const told: SetKept[] = [];
    const made = restarted(await withSpare(), { onSetKept: (one) => told.push(one) });
    const refused = refusing(made, (write) => write.kind === 'remove-set' && write.set === 'KUBE-IPVS-RESIZE');
    made.rig.become({ objects: WEB });
    await synced(made);
    await synced(made);
    assert.equal(refused.count, 1);
    made.rig.loop.distrust();
    await synced(made);
    assert.equal(refused.count, 2, 'the kernel was read');
    assert.deepEqual(told, [{ set: 'KUBE-IPVS-RESIZE', maxelem: undefined, cause: 'ENOTSUPP: injected' }]);
  });

  it('that cannot grow makes the family incomplete: entries are missing', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const spec: IpsetSpec = { name: CLUSTER, type: 'hash:ip,port', family: 'IPv4', maxelem: 1 };
    made.kernel.sets.set(CLUSTER, { spec, entries: new Set(['10.96.0.99,tcp:80']) });
    const again = restarted(made);
    refusing(again, (write) => write.kind === 'swap-set');
    again.rig.become({ objects: WEB });
    const { outcome, failed } = await again.rig.sync();
    assert.equal(outcome, 'partial');
    assert.ok(
      failed.some(({ cause }) => cause === `maxelem ${LIMIT}, was 1: ENOTSUPP: injected`),
      JSON.stringify(failed),
    );
  });

  it('is none where another program has one of this name with another type: nothing waits for it', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const spec: IpsetSpec = { name: CLUSTER, type: 'hash:ip', family: 'IPv4', maxelem: 1 };
    made.kernel.sets.set(CLUSTER, { spec, entries: new Set() });
    const again = restarted(made);
    again.rig.become({ objects: WEB });
    assert.notEqual((await again.rig.sync()).outcome, 'complete');
    assert.equal((await again.rig.mode.observe(NEVER)).kind, 'known');
    assert.equal(again.rig.mode.isWaiting, false);
  });

  it('is finished by the next agent where the first one ends, at each place, and leaves no other set', async () => {
    let total = 0;
    for (let n = 0; n === total; n++) {
      const former = await ofFormerVersion();
      const dying = restarted(former);
      let count = 0;
      dying.kernel.options = {
        ...dying.kernel.options,
        intercept(write) {
          if (!isOfResize(write) || count++ !== n) return undefined;
          total += 1;
          throw new Error('the process ended');
        },
      };
      dying.rig.become({ objects: WEB });
      const before = dying.kernel.dump();
      await dying.rig.sync();
      if (total === n) break;
      dying.kernel.options = { isSetUsed: dying.kernel.options.isSetUsed ?? (() => false) };
      const next = restarted(dying);
      next.rig.become({ objects: WEB });
      await synced(next);
      assert.deepEqual(next.kernel.dump(), before, `write ${n}`);
      assert.deepEqual(refusedToKubeProxy(next.kernel, ['IPv4']), [], `write ${n}`);
      assert.equal(names(next).includes('KUBE-IPVS-RESIZE'), false, `write ${n}`);
    }
    assert.ok(total > 20, `${total} writes were the last`);
  });

  /** The node of an agent that ended right after it had made the spare set. */
  async function withSpare(): Promise<IpvsRig> {
    const made = await served(WEB);
    const spec: IpsetSpec = { name: 'KUBE-IPVS-RESIZE', type: 'hash:ip', family: 'IPv4', maxelem: LIMIT };
    made.kernel.sets.set(spec.name, { spec, entries: new Set(['10.96.0.10']) });
    return made;
  }

  it('leaves a second set where the agent ended: the plan says that it goes', async () => {
    const steps: string[] = [];
    const made = restarted(await withSpare(), { onPlan: (plan) => steps.push(...plan.steps.map(stepText)) });
    made.rig.become({ objects: WEB });
    await synced(made);
    assert.deepEqual(steps, ['- IPv4 set KUBE-IPVS-RESIZE']);
    assert.equal(names(made).includes('KUBE-IPVS-RESIZE'), false);
    assert.equal((await made.rig.sync()).applied, 0);
  });

  it('leaves no second set after cleanup, or after another mode has taken over', async () => {
    const cleaned = restarted(await withSpare());
    await cleaned.rig.mode.cleanup(NEVER);
    assert.deepEqual(names(cleaned), []);
    const former = await withSpare();
    const predecessor = restarted(former, { isPredecessor: true }).rig.mode;
    const settings = { ...defaultSettings('IPv4'), localDetector: { kind: 'none' } as const };
    const tools = new IptablesTools(former.iptables, 'IPv4', 'auto');
    const mode = handover(iptablesMode([{ settings, tools, sysctls: fakeSysctls() }]), predecessor);
    const rig = new Rig({ commands: former.iptables, mode });
    rig.become({ objects: WEB });
    await synced({ ...former, rig });
    assert.deepEqual([names(former), mode.isWaiting], [[], false]);
  });
});
