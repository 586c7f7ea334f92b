/**
 * External policy Local in IPVS mode: rules balance pods and the node over all endpoints, so that IPVS never sees connections of which
 * it could not see the end (docs/ipvs.md, "Policy Local").
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address, Cidr } from '../../../../src/base/address.ts';
import type { ChainProbe } from '../../../../src/kernel/chain-probe.ts';
import { IptablesTools } from '../../../../src/kernel/iptables-tools.ts';
import type { KernelWrite } from '../../../../src/kernel/ipvs-kernel.ts';
import { ipvsMode } from '../../../../src/proxy/modes/ipvs/index.ts';
import { MAX_UNGROUPED, serviceChains } from '../../../../src/proxy/modes/netfilter/balancer.ts';
import { serverKey } from '../../../../src/proxy/modes/virtual-servers/tracked-objects.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { FakeIpvs } from '../../../helpers/kernel/fake-ipvs.ts';
import { type IpvsRig, ipvsRig } from '../../../helpers/proxy/ipvs-rig.ts';
import { DEFAULT_NODE_SETTINGS, defaultIpvsSettings } from '../../../helpers/proxy/ipvs-settings.ts';
import { fakeSysctls, NEVER, Rig } from '../../../helpers/proxy/rig.ts';

const VIP = '192.0.2.10';
const [HERE, ELSEWHERE] = ['10.244.1.11', '10.244.2.21'] as const;
const CHAIN = serviceChains('default/web', 'TCP')('SVC');

function web(spec: object = {}): object {
  const own = { type: 'ClusterIP', clusterIP: '10.96.0.10', ports: [{ port: 80 }], externalIPs: [VIP] };
  return service({ name: 'web', spec: { ...own, externalTrafficPolicy: 'Local', ...spec } });
}

function pods(...addresses: readonly string[]): object {
  const endpoints = addresses.map((address) => ({
    addresses: [address],
    nodeName: address.startsWith('10.244.1.') ? 'node' : 'other',
  }));
  return slice({ name: 'web-1', service: 'web', endpoints });
}

function world(localDetector = { kind: 'cidr', cidr: '10.244.0.0/16' as Cidr } as const): IpvsRig {
  return ipvsRig({ families: ['IPv4'], settings: () => ({ localDetector }) });
}

async function become(made: IpvsRig, ...objects: readonly object[]): Promise<void> {
  const report = await made.rig.put(...objects).sync();
  assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
}

const nat = ({ iptables }: IpvsRig, prefix: string) =>
  [...(iptables.kernels.IPv4.get('nat') ?? [])].flatMap(([chain, rules]) =>
    chain.startsWith(prefix) ? rules.map((rule) => `${chain} ${rule}`) : [],
  );
/** Another mode took over, or another program removed the rules; the sets stay. */
function flush({ kernels }: FakeIptables): void {
  for (const chains of kernels.IPv4.values()) {
    for (const name of [...chains.keys()]) if (name.startsWith('KUBE-')) chains.delete(name);
    for (const rules of chains.values()) rules.splice(0);
  }
}

const detours = ({ kernel }: IpvsRig) => [...(kernel.sets.get('KUBE-IPVS-DETOUR')?.entries ?? [])];

