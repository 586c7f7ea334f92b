/** Failures, and writes of other programs: the end state is right, nothing that works is removed, nothing foreign is touched. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address, Cidr } from '../../../../src/base/address.ts';
import {
  type IpvsFailure,
  IpvsUnusable,
  KernelError,
  type KernelWrite,
  type Server,
} from '../../../../src/kernel/ipvs-kernel.ts';
import { checkScheduler } from '../../../../src/kernel/ipvs-open.ts';
import { driftText } from '../../../../src/proxy/model/drift.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIpvs } from '../../../helpers/kernel/fake-ipvs.ts';
import { type IpvsRig, ipvsRig } from '../../../helpers/proxy/ipvs-rig.ts';
import { NEVER } from '../../../helpers/proxy/rig.ts';

const FOREIGN: Server = {
  protocol: 'TCP',
  address: '203.0.113.7' as Address,
  port: 443,
  scheduler: 'wlc',
  flags: 0,
  timeout: 0,
};

function objects(generation: 1 | 2): object[] {
  const pods = (name: string, ...lasts: number[]) =>
    slice({ name: `${name}-1`, service: name, endpoints: lasts.map((last) => `10.244.1.${last}`) });
  const balanced = {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.20',
    ports: [{ port: 80, nodePort: 30_080 }],
    externalTrafficPolicy: 'Local',
    loadBalancerSourceRanges: ['192.168.77.0/24'],
  };
  const status = { loadBalancer: { ingress: [{ ip: '198.51.100.1' }] } };
  const kept = [
    service({ name: 'kept', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } }),
    pods('kept', ...(generation === 1 ? [11, 12] : [12, 13])),
  ];
  const changed = generation === 1 ? balanced : { ...balanced, externalTrafficPolicy: 'Cluster' };
  const lb = [service({ name: 'lb', spec: changed, status }), pods('lb', 14, 15)];
  const old = [
    service({ name: 'old', spec: { clusterIP: '10.96.0.30', ports: [{ port: 53, protocol: 'UDP' }] } }),
    pods('old', 16),
  ];
  const fresh = [service({ name: 'new', spec: { clusterIP: '10.96.0.40', ports: [{ port: 80 }] } }), pods('new', 17)];
  return [...kept, ...lb, ...(generation === 1 ? old : fresh)];
}

function withForeign(): IpvsRig {
  const made = ipvsRig({ families: ['IPv4'] });
  const { kernel } = made;
  kernel.virtual.set('TCP 203.0.113.7:443', { server: FOREIGN, destinations: new Map() });
  kernel.sets.set('SOMEBODYS', {
    spec: { name: 'SOMEBODYS', type: 'hash:ip', family: 'IPv4', maxelem: 100 },
    entries: new Set(['203.0.113.7']),
  });
  return made;
}

async function wellSynced(made: IpvsRig): Promise<void> {
  const report = await made.rig.sync();
  assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
}

/** The state of the kernel without failures. */
async function wanted(generation: 1 | 2): Promise<string[]> {
  const made = withForeign();
  made.rig.become({ objects: objects(generation) });
  await wellSynced(made);
  return made.kernel.dump();
}

/** Another program wrote just before: it makes the failure true. Returns false if that is impossible. */
function makeTrue(failure: IpvsFailure, write: KernelWrite, { kernel }: IpvsRig): boolean {
  if (failure === 'refused' || failure === 'environment') return true;
  const { kind } = write;
  if (failure === 'exists') {
    if (!kind.startsWith('add-') || kind === 'add-entry') return false;
    void kernel.write([write]);
  } else if (kind.startsWith('remove-')) void kernel.write([write]);
  else if ('server' in write && kind !== 'add-server') {
    kernel.virtual.delete(`${write.server.protocol} ${write.server.address}:${write.server.port}`);
  } else if (kind === 'add-address') void kernel.write([{ kind: 'remove-device' }]);
  else return false;
  return true;
}

