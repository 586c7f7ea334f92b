/** From one mode to the other on a live node, in memory: the new mode is complete before the predecessor is removed. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Address, FAMILIES, type Family } from '../../../src/base/address.ts';
import type { Command } from '../../../src/kernel/commands.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import { KernelError, type KernelWrite, type ServerId, TRIAL_SERVER } from '../../../src/kernel/ipvs-kernel.ts';
import { handover } from '../../../src/proxy/modes/handover.ts';
import { iptablesMode } from '../../../src/proxy/modes/iptables/index.ts';
import type { Heard, KernelProbe, Mode } from '../../../src/proxy/modes/mode.ts';
import { rulesPredecessor } from '../../../src/proxy/modes/netfilter/rules-family.ts';
import { failedReport, mergeReports } from '../../../src/proxy/reconcile/step.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import type { FakeIpvs } from '../../helpers/kernel/fake-ipvs.ts';
import { type IpvsRig, ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { defaultSettings, fakeSysctls, Rig } from '../../helpers/proxy/rig.ts';

const SERVER: ServerId = { protocol: 'TCP', address: '10.96.0.10' as Address, port: 80 };
const SERVER_KEY = 'TCP 10.96.0.10:80';
const OBJECTS = [
  service({ name: 'web', spec: { clusterIP: SERVER.address, ports: [{ port: 80 }] } }),
  slice({ name: 'web-1', service: 'web', endpoints: ['10.244.1.11', '10.244.1.12'] }),
];

interface Kernels {
  readonly kernel: FakeIpvs;
  readonly iptables: FakeIptables;
}

function toIptables({ kernel, iptables }: Kernels, change: (next: Mode) => void = () => undefined): Rig {
  const predecessor = ipvsRig({ families: ['IPv4'], kernel, iptables, isPredecessor: true }).rig.mode;
  const tools = new IptablesTools(iptables, 'IPv4', 'auto');
  const next = iptablesMode([{ settings: defaultSettings('IPv4'), tools, sysctls: fakeSysctls() }]);
  change(next);
  return new Rig({ commands: iptables, mode: handover(next, predecessor) }).put(...OBJECTS);
}

/** These answers of the mode's probe are others from now on. */
function probeSays(mode: Mode, answers: Partial<KernelProbe>): void {
  Object.defineProperty(mode, 'probe', { value: { ...mode.probe, ...answers } });
}

async function wellSynced(rig: Rig): Promise<void> {
  const report = await rig.sync();
  assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
}

function hasIptablesRules({ iptables }: Kernels): boolean {
  return iptables.save('IPv4').includes('--to-destination 10.244.1.11:8080');
}

function hasIpvsRules({ iptables }: Kernels): boolean {
  return iptables.save('IPv4').includes('--match-set KUBE-CLUSTER-IP');
}

/** IPVS mode without its server, which a kube-proxy that runs yet writes again. */
async function withoutServer(): Promise<{ readonly made: IpvsRig; readonly writeServer: () => void }> {
  const made = ipvsRig({ families: ['IPv4'] });
  await wellSynced(made.rig.put(...OBJECTS));
  const { virtual } = made.kernel;
  const server = virtual.get(SERVER_KEY);
  assert.ok(server !== undefined && virtual.delete(SERVER_KEY));
  return { made, writeServer: () => void virtual.set(SERVER_KEY, server) };
}

