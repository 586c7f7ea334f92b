/** IPVS mode on a real kernel with real packets: turns, draining, what is foreign, both ways between the modes under traffic. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { type Cidr, FAMILIES, type Family } from '../../src/base/address.ts';
import { LAB, Lab, remotePodAddress } from '../../src/cli/lab/lab.ts';
import { IptablesTools } from '../../src/kernel/iptables-tools.ts';
import type { IpvsKernel } from '../../src/kernel/ipvs-kernel.ts';
import type { Sysctls } from '../../src/kernel/sysctls.ts';
import { handover } from '../../src/proxy/modes/handover.ts';
import { iptablesMode } from '../../src/proxy/modes/iptables/index.ts';
import type { LocalDetector } from '../../src/proxy/modes/netfilter/local-traffic.ts';
import { until } from '../helpers/base/until.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { defaultSettings, NEVER, Rig } from '../helpers/proxy/rig.ts';
import { kernelIn, modeIn, rigIn, settledSysctls } from './ipvs-under-test.ts';

/** A program: six connections, one after the other, each reset after the first bytes of the answer. */
const RESETTING = `
  const [address, port] = process.argv.slice(1);
  const next = (left) => {
    if (left === 0) return;
    const socket = require('node:net').connect(Number(port), address, () => socket.write('GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'));
    socket.once('data', () => socket.resetAndDestroy()).once('close', () => next(left - 1));
  };
  next(6);
`;

/**
 * Milliseconds between two requests of one route, and for one: an emulated processor is to be left some time for the writes, and needs half a
 * minute to start the program that asks beside them.
 */
const TRAFFIC = { pause: 250, timeout: 90_000 };