/** A rig with the first generation, whose n-th write from now on fails with `failure`. */
async function failingAt(n: number, failure: IpvsFailure): Promise<IpvsRig & { readonly failures: KernelWrite[] }> {
  const made = withForeign();
  made.rig.become({ objects: objects(1) });
  await wellSynced(made);
  let count = 0;
  let isOn = true;
  const failures: KernelWrite[] = [];
  made.kernel.options = {
    ...made.kernel.options,
    intercept: (write) => {
      if (!isOn || count++ !== n) return undefined;
      isOn = false;
      failures.push(write);
      if (!makeTrue(failure, write, made)) return undefined;
      return new KernelError(failure, `injected: ${failure}`);
    },
  };
  return { ...made, failures };
}

describe('a write that fails', () => {
  for (const failure of ['refused', 'environment', 'missing', 'exists'] as const) {
    it(`with «${failure}», at each place: working Services go on, and the next sync reaches the right state`, async () => {
      const end = await wanted(2);
      let total = 0;
      for (let n = 0; n === total; n++) {
        const made = await failingAt(n, failure);
        made.rig.become({ objects: objects(2) });
        const report = await made.rig.sync();
        if (made.failures.length === 0) break;
        total += 1;
        const [write] = made.failures;
        const what = `write ${n}: ${JSON.stringify(write)}`;
        // Each failure is reported, or repaired within the sync if the kernel was not as believed.
        if (failure === 'refused' || failure === 'environment') assert.notEqual(report.outcome, 'complete', what);
        const kept = made.kernel.virtual.get('TCP 10.96.0.10:80')?.destinations;
        assert.equal(kept?.get('10.244.1.12:8080')?.weight, 1, `${what}: a destination that stays wanted`);
        assert.ok(made.kernel.ours.has('10.96.0.10' as Address), what);
        made.kernel.options = { isSetUsed: made.kernel.options.isSetUsed ?? (() => false) };
        await wellSynced(made);
        assert.deepEqual(made.kernel.dump(), end, what);
      }
      assert.ok(total > 20, `${total} writes were made to fail`);
    });
  }

  it('for one Service sets aside only that Service, and names it', async () => {
    const made = withForeign();
    made.kernel.options = {
      ...made.kernel.options,
      intercept: (write) =>
        write.kind === 'add-server' && write.server.address === '10.96.0.20'
          ? new KernelError('refused', 'EINVAL: invalid argument')
          : undefined,
    };
    made.rig.become({ objects: objects(1) });
    const report = await made.rig.sync();
    assert.equal(report.outcome, 'partial');
    assert.deepEqual(
      report.failed.map(({ owner, line }) => [owner, line]),
      [['default/lb', '-A -t 10.96.0.20:80 -s rr']],
    );
    assert.equal(made.kernel.virtual.get('TCP 10.96.0.10:80')?.destinations.size, 2);
  });

  it('because a set is full is reported with the set and the Service', async () => {
    const made = withForeign();
    const full = new KernelError('refused', 'the set is full (its maxelem)');
    let left = 2;
    made.kernel.options = {
      ...made.kernel.options,
      intercept: (write) =>
        write.kind === 'add-entry' && write.set === 'KUBE-CLUSTER-IP' && left-- <= 0 ? full : undefined,
    };
    made.rig.become({ objects: objects(1) });
    const report = await made.rig.sync();
    assert.equal(report.outcome, 'partial');
    const [failed] = report.failed;
    assert.match(`${failed?.key}: ${failed?.cause}`, /set KUBE-CLUSTER-IP: .* the set is full/);
    assert.match(failed?.owner ?? '', /^default\//);
    assert.equal(made.kernel.virtual.has('TCP 10.96.0.10:80'), true);
  });

  it('because a set of the name has another type is reported, and no rule is written', async () => {
    const made = withForeign();
    const name = 'KUBE-CLUSTER-IP';
    made.kernel.sets.set(name, { spec: { name, type: 'hash:ip', family: 'IPv4', maxelem: 2 }, entries: new Set() });
    made.rig.become({ objects: objects(1) });
    const report = await made.rig.sync();
    assert.notEqual(report.outcome, 'complete');
    assert.match(
      report.failed.map(({ cause }) => cause).join(),
      /KUBE-CLUSTER-IP: a set of this name with another type/,
    );
    assert.equal(made.iptables.restores, 0);
  });
});

describe('a refused Service', () => {
  /** The cluster IP's set takes no more entries. */
  const full = (write: KernelWrite) =>
    write.kind === 'add-entry' && write.entry === '10.96.0.10,tcp:81'
      ? new KernelError('refused', 'the set is full (its maxelem)')
      : undefined;
  const web = (port: number) => [
    service({ name: 'kept', spec: { clusterIP: '10.96.0.10', ports: [{ port }] } }),
    slice({ name: 'kept-1', service: 'kept', endpoints: ['10.244.1.11'] }),
  ];

  for (const when of ['in the same agent', 'after a resync', 'after a restart'] as const) {
    it(`keeps its installed state ${when} (invariants 3 and 6)`, async () => {
      const first = withForeign();
      first.rig.become({ objects: web(80) });
      await wellSynced(first);
      const { kernel, iptables } = first;
      const made = when === 'after a restart' ? ipvsRig({ families: ['IPv4'], kernel, iptables }) : first;
      if (when === 'after a resync') made.rig.loop.distrust();
      kernel.options = { ...kernel.options, intercept: full };
      made.rig.become({ objects: web(81) });
      for (let i = 0; i < 2; i++) assert.equal((await made.rig.sync()).outcome, 'partial');
      assert.equal(kernel.virtual.get('TCP 10.96.0.10:80')?.destinations.get('10.244.1.11:8080')?.weight, 1);
      assert.ok(kernel.sets.get('KUBE-CLUSTER-IP')?.entries.has('10.96.0.10,tcp:80'));
      assert.equal(kernel.virtual.has('TCP 10.96.0.10:81'), false);
      kernel.options = { isSetUsed: () => false };
      await wellSynced(made);
      assert.equal(kernel.virtual.has('TCP 10.96.0.10:80'), false);
    });
  }

  it('with an address that the kernel refuses is named, and the others are served', async () => {
    const made = withForeign();
    made.kernel.options = {
      ...made.kernel.options,
      intercept: (write) =>
        write.kind === 'add-address' && write.address === '198.51.100.1'
          ? new KernelError('refused', 'EADDRNOTAVAIL: address not available')
          : undefined,
    };
    made.rig.become({ objects: objects(1) });
    const report = await made.rig.sync();
    assert.deepEqual([report.outcome, report.failed.map(({ owner }) => owner)], ['partial', ['default/lb']]);
    assert.ok(made.kernel.ours.has('10.96.0.10' as Address));
  });
});

describe('an external address that another device gets', () => {
  it('is removed from our device with its guard, and is still served', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    made.rig.become({ objects: objects(1) });
    await wellSynced(made);
    const vip = '198.51.100.1' as Address;
    assert.ok(made.kernel.ours.has(vip));
    made.kernel.others.add(vip);
    made.rig.loop.distrust();
    await wellSynced(made);
    assert.equal(made.kernel.ours.has(vip), false);
    assert.equal(made.kernel.sets.get('KUBE-IPVS-IPS')?.entries.has(vip), false);
    assert.equal(made.kernel.virtual.has('TCP 198.51.100.1:80'), true);
    made.kernel.others.delete(vip);
    made.rig.loop.distrust();
    await wellSynced(made);
    assert.ok(made.kernel.ours.has(vip));
  });
});