describe('from ipvs to iptables', () => {
  it('installs the rules before it touches a server, and removes all of IPVS mode', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    await wellSynced(made.rig.put(...OBJECTS));
    const seen: boolean[] = [];
    made.kernel.options = { ...made.kernel.options, intercept: () => void seen.push(hasIptablesRules(made)) };
    await wellSynced(toIptables(made));
    assert.ok(seen.length > 0 && seen.every((had) => had), 'rules before servers');
    assert.deepEqual(made.kernel.dump(), []);
    assert.deepEqual([made.kernel.device, made.kernel.sets.size], [false, 0]);
    assert.doesNotMatch(made.iptables.save('IPv4'), /IPVS|KUBE-NODE-PORT |KUBE-LOAD-BALANCER/);
    assert.ok(hasIptablesRules(made));
  });

  it('says that the kernel was read while the predecessor is read, also where the new rules are as an agent left them', async () => {
    const rig = toIptables(ipvsRig({ families: ['IPv4'] }), (mode) => {
      const observe = mode.observe.bind(mode);
      mode.observe = async (signal) => {
        const seen = await observe(signal);
        return seen.kind === 'known' ? { kind: 'known', value: { ...seen.value, isAsLeft: true } } : seen;
      };
    });
    assert.deepEqual([(await rig.sync()).isAsLeft, (await rig.sync()).outcome], [false, 'complete']);
  });

  it('leaves IPVS mode as it is while another program has touched the new rules: it may be all that serves', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    await wellSynced(made.rig.put(...OBJECTS));
    const before = made.kernel.dump();
    let heard: Heard = { kind: 'something', by: undefined };
    const rig = toIptables(made, (next) => probeSays(next, { heard: () => Promise.resolve(heard) }));
    assert.equal((await rig.sync()).outcome, 'partial');
    assert.deepEqual([made.kernel.dump(), hasIptablesRules(made)], [before, true]);
    heard = { kind: 'nothing' };
    await wellSynced(rig);
    assert.deepEqual([made.kernel.dump(), rig.mode.isWaiting], [[], false]);
  });

  it('reads IPVS mode again after a removal that was put off: a kube-proxy that runs yet wrote a server, and its sets name it', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    await wellSynced(made.rig.put(...OBJECTS));
    const again = made.kernel.virtual.get(SERVER_KEY);
    assert.ok(again !== undefined);
    let heard: Heard = { kind: 'something', by: undefined };
    const rig = toIptables(made, (next) =>
      probeSays(next, { heard: () => Promise.resolve(made.kernel.ours.size > 0 ? { kind: 'nothing' } : heard) }),
    );
    assert.equal((await rig.sync()).outcome, 'partial');
    assert.deepEqual([made.kernel.virtual.size, made.kernel.sets.has('KUBE-IPVS-SERVERS')], [0, true]);
    made.kernel.virtual.set(SERVER_KEY, again);
    heard = { kind: 'nothing' };
    await wellSynced(rig);
    assert.deepEqual([made.kernel.dump(), rig.mode.isWaiting], [[], false]);
  });

  it('reads IPVS mode again after the removal of another predecessor was put off: a kube-proxy that runs yet wrote a server', async () => {
    const { made, writeServer } = await withoutServer();
    let isPutOff = true;
    const rig = toIptables(made, (next) => {
      const plan = next.plan.bind(next);
      const key = 'the removal of the previous mode';
      const failure = failedReport({ key, family: undefined, kind: 'kernel' }, `${key} waits for the next sync`);
      next.plan = (setAside) => {
        const { steps, apply } = plan(setAside);
        const also = async (signal: AbortSignal) => {
          const report = await apply(signal);
          return isPutOff ? mergeReports([report, failure]) : report;
        };
        return { steps, apply: also };
      };
    });
    assert.equal((await rig.sync()).outcome, 'partial');
    writeServer();
    isPutOff = false;
    await wellSynced(rig);
    assert.deepEqual([made.kernel.dump(), rig.mode.isWaiting], [[], false]);
  });

  it('reads IPVS mode again after the kernel refused a Service: a kube-proxy that runs yet wrote a server', async () => {
    const { made, writeServer } = await withoutServer();
    made.iptables.options = {
      ...made.iptables.options,
      refuse: (line) => line.includes('--to-destination 10.244.7.7'),
    };
    const rig = toIptables(made).put(
      service({ name: 'refused', spec: { clusterIP: '10.96.0.77', ports: [{ port: 80 }] } }),
      slice({ name: 'refused-1', service: 'refused', endpoints: ['10.244.7.7'] }),
    );
    for (let n = 0; n < 2; n++) assert.equal((await rig.sync()).outcome, 'partial');
    assert.ok(made.kernel.sets.has('KUBE-IPVS-SERVERS'));
    writeServer();
    await wellSynced(rig.remove('Service', 'default/refused'));
    assert.deepEqual([made.kernel.dump(), rig.mode.isWaiting], [[], false]);
  });

  it('removes each server of a kube-proxy that runs yet, at whichever reading it wrote it: its address and sets never go without it', async () => {
    for (let at = 1; at <= 12; at++) {
      const made = ipvsRig({ families: ['IPv4'] });
      await wellSynced(made.rig.put(...OBJECTS));
      const { virtual, ours, sets } = made.kernel;
      const server = virtual.get(SERVER_KEY);
      assert.ok(server !== undefined && ours.delete(SERVER.address) && virtual.delete(SERVER_KEY));
      sets.get('KUBE-IPVS-SERVERS')?.entries.clear();
      let read = 0;
      const onRead = () => {
        if (++read !== at) return;
        virtual.set(SERVER_KEY, server);
        ours.add(SERVER.address);
      };
      made.kernel.options = { ...made.kernel.options, onRead };
      const rig = toIptables(made);
      await rig.sync();
      rig.mode.lookForPredecessor?.();
      await wellSynced(rig);
      assert.deepEqual([made.kernel.dump(), read >= at], [[], true], `written at reading ${at}`);
    }
  });

  it('waits three syncs for the predecessor where it cannot be read: it serves, and may have servers that nobody wants any more', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    await wellSynced(made.rig.put(...OBJECTS));
    const onRead = (what: string) => {
      if (what === 'servers') throw new Error('recv: ENOBUFS');
    };
    made.kernel.options = { ...made.kernel.options, onRead };
    const rig = toIptables(made);
    const seen: [string, boolean, boolean][] = [];
    for (let n = 0; n < 4; n++) seen.push([(await rig.sync()).outcome, hasIpvsRules(made), hasIptablesRules(made)]);
    const waits = ['failed', true, false];
    assert.deepEqual(seen, [waits, waits, waits, ['partial', false, true]]);
    made.kernel.options = { ...made.kernel.options, onRead: () => undefined };
    await wellSynced(rig);
    assert.deepEqual([made.kernel.dump(), rig.mode.isWaiting], [[], false]);
  });

  it('keeps open connections: server, address and source chain stay until they end', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    await wellSynced(made.rig.put(...OBJECTS));
    const busy = { address: '10.244.1.11' as Address, port: 8080 };
    made.kernel.connect(SERVER, busy, 1);
    const rig = toIptables(made);
    await wellSynced(rig);
    assert.equal(rig.mode.isWaiting, true);
    assert.deepEqual(
      [...(made.kernel.virtual.get(SERVER_KEY)?.destinations.values() ?? [])],
      [{ ...busy, weight: 0, connections: 1 }],
    );
    assert.ok(made.kernel.ours.has(SERVER.address));
    assert.match(made.iptables.save('IPv4'), /-A KUBE-IPVS-SOURCE .* -j MASQUERADE/);
    made.kernel.connect(SERVER, busy, 0);
    await wellSynced(rig);
    assert.equal(rig.mode.isWaiting, false);
    assert.deepEqual([made.kernel.dump(), made.kernel.device, made.kernel.sets.size], [[], false, 0]);
    assert.doesNotMatch(made.iptables.save('IPv4'), /IPVS/);
  });

  it('leaves the device to a family that it does not serve, and waits for nothing', async () => {
    const made = ipvsRig();
    const address = 'fd00:96::10' as Address;
    await wellSynced(
      made.rig.put(
        ...OBJECTS,
        service({ name: 'six', spec: { clusterIP: address, clusterIPs: [address], ports: [{ port: 80 }] } }),
        slice({ name: 'six-1', service: 'six', endpoints: ['fd00:244:1::11'] }),
      ),
    );
    const rig = toIptables(made);
    for (let n = 0; n < 2; n++) await wellSynced(rig);
    assert.deepEqual([rig.mode.isWaiting, made.kernel.device, [...made.kernel.ours]], [false, true, [address]]);
    assert.ok(made.kernel.virtual.has(`TCP [${address}]:80`));
    made.kernel.ours.clear();
    await wellSynced(toIptables(made));
    assert.equal(made.kernel.device, false, 'nobody has an address on it');
    const labels = made.kernel.sets.get('KUBE-6-IPVS-SERVERS')?.entries;
    assert.equal(labels?.size, 1, 'its set shows the server to the next agent that serves the family');
  });

  it('removes a server that an agent left when it ended while it tried a scheduler', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    await wellSynced(made.rig.put(...OBJECTS));
    const trial = { ...TRIAL_SERVER, scheduler: 'rr', flags: 0, timeout: 0 };
    await made.kernel.write([{ kind: 'add-server', server: trial }]);
    await wellSynced(toIptables(made));
    assert.deepEqual([made.kernel.dump(), made.kernel.device], [[], false]);
  });

  describe('after an interrupted takeover, which left rules of both and a Service that is gone since', () => {
    const GONE: ServerId = { protocol: 'UDP', address: '10.96.0.11' as Address, port: 53 };
    const GONE_KEY = 'UDP 10.96.0.11:53';
    const dns = { name: '', port: 53, protocol: 'UDP' };
    const former = [
      service({ name: 'dns', spec: { clusterIP: GONE.address, ports: [{ port: 53, protocol: 'UDP' }] } }),
      slice({ name: 'dns-1', service: 'dns', ports: [dns], endpoints: ['10.244.1.13'] }),
    ];

    /** The kernels after it; `hadServer` tells for each write of rules whether the server of the former Service was still there. */
    async function interrupted() {
      const made = ipvsRig({ families: ['IPv4'] });
      await wellSynced(made.rig.put(...OBJECTS, ...former));
      await wellSynced(new Rig({ commands: made.iptables, families: ['IPv4'] }).put(...OBJECTS, ...former));
      assert.ok(made.kernel.virtual.has(GONE_KEY));
      const hadServer: boolean[] = [];
      const onCommit = () => void hadServer.push(made.kernel.virtual.has(GONE_KEY));
      made.iptables.options = { ...made.iptables.options, onCommit };
      return { made, hadServer };
    }

    it('removes its server before its rules, and keeps those of the others until the rules are written', async () => {
      const { made, hadServer } = await interrupted();
      const others: boolean[] = [];
      const onCommit = made.iptables.options.onCommit;
      made.iptables.options = {
        ...made.iptables.options,
        onCommit: (...commit) => {
          onCommit?.(...commit);
          others.push(made.kernel.virtual.has(SERVER_KEY));
        },
      };
      await wellSynced(toIptables(made));
      assert.deepEqual([hadServer.length > 0, hadServer.includes(true), others[0]], [true, false, true]);
      assert.deepEqual(made.kernel.dump(), []);
      assert.doesNotMatch(made.iptables.save('IPv4'), /10\.96\.0\.11/);
    });

    it('removes the server of a Service that no endpoint serves any more before its rules, too', async () => {
      const { made, hadServer } = await interrupted();
      const local = service({
        name: 'dns',
        spec: { clusterIP: GONE.address, internalTrafficPolicy: 'Local', ports: [{ port: 53, protocol: 'UDP' }] },
      });
      await wellSynced(toIptables(made).put(...former, local));
      assert.deepEqual([hadServer.length > 0, hadServer.includes(true)], [true, false]);
      assert.deepEqual(made.kernel.dump(), []);
    });

    for (const failure of ['environment', 'missing', 'refused'] as const) {
      it(`leaves nothing of IPVS mode after the removal of its server failed once (${failure})`, async () => {
        const { made } = await interrupted();
        let failures = 1;
        const intercept = (write: KernelWrite) => {
          if (write.kind !== 'remove-server' || failures-- <= 0) return undefined;
          // Another program was faster.
          if (failure === 'missing') made.kernel.state.write(write);
          return new KernelError(failure, 'not now');
        };
        made.kernel.options = { ...made.kernel.options, intercept };
        const rig = toIptables(made);
        for (let n = 0; n < 3; n++) await rig.sync();
        await wellSynced(rig);
        assert.deepEqual([made.kernel.dump(), made.kernel.device, rig.mode.isWaiting], [[], false, false]);
      });
    }

    it('has failed where its server was removed, and no rule was written', async () => {
      const { made } = await interrupted();
      const locked = { exitCode: 4, stdout: '', stderr: 'Another app is currently holding the xtables lock.' };
      const intercept = ({ file }: Command) => (file.includes('restore') ? locked : undefined);
      made.iptables.options = { ...made.iptables.options, intercept };
      const report = await toIptables(made).sync();
      assert.deepEqual([report.outcome, made.kernel.virtual.has(GONE_KEY)], ['failed', false]);
    });
  });

  it('touches nothing of IPVS mode while the rules cannot be written', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    await wellSynced(made.rig.put(...OBJECTS));
    const before = made.kernel.dump();
    made.iptables.options = { ...made.iptables.options, refuse: (line) => line.includes('--to-destination') };
    const report = await toIptables(made).sync();
    assert.notEqual(report.outcome, 'complete');
    assert.deepEqual(made.kernel.dump(), before);
  });
});

