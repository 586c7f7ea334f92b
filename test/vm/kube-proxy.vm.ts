/**
 * Between kube-proxy in IPVS mode and slicewire. What kube-proxy does with the sets that it finds is always tried, with its own commands;
 * both ways under traffic are tried with a real kube-proxy: `KUBE_PROXY=PATH` names its binary.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import type { IpvsKernel } from '../../src/kernel/ipvs-kernel.ts';
import type { Sysctls } from '../../src/kernel/sysctls.ts';
import { kubeProxyVersion } from '../bench/kube-proxy.ts';
import { until } from '../helpers/base/until.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { kernelIn, modeIn, rigIn, settledSysctls } from './ipvs-under-test.ts';
import { PATIENCE, RivalNode } from './rival-node.ts';

const { KUBE_PROXY } = process.env;
/** Of kube-proxy; 503 when it does not get on with its syncs. */
const HEALTHZ = 'http://127.0.0.1:10256/healthz';
/** Between two requests of one route. */
const PAUSE = 250;
const ROUTES = [
  { from: 'client', address: LAB.node.v4, port: NODE_PORT },
  { from: 'pod-3', address: WEB, port: 80 },
];

/** kube-proxy's sets and their types (pkg/proxy/ipvs/proxier.go, ipsetInfo). */
const SETS = [
  ['LOOP-BACK', 'hash:ip,port,ip'],
  ['CLUSTER-IP', 'hash:ip,port'],
  ['EXTERNAL-IP', 'hash:ip,port'],
  ['EXTERNAL-IP-LOCAL', 'hash:ip,port'],
  ['LOAD-BALANCER', 'hash:ip,port'],
  ['LOAD-BALANCER-FW', 'hash:ip,port'],
  ['LOAD-BALANCER-LOCAL', 'hash:ip,port'],
  ['LOAD-BALANCER-SOURCE-IP', 'hash:ip,port,ip'],
  ['LOAD-BALANCER-SOURCE-CIDR', 'hash:ip,port,net'],
  ['NODE-PORT-TCP', 'bitmap:port'],
  ['NODE-PORT-LOCAL-TCP', 'bitmap:port'],
  ['NODE-PORT-UDP', 'bitmap:port'],
  ['NODE-PORT-LOCAL-UDP', 'bitmap:port'],
  ['NODE-PORT-SCTP-HASH', 'hash:ip,port'],
  ['NODE-PORT-LOCAL-SCTP-HASH', 'hash:ip,port'],
  ['HEALTH-CHECK-NODE-PORT', 'bitmap:port'],
  ['IPVS-IPS', 'hash:ip'],
] as const;

/** The arguments of `ipset` with which kube-proxy makes sure of its sets before each sync (pkg/proxy/ipvs/ipset/ipset.go, createSet). */
function kubeProxysCreations(): string[][] {
  return ['inet', 'inet6'].flatMap((family) =>
    SETS.map(([name, type]) => {
      const full = (family === 'inet' ? `KUBE-${name}` : `KUBE-6-${name}`).slice(0, 31);
      const size = ['family', family, 'hashsize', '1024', 'maxelem', '65536'];
      const more = type === 'bitmap:port' ? ['range', '0-65535'] : size;
      return ['create', full, type, ...more, '-exist'];
    }),
  );
}