describe("kube-proxy's virtual servers", () => {
  it('are recognised on its device, by its sets, and on node ports that no Service has any more', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    const { kernel } = made;
    kernel.device = true;
    const old = (address: string, port: number): Server => ({ ...FOREIGN, address: address as Address, port });
    const servers = [
      old('10.96.0.99', 80),
      old('10.96.0.98', 80),
      old('192.168.77.2', 30_099),
      old('192.168.77.2', 443),
    ];
    for (const server of servers) {
      kernel.virtual.set(`TCP ${server.address}:${server.port}`, { server, destinations: new Map() });
    }
    kernel.ours.add('10.96.0.99' as Address);
    const name = 'KUBE-NODE-PORT-TCP';
    kernel.sets.set(name, {
      spec: { name, type: 'bitmap:port', family: 'IPv4', maxelem: 0 },
      entries: new Set(['30099']),
    });
    // Somebody removed its address.
    const clusterIPs = 'KUBE-CLUSTER-IP';
    kernel.sets.set(clusterIPs, {
      spec: { name: clusterIPs, type: 'hash:ip,port', family: 'IPv4', maxelem: 65_536 },
      entries: new Set(['10.96.0.98,tcp:80']),
    });
    await wellSynced(made);
    assert.deepEqual([...kernel.virtual.keys()], ['TCP 192.168.77.2:443'], 'a server of another program stays');
  });
});