describe('policy Local in IPVS mode', () => {
  for (const [how, theirs] of [
    ['were flushed', []],
    [
      "kube-proxy's replaced",
      [['filter', 'KUBE-IPVS-FILTER', '-m set --match-set KUBE-LOAD-BALANCER dst,dst -j RETURN']],
    ],
  ] as const)
    it(`drops nothing of pods, nor of a Service that has an endpoint here again, while rules that ${how} are written`, async () => {
      const made = world();
      await become(made, web(), pods(ELSEWHERE));
      const { kernel, iptables, rig } = made;
      assert.equal(kernel.sets.get('KUBE-IPVS-DROP')?.entries.size, 1);
      flush(iptables);
      for (const [table, chain, rule] of theirs) iptables.kernels.IPv4.get(table)?.set(chain, [rule]);
      const moments: { drops: boolean; detours: boolean; entries: number | undefined }[] = [];
      const onCommit = () => {
        const rules = (table: string, chain: string) => iptables.kernels.IPv4.get(table)?.get(chain) ?? [];
        moments.push({
          drops: rules('filter', 'KUBE-IPVS-FILTER').some((rule) => rule.includes('KUBE-IPVS-DROP')),
          detours: rules('nat', 'KUBE-IPVS-LOCAL').length > 0,
          entries: kernel.sets.get('KUBE-IPVS-DROP')?.entries.size,
        });
      };
      iptables.options = { ...iptables.options, onCommit };
      rig.loop.distrust();
      await become(made, pods(HERE, ELSEWHERE));
      assert.ok(moments.some(({ drops }) => drops));
      assert.deepEqual(
        moments.filter(({ drops, detours, entries }) => drops && (!detours || entries !== 0)),
        [],
      );
    });

  it('drops nothing that the node sends by an old drop while rules are written that were gone', async () => {
    const made = world();
    const local = { externalIPs: [], externalTrafficPolicy: undefined, internalTrafficPolicy: 'Local' };
    await become(made, web(local), pods(ELSEWHERE));
    const { kernel, iptables, rig } = made;
    const drops = () => kernel.sets.get('KUBE-IPVS-OUT-DROP')?.entries.size;
    assert.equal(drops(), 1);
    flush(iptables);
    const atRules: (number | undefined)[] = [];
    const onCommit = () => {
      if ((iptables.kernels.IPv4.get('mangle')?.get('KUBE-IPVS-OUT-FILTER') ?? []).length > 0) atRules.push(drops());
    };
    iptables.options = { ...iptables.options, onCommit };
    rig.loop.distrust();
    await become(made, web({ externalIPs: [], externalTrafficPolicy: undefined }), pods(ELSEWHERE));
    assert.deepEqual([...new Set(atRules)], [0]);
  });

  it('keeps the detour of pods until the drop is gone that they avoid by it, also while another rule is written again', async () => {
    const made = world();
    await become(made, web(), pods(ELSEWHERE));
    const { kernel, iptables, rig } = made;
    const drops = () => kernel.sets.get('KUBE-IPVS-DROP')?.entries.size;
    assert.equal(drops(), 1);
    iptables.kernels.IPv4.get('nat')?.get('KUBE-IPVS-SOURCE')?.splice(0);
    const withoutDetour: (number | undefined)[] = [];
    const onCommit = () => {
      if (nat(made, 'KUBE-IPVS-LOCAL').length === 0) withoutDetour.push(drops());
    };
    iptables.options = { ...iptables.options, onCommit };
    rig.loop.distrust();
    await become(made, web({ externalTrafficPolicy: 'Cluster' }));
    assert.deepEqual([...new Set(withoutDetour)], [0]);
  });

  it('drops packets to a server that goes until it is gone: it may have an endpoint that an earlier agent left', async () => {
    const made = world();
    await become(made, web(), pods(ELSEWHERE));
    const { kernel, rig } = made;
    const since = kernel.written.length;
    await become(made, web({ externalIPs: [] }));
    const writes = kernel.written.slice(since).map((write) => {
      if (write.kind === 'remove-server') return `server ${write.server.address}`;
      return 'set' in write && write.kind === 'remove-entry' ? `${write.set} ${write.entry}` : '';
    });
    const [server, drop] = [writes.indexOf(`server ${VIP}`), writes.indexOf(`KUBE-IPVS-DROP ${VIP},tcp:80`)];
    assert.ok(server >= 0 && drop > server, writes.join('\n'));
    assert.equal(rig.mode.isWaiting, false);
  });

  it('leads pods and the node by rules to all endpoints, and to no virtual server', async () => {
    const made = world();
    await become(made, web(), pods(HERE, ELSEWHERE));
    assert.deepEqual(nat(made, 'KUBE-IPVS-LOCAL'), [
      `KUBE-IPVS-LOCAL -d ${VIP}/32 -p tcp -m comment --comment "default/web pods and the node use all endpoints" -m tcp --dport 80 -j ${CHAIN}`,
    ]);
    assert.deepEqual(
      nat(made, 'KUBE-S').filter((line) => line.includes('DNAT')),
      [
        `${CHAIN} -p tcp -m comment --comment "default/web" -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination ${HERE}:8080`,
        `${CHAIN} -p tcp -j DNAT --to-destination ${ELSEWHERE}:8080`,
      ],
    );
    const servers = new Set(made.kernel.virtual.keys());
    const targets = nat(made, '').flatMap((line) => / -p (\w+) .*--to-destination (\S+)/.exec(line)?.slice(1) ?? []);
    for (let i = 0; i < targets.length; i += 2) {
      assert.equal(servers.has(`${targets[i]?.toUpperCase()} ${targets[i + 1]}`), false);
    }
  });

  it('has them where both policies are Local, and none where there is no endpoint or where the policy is Cluster', async () => {
    const made = world();
    await become(made, web({ internalTrafficPolicy: 'Local' }), pods(ELSEWHERE));
    assert.deepEqual([detours(made).length, nat(made, CHAIN).length], [1, 1]);
    const without = [
      [web({ internalTrafficPolicy: 'Local' }), pods()],
      [web({ externalTrafficPolicy: 'Cluster' }), pods(HERE)],
    ];
    for (const objects of without) {
      await become(made, ...objects);
      assert.deepEqual([...detours(made), ...nat(made, 'KUBE-SVC'), ...nat(made, 'KUBE-IPVS-LOCAL')], []);
    }
  });

  it('has a node port at each address of the node, groups in a large Service, and lists for ClientIP affinity', async () => {
    const made = world();
    const ports = [{ port: 80, nodePort: 30_080 }];
    await become(made, web({ type: 'NodePort', externalIPs: [], ports }), pods(HERE));
    const leading = nat(made, 'KUBE-IPVS-LOCAL');
    assert.deepEqual(
      leading.map((line) => /-d (\S+) .*--dport (\d+) -j (\S+)/.exec(line)?.slice(1).join(' ')).sort(),
      ['10.244.1.1/32 30080', '192.168.77.2/32 30080'].map((at) => `${at} ${CHAIN}`),
    );
    const many = Array.from({ length: MAX_UNGROUPED + 1 }, (_, i) => `10.244.2.${i + 1}`);
    await become(made, web(), pods(...many));
    assert.ok(nat(made, CHAIN).every((line) => / -j KUBE-SEG-/.test(line)));
    assert.equal(nat(made, 'KUBE-SEG-').length, many.length);
    await become(made, web({ sessionAffinity: 'ClientIP' }), pods(HERE, ELSEWHERE));
    assert.equal(nat(made, CHAIN).filter((line) => line.includes('--rcheck --seconds 10800')).length, 2);
    assert.equal(nat(made, 'KUBE-SEP-').filter((line) => line.includes('-m recent --set')).length, 2);
    assert.deepEqual(nat(made, 'KUBE-SEG-'), []);
    made.rig.remove('Service', 'default/web');
    await become(made);
    assert.deepEqual(
      nat(made, 'KUBE-S').filter((line) => /KUBE-(SVC|SEP)/.test(line)),
      [],
    );
  });

  it('takes an endpoint out of the rules before its virtual server loses it, and adds it to the rules first', async () => {
    const made = world();
    await become(made, web(), pods(HERE, '10.244.1.12'));
    const seen: string[] = [];
    const server = serverKey({ protocol: 'TCP', address: VIP as Address, port: 80 });
    const note = () => {
      const inRules = nat(made, CHAIN).some((line) => line.includes('10.244.1.12'));
      const inServer = [...(made.kernel.virtual.get(server)?.destinations.keys() ?? [])].some((at) =>
        at.includes('10.244.1.12'),
      );
      const state = `${inRules ? 'rules' : ''} ${inServer ? 'server' : ''}`.trim();
      if (seen.at(-1) !== state) seen.push(state);
    };
    made.kernel.options = { ...made.kernel.options, intercept: () => void note() };
    made.iptables.options = { ...made.iptables.options, onCommit: note };
    await become(made, pods(HERE));
    note();
    await become(made, pods(HERE, '10.244.1.12'));
    note();
    assert.deepEqual(seen, ['server', '', 'rules', 'rules server']);
  });

  it('drops packets from outside only when pods and the node have their rules, where the address has served all', async () => {
    const made = world();
    await become(made, web({ externalTrafficPolicy: 'Cluster' }), pods(ELSEWHERE));
    const drops: number[] = [];
    const intercept = (write: KernelWrite) => {
      if (write.kind === 'add-entry' && write.set === 'KUBE-IPVS-DROP') drops.push(nat(made, CHAIN).length);
      return undefined;
    };
    made.kernel.options = { ...made.kernel.options, intercept };
    await become(made, web());
    assert.deepEqual(drops, [1]);
  });

  it('adds its rules before those of an earlier version, which led to the cluster IP, and then removes these', async () => {
    const made = world();
    await become(made, web(), pods(HERE));
    const tables = made.iptables.kernels.IPv4.get('nat') ?? assert.fail();
    const chain = tables.get('KUBE-IPVS-LOCAL') ?? assert.fail();
    const [rule = ''] = chain;
    chain[0] = rule.replace(`-j ${CHAIN}`, '-j DNAT --to-destination 10.96.0.10:80');
    tables.delete(CHAIN);
    const first: (string | undefined)[] = [];
    made.iptables.options = { ...made.iptables.options, onCommit: () => first.push(nat(made, 'KUBE-IPVS-LOCAL')[0]) };
    const next = ipvsRig({
      ...made,
      families: ['IPv4'],
      settings: () => ({ localDetector: { kind: 'cidr', cidr: '10.244.0.0/16' as Cidr } }),
    });
    await become(next, web(), pods(HERE));
    assert.deepEqual([...new Set(first)], [`KUBE-IPVS-LOCAL ${rule}`]);
    assert.deepEqual(nat(next, 'KUBE-IPVS-LOCAL'), [`KUBE-IPVS-LOCAL ${rule}`]);
    assert.equal(nat(next, CHAIN).length, 1);
  });

  it('counts connections of rules beside those of virtual servers, and keeps the counts when rules are written anew', async () => {
    const [iptables, kernel] = [new FakeIptables(), new FakeIpvs()];
    iptables.options = { hasSet: (name) => kernel.sets.has(name) };
    const counters = new Map([['KUBE-IPVS-LOCAL', 7]]);
    const probe: ChainProbe = {
      hasChain: ({ table, chain }) => Promise.resolve(iptables.kernels.IPv4.get(table)?.has(chain) === true),
      kernelCounters: ({ chain }) =>
        Promise.resolve((iptables.kernels.IPv4.get('nat')?.get(chain) ?? []).map(() => counters.get(chain) ?? 0)),
    };
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    const families = [{ settings: defaultIpvsSettings('IPv4'), tools, probe, keepsCounts: true }];
    const node = DEFAULT_NODE_SETTINGS;
    const { questions } = kernel;
    const mode = ipvsMode({ families, kernel, questions, sysctls: fakeSysctls(), node, wantedSettings: new Map() });
    const rig = new Rig({ commands: iptables, mode });
    assert.equal((await rig.put(web(), pods(HERE, ELSEWHERE)).sync()).outcome, 'complete');
    kernel.counted = [
      { protocol: 'TCP', address: VIP as Address, port: 80, connections: 3, bytes: { in: 30, out: 40 } },
    ];
    const between = async <T>(work: () => Promise<T>) => await work();
    const counts = await mode.metrics.connectionCounts({ signal: NEVER, between });
    const of = { service: 'default/web', family: 'IPv4', address: VIP, protocol: 'TCP', port: 80 };
    assert.deepEqual(counts, [
      { ...of, count: 7, isBesideServer: true },
      { ...of, count: 3, bytes: { in: 30, out: 40 } },
    ]);
    await rig
      .put(
        service({
          name: 'api',
          spec: {
            clusterIP: '10.96.0.20',
            ports: [{ port: 80 }],
            externalIPs: ['192.0.2.20'],
            externalTrafficPolicy: 'Local',
          },
        }),
        slice({ name: 'api-1', service: 'api', endpoints: [HERE] }),
      )
      .sync();
    const restored = iptables.ran.at(-1)?.lines.find((line) => line.startsWith(`-A KUBE-IPVS-LOCAL -d ${VIP}/32`));
    assert.match(restored ?? '', / -c 7 0$/);
  });
});