describe('from iptables to ipvs', () => {
  it('writes servers, sets and addresses before the rules, and removes every chain of iptables mode', async () => {
    const iptables = new FakeIptables();
    await wellSynced(new Rig({ commands: iptables, families: ['IPv4'] }).put(...OBJECTS));
    const made = ipvsRig({ families: ['IPv4'], iptables });
    const commits: string[] = [];
    iptables.options = {
      ...iptables.options,
      onCommit: () => {
        const isComplete = made.kernel.ours.size > 0 && made.kernel.virtual.size > 0;
        commits.push(`${hasIptablesRules(made)} ${hasIpvsRules(made)} ${isComplete}`);
      },
    };
    await wellSynced(made.rig.put(...OBJECTS));
    for (const commit of commits) {
      const [old, rules, isComplete] = commit.split(' ');
      assert.ok(old === 'true' || (rules === 'true' && isComplete === 'true'), `a gap: ${commits.join(', ')}`);
    }
    assert.doesNotMatch(iptables.save('IPv4'), /KUBE-SVC|KUBE-HAIRPIN|KUBE-EXTERNAL-SERVICES/);
  });
});

describe('the rules of a predecessor', () => {
  it('stay while the kernel does not tell whether those of the new mode stand', async () => {
    const kernel = new FakeIptables();
    await wellSynced(new Rig({ commands: kernel, families: ['IPv4'] }).put(...OBJECTS));
    const made = ipvsRig({ families: ['IPv4'] });
    const { mode: next } = made.rig;
    probeSays(next, { heard: () => Promise.reject(new Error('EBUSY')) });
    const predecessor = rulesPredecessor([{ tools: new IptablesTools(kernel, 'IPv4', 'auto') }]);
    const rig = new Rig({ commands: made.iptables, mode: handover(next, predecessor) }).put(...OBJECTS);
    const { outcome, failed } = await rig.sync();
    assert.equal(outcome, 'partial');
    assert.match(failed[0]?.cause ?? '', /waits for the next sync: the rules of the new mode cannot be checked: EBUSY/);
    assert.match(kernel.save('IPv4'), /KUBE-SERVICES/);
  });

  it('stay in the second family when another program touches those of the new mode while the first is removed', async () => {
    const kernel = new FakeIptables();
    await wellSynced(new Rig({ commands: kernel, families: FAMILIES }).put(...OBJECTS));
    const made = ipvsRig({ families: FAMILIES });
    const { mode: next } = made.rig;
    const isThere = (family: Family) => kernel.save(family).includes('KUBE-SERVICES');
    const heard = (): Heard => (isThere('IPv4') ? { kind: 'nothing' } : { kind: 'something', by: undefined });
    probeSays(next, { heard: () => Promise.resolve(heard()) });
    const predecessor = rulesPredecessor(
      FAMILIES.map((family) => ({ tools: new IptablesTools(kernel, family, 'auto') })),
    );
    const rig = new Rig({ commands: made.iptables, mode: handover(next, predecessor) }).put(...OBJECTS);
    const { outcome, failed } = await rig.sync();
    assert.equal(outcome, 'partial');
    assert.match(failed[0]?.cause ?? '', /waits for the next sync: another program touched the rules of the new mode/);
    assert.deepEqual(FAMILIES.filter(isThere), ['IPv6']);
  });

  for (const [what, found] of [
    ['its canaries are gone', { isInstalled: () => Promise.resolve(false) }],
    ['a reading shows it', { differs: () => Promise.resolve(true) }],
  ] as const)
    it(`stay where another program flushed those of the new mode, although no notice told it: ${what}`, async () => {
      const made = ipvsRig({ families: ['IPv4'] });
      await wellSynced(made.rig.put(...OBJECTS));
      const flushed = new FakeIptables();
      const tools = new IptablesTools(flushed, 'IPv4', 'auto');
      const next = iptablesMode([{ settings: defaultSettings('IPv4'), tools, sysctls: fakeSysctls() }]);
      probeSays(next, found);
      const predecessor = ipvsRig({
        families: ['IPv4'],
        kernel: made.kernel,
        iptables: made.iptables,
        isPredecessor: true,
      });
      const rig = new Rig({ commands: flushed, mode: handover(next, predecessor.rig.mode) }).put(...OBJECTS);
      assert.equal((await rig.sync()).outcome, 'partial');
      assert.ok(made.kernel.virtual.has(SERVER_KEY));
    });

  it('go with both jumps where two agents wrote at the same time', async () => {
    const kernel = new FakeIptables();
    await wellSynced(new Rig({ commands: kernel, families: ['IPv4'] }).put(...OBJECTS));
    for (const chains of kernel.kernels.IPv4.values())
      for (const [name, rules] of chains) if (!name.startsWith('KUBE-')) rules.push(...rules);
    const predecessor = rulesPredecessor([{ tools: new IptablesTools(kernel, 'IPv4', 'auto') }]);
    await wellSynced(new Rig({ commands: kernel, families: ['IPv4'], mode: predecessor }));
    // The kubelet has that one, too.
    assert.doesNotMatch(kernel.save('IPv4'), /KUBE-(?!FIREWALL)/);
  });
});