describe('the takeover from kube-proxy', () => {
  const NODE = '192.168.77.2';

  /** A Service whose external IP or load balancer's address is one of the node, so that it is not on the device of Services. */
  const external = (spec: Record<string, unknown>, status: Record<string, unknown> = {}) => [
    service({ name: 'ext', spec: { clusterIP: '10.96.0.50', ports: [{ port: 8090 }], ...spec }, status }),
    slice({ name: 'ext-1', service: 'ext', endpoints: ['10.244.1.21'] }),
  ];
  const balancer = { status: { loadBalancer: { ingress: [{ ip: NODE }] } }, spec: { type: 'LoadBalancer' } };
  const cases = [
    { what: 'an external IP', set: 'KUBE-EXTERNAL-IP', of: external({ externalIPs: [NODE] }) },
    {
      what: 'an external IP of policy Local',
      set: 'KUBE-EXTERNAL-IP-LOCAL',
      of: external({ externalIPs: [NODE], externalTrafficPolicy: 'Local' }),
    },
    { what: "a load balancer's address", set: 'KUBE-LOAD-BALANCER', of: external(balancer.spec, balancer.status) },
  ];

  /** As kube-proxy leaves it: no label, no canaries in IPVS mode. */
  function left(set: string): IpvsRig {
    const made = withForeign();
    const { kernel } = made;
    kernel.device = true;
    const old = (address: string): Server => ({ ...FOREIGN, address: address as Address, port: 8090, scheduler: 'rr' });
    const to = { address: '10.244.1.21' as Address, port: 8080, weight: 1, connections: 0 };
    for (const server of [old('10.96.0.50'), old(NODE)]) {
      kernel.virtual.set(`TCP ${server.address}:8090`, { server, destinations: new Map([['10.244.1.21:8080', to]]) });
    }
    kernel.ours.add('10.96.0.50' as Address);
    kernel.sets.set(set, {
      spec: { name: set, type: 'hash:ip,port', family: 'IPv4', maxelem: 65_536 },
      entries: new Set([`${NODE},tcp:8090`]),
    });
    return made;
  }

  for (const { what, set, of } of cases) {
    it(`tells no drift of ${what} that is an address of the node`, async () => {
      const made = left(set);
      made.rig.become({ objects: of });
      const first = await made.rig.sync();
      made.rig.loop.distrust();
      const second = await made.rig.sync();
      assert.deepEqual([first.outcome, first.drift, second.outcome, second.drift], ['complete', [], 'complete', []]);
      assert.ok(made.kernel.virtual.has(`TCP ${NODE}:8090`));
    });

    it(`removes the server of ${what} that no Service has any more`, async () => {
      const made = left(set);
      made.rig.become({ objects: [] });
      const report = await made.rig.sync();
      assert.deepEqual([report.outcome, report.drift], ['complete', []]);
      assert.deepEqual([...made.kernel.virtual.keys()], ['TCP 203.0.113.7:443'], 'a server of another program stays');
    });
  }

  it('tells no drift of a server in an excluded range that a Service wants now', async () => {
    const options = { families: ['IPv4'], settings: () => ({ excludeCidrs: ['10.96.0.48/28' as Cidr] }) } as const;
    const { kernel, iptables } = left('KUBE-EXTERNAL-IP');
    const made = ipvsRig({ ...options, kernel, iptables });
    made.rig.become({ objects: external({}) });
    const { outcome, drift } = await made.rig.sync();
    assert.deepEqual([outcome, drift], ['complete', []]);
  });
});