describe('IPVS mode on a real kernel', () => {
  let lab: Lab;
  let kernel: IpvsKernel;
  let sysctls: Sysctls;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 1, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    await lab.serve('other', 'TCP', POD_PORT, remotePodAddress(1).v4);
    kernel = await kernelIn(lab, 'node');
    sysctls = await settledSysctls(lab);
  });
  after(() => lab.remove());
  afterEach(async () => {
    await modeIn(lab, kernel).cleanup(NEVER);
  });

  async function wellSynced(rig: Rig): Promise<void> {
    const report = await rig.sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
  }

  /** An agent in IPVS mode that has these objects. */
  async function served(objects: readonly object[], options: Parameters<typeof rigIn>[2] = {}): Promise<Rig> {
    const rig = rigIn(lab, kernel, { sysctls, ...options }).put(...objects);
    await wellSynced(rig);
    return rig;
  }

  /** The same in iptables mode, taking over from IPVS mode as the agent does (agent/build-mode.ts). */
  async function servedByRules(objects: readonly object[], localDetector: LocalDetector): Promise<Rig> {
    const families = FAMILIES.map((family) => ({
      settings: { ...defaultSettings(family), localDetector },
      tools: new IptablesTools(commandsIn(lab, 'node'), family, 'auto'),
      sysctls: sysctlsIn(lab, 'node'),
    }));
    const rules = iptablesMode(families);
    const mode = (await kernel.hasDevice())
      ? handover(rules, modeIn(lab, kernel, { isPredecessor: true, sysctls }))
      : rules;
    const rig = new Rig({ commands: commandsIn(lab, 'node'), mode }).put(...objects);
    await wellSynced(rig);
    return rig;
  }

  const ipvsadm = (...args: string[]) => lab.exec('node', 'ipvsadm', ...args);
  const ask = (from: string, address: string, port: number, keep?: string) =>
    lab.ask(from, { address, port, timeout: 8000, ...(keep === undefined ? {} : { keep }) });

  it('takes turns: rr gives each endpoint every third request', async () => {
    await served(webObjects([1, 2]));
    const by: string[] = [];
    for (let i = 0; i < 9; i++) {
      const answer = await ask('client', LAB.node.v4, NODE_PORT);
      by.push(answer.outcome === 'reply' ? answer.by : JSON.stringify(answer));
    }
    assert.deepEqual([...by.slice(0, 3)].sort(), ['other', 'pod-1', 'pod-2']);
    assert.deepEqual(by.slice(3), [...by.slice(0, 3), ...by.slice(0, 3)]);
  });

  it('another scheduler, the three timeouts and persistence are as they are asked for', async () => {
    const sticky = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 77 } } };
    const node = { tcpTimeout: 300, udpTimeout: 10 };
    const rig = await served(webObjects([1, 2], sticky), { settings: () => ({ scheduler: 'lc' }), node });
    assert.match(await ipvsadm('-Sn'), /-A -t 10\.96\.0\.10:80 -s lc -p 77\n/);
    assert.match(await ipvsadm('-L', '--timeout'), /300 120 10/);
    const answers = [];
    for (let i = 0; i < 4; i++) answers.push(await ask('client', LAB.node.v4, NODE_PORT));
    assert.equal(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1, 'one client, one endpoint');
    await wellSynced(rig.put(...webObjects([1, 2])));
    assert.match(await ipvsadm('-Sn'), /-A -t 10\.96\.0\.10:80 -s lc\n/);
  });

  it('a kept connection to an endpoint that goes lives on, over a restart too, and new ones go elsewhere', async () => {
    await served(webObjects([1, 2], { hasOther: false }));
    const kept = await ask('client', LAB.node.v4, NODE_PORT, 'drains');
    const by = kept.outcome === 'reply' ? kept.by : '';
    const left = by === 'pod-1' ? 2 : 1;
    const rig = rigIn(lab, kernel, { sysctls }).put(...webObjects([left], { hasOther: false }));
    await wellSynced(rig);
    assert.match(await ipvsadm('-Sn'), new RegExp(`-a -t ${LAB.node.v4}:${NODE_PORT} -r \\S+ -m -w 0`));
    const later = await ask('client', LAB.node.v4, NODE_PORT, 'drains');
    // A new agent, and a Service that is gone as well.
    await served([]);
    const last = await ask('client', LAB.node.v4, NODE_PORT, 'drains');
    assert.deepEqual([later, last], [kept, kept]);
    assert.deepEqual(await ask('client', LAB.node.v4, NODE_PORT), { outcome: 'refused' });
    await served(webObjects([left], { hasOther: false }));
    for (let i = 0; i < 3; i++) {
      const fresh = await ask('client', LAB.node.v4, NODE_PORT);
      assert.equal(fresh.outcome === 'reply' && fresh.by, `pod-${left}`);
    }
  });

  it('cleanup leaves what others made: servers, sets, rules (k8s#55857)', async () => {
    await ipvsadm('-A', '-t', '203.0.113.7:443', '-s', 'wlc');
    await lab.exec('node', 'ipset', 'create', 'SOMEBODYS', 'hash:ip');
    await lab.exec('node', 'iptables', '-A', 'INPUT', '-s', '203.0.113.9', '-j', 'DROP');
    try {
      const rig = await served(webObjects([1, 2]));
      await rig.mode.cleanup(NEVER);
      assert.equal(await ipvsadm('-Sn'), '-A -t 203.0.113.7:443 -s wlc\n');
      assert.equal(await lab.exec('node', 'ipset', 'list', '-n'), 'SOMEBODYS\n');
      const rules = await lab.exec('node', 'iptables-save');
      assert.match(rules, /-A INPUT -s 203\.0\.113\.9\/32 -j DROP/);
      assert.doesNotMatch(rules, /KUBE-/);
      assert.equal(await kernel.hasDevice(), false);
    } finally {
      await ipvsadm('-C');
      await lab.exec('node', 'ipset', 'destroy', 'SOMEBODYS');
      await lab.exec('node', 'iptables', '-F', 'INPUT');
    }
  });

  it('what another program deleted is seen at the resync, and served again', async () => {
    const rig = await served(webObjects([1, 2]));
    await ipvsadm('-D', '-t', `${WEB}:80`);
    await lab.exec('node', 'ip', 'address', 'delete', `${WEB}/32`, 'dev', 'kube-ipvs0');
    await lab.exec('node', 'ipset', 'flush', 'KUBE-NODE-PORT-TCP');
    assert.equal(await rig.mode.probe.isInstalled(NEVER), false);
    rig.loop.distrust();
    const report = await rig.sync();
    assert.deepEqual([report.outcome, report.drift.length >= 3], ['complete', true]);
    assert.equal((await ask('pod-3', WEB, 80)).outcome, 'reply');
    assert.equal(await rig.mode.probe.isInstalled(NEVER), true);
  });

  describe('policy Local, for pods and the node', () => {
    const localDetector: LocalDetector = { kind: 'cidr', cidr: '10.244.0.0/16' as Cidr };
    const VIP = '192.0.2.10';
    const local = (here: readonly number[], more: object = {}) =>
      webObjects(here, { externalTrafficPolicy: 'Local', externalIPs: [VIP], ...more });
    const options = { settings: (family: Family) => (family === 'IPv4' ? { localDetector } : {}) };

    /** Connections of the Service's ports that a table calls established. */
    async function established(command: 'ipvsadm' | 'conntrack'): Promise<string[]> {
      const args = command === 'ipvsadm' ? ['-Lnc'] : ['-L', '-p', 'tcp', '--state', 'ESTABLISHED'];
      const lines = (await lab.exec('node', command, ...args)).split('\n');
      return lines.filter((line) => line.includes('ESTABLISHED') && /[:=](80|30080)\b/.test(line));
    }

    /** Connections that the client ends with a reset, after the answer: the endpoint says nothing any more. */
    async function reset(from: string, address: string, port: number): Promise<void> {
      await lab.exec(from, process.execPath, '-e', RESETTING, address, String(port));
    }

    async function served12(): Promise<Set<string>> {
      const by = new Set<string>();
      for (let i = 0; i < 12; i++) {
        for (const from of ['pod-3', 'node']) {
          for (const [address, port] of [
            [LAB.node.v4, NODE_PORT],
            [VIP, 80],
          ] as const) {
            const answer = await ask(from, address, port);
            assert.equal(answer.outcome, 'reply', `${from} to ${address}: ${JSON.stringify(answer)}`);
            if (answer.outcome === 'reply') by.add(answer.by);
          }
        }
      }
      return by;
    }

    it('no closed connection stays in IPVS or conntrack, and a removed endpoint or Service goes at once', async () => {
      const rig = await served(local([1, 2]), options);
      assert.deepEqual([...(await served12())].sort(), ['other', 'pod-1', 'pod-2']);
      for (const from of ['pod-3', 'node']) await reset(from, VIP, 80);
      await until('conntrack to see the ends', async () => (await established('conntrack')).length === 0);
      assert.deepEqual(await established('ipvsadm'), []);
      await wellSynced(rig.put(...local([1])));
      assert.doesNotMatch(await ipvsadm('-Sn'), /-w 0/);
      assert.doesNotMatch(await ipvsadm('-Lnc'), /10\.244\./, 'IPVS has seen none of them');
      assert.deepEqual([...(await served12())].sort(), ['other', 'pod-1']);
      const gone = rigIn(lab, kernel, { sysctls, ...options });
      await wellSynced(gone);
      assert.equal(await ipvsadm('-Sn'), '');
      assert.doesNotMatch(await lab.exec('node', 'ip', 'address', 'show', 'kube-ipvs0'), /inet /);
      assert.doesNotMatch(await lab.exec('node', 'iptables-save'), /KUBE-(SVC|DSL)-/);
    });

    it('a kept connection outlives its endpoint, which takes no new one', async () => {
      const rig = await served(local([1, 2], { hasOther: false }), options);
      const kept = await ask('pod-3', VIP, 80, 'kept past policy Local');
      const left = kept.outcome === 'reply' && kept.by === 'pod-1' ? 2 : 1;
      await wellSynced(rig.put(...local([left], { hasOther: false })));
      assert.deepEqual([...(await served12())], [`pod-${left}`]);
      assert.deepEqual(await ask('pod-3', VIP, 80, 'kept past policy Local'), kept);
    });

    it('ClientIP affinity holds for both addresses, and both policies Local still give them all endpoints', async () => {
      const sticky = { sessionAffinity: 'ClientIP', internalTrafficPolicy: 'Local' };
      await served(local([], sticky), options);
      for (const from of ['pod-3', 'node']) {
        for (const [address, port] of [
          [LAB.node.v4, NODE_PORT],
          [VIP, 80],
        ] as const) {
          const answer = await ask(from, address, port);
          assert.equal(answer.outcome === 'reply' && answer.by, 'other', `${from} to ${address}`);
        }
      }
      await served(local([1, 2], sticky), options);
      for (let i = 0; i < 6; i++) {
        const answer = await ask('pod-3', i % 2 === 0 ? VIP : LAB.node.v4, i % 2 === 0 ? 80 : NODE_PORT);
        assert.equal(answer.outcome === 'reply' && answer.by, 'other', 'the endpoint that knows the client');
      }
    });

    it('what an earlier version left, a rule to the cluster IP, is replaced, and a connection through it lives on', async () => {
      await served(local([1, 2]), options);
      await lab.exec('node', 'iptables', '-t', 'nat', '-F', 'KUBE-IPVS-LOCAL');
      const match = [
        '-d',
        `${VIP}/32`,
        '-p',
        'tcp',
        '-m',
        'comment',
        '--comment',
        'default/web pods and the node use all endpoints',
      ];
      const former = [...match, '-m', 'tcp', '--dport', '80', '-j', 'DNAT', '--to-destination', `${WEB}:80`];
      await lab.exec('node', 'iptables', '-t', 'nat', '-A', 'KUBE-IPVS-LOCAL', ...former);
      const kept = await ask('pod-3', VIP, 80, 'kept by the earlier version');
      assert.equal(kept.outcome, 'reply');
      await served(local([1, 2]), options);
      const rules = await lab.exec('node', 'iptables-save', '-t', 'nat');
      assert.doesNotMatch(rules, new RegExp(`--to-destination ${WEB}:`));
      assert.match(rules, new RegExp(`-A KUBE-IPVS-LOCAL -d ${VIP}/32 .* -j KUBE-SVC-`));
      assert.deepEqual(await ask('pod-3', VIP, 80, 'kept by the earlier version'), kept);
    });
  });

  // A takeover leaves the same for the next one, whichever detector there is.
  const takeovers: readonly (readonly [rounds: number, LocalDetector])[] = [
    [2, { kind: 'none' }],
    [1, { kind: 'cidr', cidr: '10.244.0.0/16' as Cidr }],
  ];
  for (const [rounds, localDetector] of takeovers) {
    const how =
      localDetector.kind === 'none' ? 'where pods are not known from others' : 'where pods are known by their range';
    it(`from iptables to ipvs and back under continuous traffic no request fails, ${how}`, async () => {
      const objects = webObjects([1, 2]);
      await servedByRules(objects, localDetector);
      const kept = await ask('client', LAB.node.v4, NODE_PORT, how);
      // A client outside is masqueraded on its way to a cluster IP only where it can be known from a pod.
      const fromOutside = localDetector.kind === 'none' ? [] : [{ from: 'client', address: WEB, port: 80 }];
      const traffic = startTraffic(
        lab,
        [
          ...fromOutside,
          { from: 'client', address: LAB.node.v4, port: NODE_PORT },
          { from: 'pod-3', address: WEB, port: 80 },
          { from: 'node', address: WEB, port: 80 },
        ],
        TRAFFIC,
      );
      const answers = [];
      let keptByIpvs: Awaited<ReturnType<typeof ask>> | undefined;
      try {
        for (let round = 1; round <= rounds; round++) {
          await served(objects, { settings: (family) => (family === 'IPv4' ? { localDetector } : {}) });
          assert.doesNotMatch(await lab.exec('node', 'iptables-save'), /KUBE-SVC/);
          keptByIpvs ??= await ask('client', LAB.node.v4, NODE_PORT, `${how}, by ipvs`);
          await servedByRules(objects, localDetector);
          answers.push(await ask('client', LAB.node.v4, NODE_PORT, how));
          // Where one began in IPVS mode, its server stays for it.
          assert.deepEqual(await ask('client', LAB.node.v4, NODE_PORT, `${how}, by ipvs`), keptByIpvs);
        }
      } finally {
        const { requests, failures } = await traffic.stop();
        assert.deepEqual(failures.slice(0, 5), []);
        assert.ok(requests > 30, `${requests} requests`);
      }
      const all = Array.from({ length: rounds }, () => kept);
      assert.deepEqual(answers, all, 'the table of connections keeps what began under rules');
    });
  }
});