describe('the sets that slicewire leaves to kube-proxy', () => {
  let lab: Lab;
  let kernel: IpvsKernel & { close(): void };
  let sysctls: Sysctls;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    kernel = await kernelIn(lab, 'node');
    sysctls = await settledSysctls(lab);
  });
  after(async () => {
    await modeIn(lab, kernel).cleanup(NEVER);
    kernel.close();
    await lab.remove();
  });

  const ipset = (...args: string[]) => lab.exec('node', 'ipset', ...args);

  async function synced(): Promise<void> {
    const rig = rigIn(lab, kernel, { sysctls }).put(...webObjects([1, 2], { hasOther: false }));
    const report = await rig.sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
  }

  /** Throws with the command that the kernel refuses: kube-proxy ends its sync there. */
  async function kubeProxyMakesSure(): Promise<void> {
    const commands = kubeProxysCreations().map((args) => `ipset ${args.join(' ')}`);
    await lab.exec('node', 'sh', '-ec', commands.join('\n'));
  }

  it('are accepted by its commands', async () => {
    await synced();
    await kubeProxyMakesSure();
  });

  it('of an earlier version, which took 1,048,576 entries, are replaced under traffic, and no request fails', async () => {
    await synced();
    const enlarged = ['KUBE-CLUSTER-IP', 'KUBE-LOOP-BACK', 'KUBE-IPVS-IPS'];
    for (const set of enlarged) {
      const [header = '', ...entries] = (await ipset('save', set)).trim().split('\n');
      await ipset(
        ...header.replace(set, 'FORMER').replace('maxelem 65536', 'maxelem 1048576').split(' ').filter(Boolean),
      );
      for (const entry of entries) await ipset(...entry.replace(set, 'FORMER').split(' '));
      await ipset('swap', set, 'FORMER');
      await ipset('destroy', 'FORMER');
    }
    await assert.rejects(kubeProxyMakesSure(), /set with the same name already exists/);
    const before = await ipset('save');
    const traffic = startTraffic(lab, ROUTES, { pause: PAUSE });
    try {
      await synced();
    } finally {
      const { requests, failures } = await traffic.stop();
      assert.deepEqual(failures.slice(0, 5), []);
      assert.ok(requests > 0);
    }
    await kubeProxyMakesSure();
    const lines = (text: string) =>
      text
        .split('\n')
        .filter((line) => line.startsWith('add '))
        .sort();
    assert.deepEqual(lines(await ipset('save')), lines(before));
    assert.doesNotMatch(await ipset('list', '-n'), /RESIZE/);
  });

  it('grow when they are too small, and what an agent left that ended in between is removed', async () => {
    await modeIn(lab, kernel).cleanup(NEVER);
    await ipset('create', 'KUBE-CLUSTER-IP', 'hash:ip,port', 'family', 'inet', 'hashsize', '1024', 'maxelem', '1');
    await ipset('add', 'KUBE-CLUSTER-IP', '10.96.0.99,tcp:80');
    await ipset('create', 'KUBE-IPVS-RESIZE', 'hash:ip', 'family', 'inet');
    await synced();
    assert.match(await ipset('list', 'KUBE-CLUSTER-IP'), /maxelem 65536[\s\S]*Members:\n10\.96\.0\.10,tcp:80\n$/);
    assert.doesNotMatch(await ipset('list', '-n'), /RESIZE/);
  });
});

const reason = KUBE_PROXY === undefined ? 'KUBE_PROXY names no kube-proxy' : false;

describe('from kube-proxy in IPVS mode to slicewire and back', { skip: reason }, () => {
  const file = KUBE_PROXY ?? '';
  let node: RivalNode;
  before(async () => {
    node = await RivalNode.create({ pods: 3, remotePods: 0 });
    for (const n of [1, 2]) await node.lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    node.put(...webObjects([1, 2], { hasOther: false }), ...EXTERNAL);
  });
  after(() => node?.remove());

  /** Its external IP is an address of the node, so that it is not on kube-ipvs0. */
  const EXTERNAL = [
    service({ name: 'ext', spec: { clusterIP: '10.96.0.11', externalIPs: [LAB.node.v4], ports: [{ port: 8090 }] } }),
    slice({
      ...{ name: 'ext-1', service: 'ext', addressType: 'IPv4', ports: [{ name: '', port: POD_PORT }] },
      endpoints: [{ addresses: [podAddress(1).v4], nodeName: 'node' }],
    }),
  ];
  const ipvsadm = () => node.lab.exec('node', 'ipvsadm', '-Sn');

  it('no request fails, no drift is told, and kube-proxy goes on with its syncs', async (t) => {
    t.diagnostic(await kubeProxyVersion(file));
    const first = await node.kubeProxy(file, 'ipvs');
    const traffic = startTraffic(node.lab, [...ROUTES, { from: 'client', address: LAB.node.v4, port: 8090 }], {
      pause: PAUSE,
    });
    try {
      await first.stop();
      const agent = await node.slicewire('ipvs');
      await agent.stop();
      const warned = agent.log.filter(({ level }) => level !== 'info').map(({ msg }) => msg);
      const untrue = warned.filter((msg) => msg.includes('another program'));
      assert.deepEqual(untrue, [], agent.text());
      const second = await node.kubeProxy(file, 'ipvs');
      try {
        t.diagnostic(`kube-proxy synced ${Math.round(second.milliseconds / 1000)} s after its start`);
        node.put(...webObjects([2], { hasOther: false }).slice(1));
        const serving = `-t ${WEB}:80 -r ${podAddress(1).v4}:${POD_PORT} -m -w 1`;
        const isGone = async () => !(await ipvsadm()).includes(serving);
        await until('kube-proxy takes an endpoint out', isGone, PATIENCE);
        const health = await node.lab.exec('node', 'curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', HEALTHZ);
        assert.equal(health, '200');
      } finally {
        await second.stop();
      }
    } finally {
      const { requests, failures } = await traffic.stop();
      t.diagnostic(`${requests} requests, ${failures.length} failed`);
      assert.deepEqual(failures.slice(0, 5), []);
      assert.ok(requests > 30, `${requests} requests`);
    }
  });
});