describe('a listing that fails', () => {
  for (const what of ['device', 'servers', 'destinations', 'addresses', 'sets', 'set']) {
    it(`of ${what} removes nothing (kube-proxy treats it as empty)`, async () => {
      const made = withForeign();
      made.rig.become({ objects: objects(1) });
      await wellSynced(made);
      const before = made.kernel.dump();
      const again = ipvsRig({ families: ['IPv4'], kernel: made.kernel, iptables: made.iptables });
      made.kernel.options = {
        ...made.kernel.options,
        onRead: (read) => {
          if (read === what) throw new Error('EIO: injected');
        },
      };
      // The new agent does not want the installed objects, and cannot read all of them.
      again.rig.become({ objects: [] });
      const report = await again.rig.sync();
      assert.equal(report.outcome, 'failed');
      assert.deepEqual(made.kernel.dump(), before);
    });
  }
});

describe('another program', () => {
  it('that deletes our objects is reported at the resync, and the objects are written again', async () => {
    const made = withForeign();
    made.rig.become({ objects: objects(1) });
    await wellSynced(made);
    const before = made.kernel.dump();
    made.kernel.virtual.delete('TCP 10.96.0.20:80');
    made.kernel.virtual.get('TCP 10.96.0.10:80')?.destinations.delete('10.244.1.11:8080');
    made.kernel.ours.delete('10.96.0.30' as Address);
    made.kernel.sets.get('KUBE-CLUSTER-IP')?.entries.clear();
    assert.equal(await made.rig.mode.probe.isInstalled(new AbortController().signal), false);
    made.rig.loop.distrust();
    const report = await made.rig.sync();
    assert.equal(report.outcome, 'complete');
    for (const expected of [
      'server TCP 10.96.0.20:80',
      'destination TCP 10.96.0.10:80',
      'address 10.96.0.30',
      'entry KUBE-CLUSTER-IP',
    ]) {
      assert.ok(
        report.drift.some((drift) => driftText(drift).includes(expected)),
        `${expected} in ${report.drift.map(driftText).join('; ')}`,
      );
    }
    assert.deepEqual(made.kernel.dump(), before);
  });

  it('that deletes our objects between two syncs does not stop the next: it reads the kernel again', async () => {
    const made = withForeign();
    made.rig.become({ objects: objects(1) });
    await wellSynced(made);
    made.kernel.virtual.delete('TCP 10.96.0.10:80');
    made.rig.become({ objects: objects(2) });
    await wellSynced(made);
    assert.deepEqual(made.kernel.dump(), await wanted(2));
  });

  it('keeps its servers and sets over runs and cleanup (k8s#55857), which removes our IPv6 sets too', async () => {
    const made = ipvsRig();
    const theirs = withForeign();
    for (const [key, value] of theirs.kernel.virtual) made.kernel.virtual.set(key, value);
    for (const [key, value] of theirs.kernel.sets) made.kernel.sets.set(key, value);
    const before = made.kernel.dump();
    made.rig.become({ objects: objects(1) });
    await wellSynced(made);
    assert.ok(made.kernel.sets.has('KUBE-6-CLUSTER-IP'));
    await made.rig.mode.cleanup(new AbortController().signal);
    assert.deepEqual(made.kernel.dump(), before);
    assert.deepEqual([...made.kernel.sets.keys()], ['SOMEBODYS']);
    assert.equal(made.kernel.device, false);
  });

  it('keeps servers in the excluded ranges, even on addresses of our device', async () => {
    const made = ipvsRig({ families: ['IPv4'], settings: () => ({ excludeCidrs: ['10.96.0.0/24' as never] }) });
    made.rig.become({ objects: objects(1) });
    await wellSynced(made);
    made.rig.become({ objects: [] });
    await wellSynced(made);
    const left = [...made.kernel.virtual.keys()];
    assert.ok(left.every((key) => !key.includes('198.51.100.1')));
    const again = ipvsRig({
      families: ['IPv4'],
      kernel: made.kernel,
      iptables: made.iptables,
      settings: () => ({ excludeCidrs: ['203.0.113.0/24' as never] }),
    });
    made.kernel.virtual.set('TCP 203.0.113.7:443', { server: FOREIGN, destinations: new Map() });
    made.kernel.ours.add(FOREIGN.address);
    await wellSynced(again);
    assert.deepEqual([...made.kernel.virtual.keys()], ['TCP 203.0.113.7:443']);
  });
});

describe('a cleanup', () => {
  it('that cannot remove one family leaves the device, by which the next one finds the rest', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    made.rig.put(...objects(1));
    await wellSynced(made);
    made.kernel.options = {
      onRead: (what) => {
        if (what === 'destinations') throw new Error('EAGAIN: try again');
      },
    };
    await assert.rejects(made.rig.mode.cleanup(NEVER), /EAGAIN/);
    assert.equal(made.kernel.device, true);
    made.kernel.options = {};
    await made.rig.mode.cleanup(NEVER);
    assert.deepEqual([made.kernel.dump(), made.kernel.device], [[], false]);
  });

  it('that cannot remove servers leaves their addresses and sets, by which the next one knows that they are ours', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    made.rig.put(...objects(1));
    await wellSynced(made);
    made.kernel.options = {
      ...made.kernel.options,
      intercept: ({ kind }) => (kind === 'remove-server' ? new KernelError('environment', 'ENOBUFS') : undefined),
    };
    await assert.rejects(made.rig.mode.cleanup(NEVER), /server .*ENOBUFS/);
    assert.ok(made.kernel.ours.size > 0 && made.kernel.sets.size > 0);
    made.kernel.options = {};
    await made.rig.mode.cleanup(NEVER);
    assert.deepEqual([made.kernel.dump(), made.kernel.device], [[], false]);
  });
});

describe('the trial of a scheduler', () => {
  it('leaves nothing, whether the kernel has it or not, and makes the device first', async () => {
    for (const refusal of [undefined, new KernelError('refused', 'ENOENT: no such scheduler')]) {
      const kernel = new FakeIpvs();
      const writes: string[] = [];
      kernel.options = {
        intercept: ({ kind }) => {
          writes.push(kind);
          return kind === 'add-server' ? refusal : undefined;
        },
      };
      const trying = checkScheduler(kernel, 'sed', NEVER);
      await (refusal === undefined ? trying : assert.rejects(trying, IpvsUnusable));
      const undo = refusal === undefined ? 'remove-server' : 'remove-device';
      assert.deepEqual(writes, ['add-device', 'add-server', undo]);
      assert.equal(kernel.virtual.size, 0);
    }
  });

  it('leaves nothing where the answer of the kernel was lost, or the device by which the server is found', async () => {
    for (const isLeft of [false, true]) {
      const kernel = new FakeIpvs();
      const write = kernel.write.bind(kernel);
      const lost = new KernelError('environment', 'ENOMEM: not enough memory');
      kernel.write = async (writes) => {
        if (isLeft && writes.some(({ kind }) => kind === 'remove-server')) return writes.map(() => lost);
        const outcomes = await write(writes);
        return outcomes.map((outcome, at) => (writes[at]?.kind === 'add-server' ? lost : outcome));
      };
      await assert.rejects(checkScheduler(kernel, 'sed', NEVER), IpvsUnusable);
      assert.deepEqual([kernel.virtual.size, kernel.device], isLeft ? [1, true] : [0, false]);
    }
  });
});

describe('an address of the node', () => {
  it('that comes or goes is found when nothing else changed', async () => {
    const made = ipvsRig({ families: ['IPv4'] });
    made.rig.put(...objects(1));
    await wellSynced(made);
    const { probe } = made.rig.mode;
    const differs = async () => [await probe.isInstalled(NEVER), await probe.differs(NEVER)];
    assert.deepEqual(await differs(), [true, false]);
    const address = '192.168.77.9' as Address;
    made.kernel.others.add(address);
    assert.deepEqual([await differs(), await probe.mayDiffer()], [[true, true], true]);
    made.rig.loop.distrust();
    await wellSynced(made);
    assert.ok(made.kernel.virtual.has(`TCP ${address}:30080`));
    assert.deepEqual(await differs(), [true, false]);
  });
});
