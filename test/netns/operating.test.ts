/** The agent as operators run it: with the file that kubeadm makes, asked for its health, its configuration changed while traffic flows, with few capabilities. */

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { startChild } from '../../src/kernel/commands.ts';
import { SLICEWIRE, startAgent } from '../helpers/cli/slicewire.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { OWN_LOCK } from '../helpers/kernel/own-lock.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { type Answer, askNode } from './node-server.ts';

const PORT = 8080;
/** Milliseconds. */
const LONGEST = 60_000;
/** Milliseconds for two syncPeriods of 1 s and a margin for processes that start. */
const SOON = 10_000;

/** As kubeadm writes it (its cmd/kubeadm/app/phases/addons/proxy), but that the table of connections is the host's. */
const config = (
  fields = '',
  iptables = '{syncPeriod: 1s, minSyncPeriod: 0s}',
) => `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: 0.0.0.0
clientConnection: {acceptContentTypes: "", burst: 0, contentType: "", kubeconfig: /var/lib/kube-proxy/kubeconfig.conf, qps: 0}
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack: {maxPerCore: 0, min: null, tcpCloseWaitTimeout: null, tcpEstablishedTimeout: null}
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables: ${iptables}
metricsBindAddress: ""
mode: ""
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
${fields}
`;

describe('an agent that operators run', () => {
  let lab: Lab;
  let folder: string;
  let file: string;
  const running: { stop(): Promise<void> }[] = [];

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', PORT);
  });
  after(() => lab.remove());

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'slicewire-test-'));
    file = join(folder, 'config.conf');
    await writeFile(file, config());
    await writeManifests(2);
  });
  afterEach(async () => {
    for (const child of running.splice(0)) await child.stop();
    await inNode(...SLICEWIRE, 'cleanup');
    await rm(folder, { recursive: true });
  });

  /** A Service with one of its endpoints here, for a load balancer that asks for its health. */
  async function writeManifests(endpoints: number): Promise<void> {
    await writeBalanced(
      [1, 2].slice(0, endpoints).map((n) => ({
        addresses: [podAddress(n).v4],
        nodeName: n === 1 ? 'node' : 'other',
      })),
    );
  }

  /** The same with both endpoints here, of which these are ready. */
  async function writeLocal({ ready }: { readonly ready: readonly number[] }): Promise<void> {
    await writeBalanced(
      [1, 2].map((n) => {
        const conditions = { ready: ready.includes(n) };
        return { addresses: [podAddress(n).v4], nodeName: 'node', conditions };
      }),
    );
  }

  async function writeBalanced(endpoints: readonly object[]): Promise<void> {
    const items = [
      service({
        name: 'web',
        spec: {
          type: 'LoadBalancer',
          clusterIP: '10.96.0.10',
          externalTrafficPolicy: 'Local',
          healthCheckNodePort: 32_000,
          ports: [{ port: 80 }],
        },
      }),
      slice({
        name: 'web-1',
        service: 'web',
        addressType: 'IPv4',
        ports: [{ name: '', port: PORT }],
        endpoints,
      }),
    ];
    await writeFile(join(folder, 'web.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  }

  const inNode = (command: string, ...args: string[]) => shellCommands.run(lab.inside('node', command, args), NEVER);
  const flags = () => ['--config', file, '--manifests', join(folder, 'web.json'), '--hostname-override', 'node'];

  function start(...more: string[]): AgentProcess {
    const agent = startAgent(lab, ['run', ...flags(), ...more]);
    running.push(agent);
    return agent;
  }

  const ask = (path: string, port?: number, init?: string) => askNode(lab, path, port, init);

  async function answers(what: string, path: string, fits: (answer: Answer) => boolean): Promise<void> {
    const end = performance.now() + LONGEST;
    for (let last: Answer | undefined; ; ) {
      last = await ask(path).catch(() => undefined);
      if (last !== undefined && fits(last)) return;
      if (performance.now() > end) assert.fail(`${what}: ${JSON.stringify(last)}`);
      await pause(100);
    }
  }

  it('starts with the file of kubeadm as it is, and answers on kube-proxy’s ports', async () => {
    await writeFile(
      file,
      config(
        '',
        '{localhostNodePorts: null, masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}',
      ),
    );
    const agent = start();
    await agent.synced();
    // As kube-proxy 1.37 warns of a file that names no mode (KEP-5343).
    const bad = agent.log.filter(({ level }) => level === 'warn' || level === 'error');
    assert.deepEqual(
      bad.map(({ msg }) => msg.split(',')[0]),
      ['the mode is not set'],
    );
    const health = await ask('/healthz');
    assert.deepEqual([health.status, health.headers['content-type']], [200, 'application/json']);
    for (const path of ['/livez', '/readyz']) assert.equal((await ask(path)).status, 200);
    const check = await ask('/', 32_000);
    assert.deepEqual([check.status, check.headers['x-load-balancing-endpoint-weight']], [200, '1']);
    assert.equal((await ask('/proxyMode', 10_249)).body, 'iptables');
    const { 'kubeproxy.config.k8s.io': shown } = JSON.parse((await ask('/configz', 10_249)).body);
    assert.deepEqual(
      [shown.kind, shown.clusterCIDR, shown.iptables.syncPeriod],
      ['KubeProxyConfiguration', '10.244.0.0/16', '30s'],
    );
    const { body } = await ask('/metrics', 10_249);
    assert.match(body, /^kubeproxy_sync_proxy_rules_last_timestamp_seconds\{ip_family="IPv4"\} \d+/m);
    assert.match(body, /^kubeproxy_sync_proxy_rules_iptables_total\{table="nat",ip_family="IPv4"\} \d+/m);
    assert.equal((await ask('/debug/pprof/', 10_249)).status, 404);
    const outside = await inNode('sh', '-c', "ss -Htln | awk '{print $4}' | sort");
    assert.deepEqual(outside.stdout.trim().split('\n'), ['*:10256', '0.0.0.0:32000', '127.0.0.1:10249']);
  });

  it('takes a changed file in place: no request fails, the process is the same, health goes on', async () => {
    const agent = start();
    await agent.synced();
    const traffic = { isOn: true, count: 0, failures: [] as string[] };
    const flowing = (async () => {
      while (traffic.isOn) {
        const answer = await lab.ask('pod-3', { address: '10.96.0.10', port: 80 });
        traffic.count += 1;
        if (answer.outcome !== 'reply') traffic.failures.push(JSON.stringify(answer));
      }
    })();
    for (const bit of [13, 15]) {
      const since = agent.log.length;
      await writeFile(file, config('', `{syncPeriod: 1s, minSyncPeriod: 0s, masqueradeBit: ${bit}}`));
      await agent.synced(since);
      const mark = `0x${(1 << bit).toString(16)}`;
      assert.match(
        await lab.exec('node', 'iptables-save', '-t', 'nat'),
        new RegExp(`KUBE-MARK-MASQ .*${mark}/${mark}`),
      );
      assert.equal((await ask('/', 32_000)).status, 200);
    }
    traffic.isOn = false;
    await flowing;
    assert.deepEqual(traffic.failures, []);
    assert.ok(traffic.count > 20, `${traffic.count} requests`);
    assert.match((await ask('/metrics', 10_249)).body, /slicewire_config_reloads_total\{result="applied"\} 2/);
    assert.match((await ask('/configz', 10_249)).body, /"masqueradeBit":15/);
  });

  it('serves external IPs as the feature gate says, from one change of the file to the next (KEP-5707)', async () => {
    const spec = { clusterIP: '10.96.0.10', ports: [{ port: 80 }], externalIPs: ['198.51.100.7', '192.168.77.2'] };
    const ports = [{ name: '', port: PORT }];
    const endpoints = [{ addresses: [podAddress(1).v4], nodeName: 'node' }];
    const items = [
      service({ name: 'web', spec }),
      slice({ name: 'web-1', service: 'web', addressType: 'IPv4', ports, endpoints }),
    ];
    await writeFile(join(folder, 'web.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    const gate = (value: boolean) => writeFile(file, config(`featureGates: {AllowServiceExternalIPs: ${value}}`));
    const reached = async () => (await lab.ask('client', { address: '198.51.100.7', port: 80, timeout: 1000 })).outcome;
    await lab.exec('client', 'ip', 'route', 'add', '198.51.100.7/32', 'via', '192.168.77.2');
    const agent = start();
    await agent.synced();
    assert.equal(await reached(), 'reply');
    const left =
      'external IPs of 1 Service are not served, because the feature gate AllowServiceExternalIPs is false: default/web';
    await gate(false);
    await agent.logged(({ msg }) => msg === left);
    await agent.synced(agent.log.findIndex(({ msg }) => msg === left));
    assert.doesNotMatch(await lab.exec('node', 'iptables-save'), /198\.51\.100\.7|-d 192\.168\.77\.2/);
    assert.equal(await reached(), 'timeout');
    assert.equal((await lab.ask('pod-3', { address: '10.96.0.10', port: 80 })).outcome, 'reply');
    assert.match((await ask('/configz', 10_249)).body, /"featureGates":\{"AllowServiceExternalIPs":false\}/);
    const plan = await inNode(...SLICEWIRE, 'plan', ...flags());
    assert.equal(plan.exitCode, 0, plan.stdout + plan.stderr);
    assert.ok(plan.stderr.includes(left), plan.stderr);
    const since = agent.log.length;
    await gate(true);
    await agent.synced(since);
    assert.equal(await reached(), 'reply');
  });

  it('refuses a changed file that is wrong, names all that is, and goes on with the former', async () => {
    const agent = start();
    await agent.synced();
    await writeFile(file, config('oomScoreAdj: 2000', '{masqueradeBit: 99}').replace('oomScoreAdj: null\n', ''));
    const line = await agent.logged(({ level }) => level === 'error');
    assert.match(
      line.msg,
      /refused: .*iptables.masqueradeBit: 99: .*oomScoreAdj: 2000: .*the former one stays in force/,
    );
    // What is right and cannot be used here is no better.
    const since = agent.log.length;
    await writeFile(
      file,
      config('', '{syncPeriod: 1s}')
        .replace('10.244.0.0/16', 'fd00::/16')
        .replace('bindAddress', 'mode: ipvs\nbindAddress')
        .replace('mode: ""\n', ''),
    );
    await agent.logged(({ msg }) => msg.includes('cannot be used') && msg.includes('the former one stays'), { since });
    await writeManifests(1);
    await agent.synced(since);
    assert.match((await ask('/metrics', 10_249)).body, /config_reloads_total\{result="failed"\} 1/);
    assert.equal((await ask('/healthz')).status, 200);
  });

  it('moves its servers when their addresses change, and ends when a port cannot be had and the file says so', async () => {
    const agent = start();
    await agent.synced();
    const since = agent.log.length;
    await writeFile(file, config().replace('healthzBindAddress: ""', 'healthzBindAddress: 127.0.0.1:10300'));
    await agent.logged(({ msg }) => msg.startsWith('synced') || msg.includes('are programmed'), { since });
    for (let tries = 0; tries < 50 && (await ask('/livez', 10_300).catch(() => undefined)) === undefined; tries++)
      await pause(100);
    assert.equal((await ask('/livez', 10_300)).status, 200);
    await assert.rejects(ask('/livez'));
    await agent.stop();
    // Another program has the port now.
    await lab.serve('node', 'TCP', 10_300, '127.0.0.1');
    const manifests = ['--manifests', join(folder, 'web.json'), '--conntrack-max-per-core', '0'];
    const there = ['--healthz-bind-address', '127.0.0.1:10300', '--bind-address-hard-fail'];
    const failing = startAgent(lab, ['run', ...manifests, ...there, '--hostname-override', 'node']);
    running.push(failing);
    assert.equal(await failing.ended, 1);
    assert.match(failing.text(), /the \w+ server cannot listen at 127\.0\.0\.1:10300: .*EADDRINUSE/);
    // A flag that the file takes the place of ends nothing.
    const second = start('--bind-address-hard-fail');
    await second.logged(({ msg }) => /cannot listen at .*; trying again/.test(msg));
  });

  it('is ill within two syncPeriods when the xtables lock is not had, says so, and is well when it is (k8s#105742)', async () => {
    const agent = start('--iptables-backend', 'legacy');
    await agent.synced();
    const holder = startChild({ file: 'flock', args: ['--no-fork', OWN_LOCK, 'sleep', '60'] });
    running.push(holder);
    await pause(200);
    const begun = performance.now();
    await writeManifests(1);
    const who =
      /IPv4: changes have not reached the kernel for \d+ s: .*the xtables lock: (flock|sleep) \(process \d+\) holds it/;
    await answers(
      'ill',
      '/healthz',
      ({ status, body }) => status === 503 && body.includes('have not reached the kernel'),
    );
    assert.ok(performance.now() - begun < SOON);
    // Each tool waits for the lock before it says whose it is.
    await answers('says why', '/healthz', ({ status, body }) => status === 503 && who.test(body));
    assert.equal((await ask('/readyz')).status, 503);
    assert.equal((await ask('/livez')).status, 200, 'no restart frees the lock');
    await holder.stop();
    await answers('well', '/healthz', ({ status }) => status === 200);
    await answers('ready', '/readyz', ({ status }) => status === 200);
    await agent.stop();
    await inNode(...SLICEWIRE, 'cleanup', '--iptables-backend', 'legacy');
  });

  it('tells load balancers of an endpoint after its rules are written, and at once when it is no longer ready', async () => {
    const health = async () => {
      const { status, headers } = await ask('/', 32_000);
      return `${status} ${headers['x-load-balancing-endpoint-weight']}`;
    };
    const becomes = async (wanted: string) => {
      const end = performance.now() + LONGEST;
      for (let last = await health(); last !== wanted; last = await health())
        assert.ok(performance.now() < end, `${last} instead of ${wanted}`);
    };
    const lock = async () => {
      const holder = startChild({ file: 'flock', args: ['--no-fork', OWN_LOCK, 'sleep', '120'] });
      running.push(holder);
      const probe = { file: 'flock', args: ['--nonblock', OWN_LOCK, 'true'] };
      while ((await shellCommands.run(probe, NEVER)).exitCode === 0) await pause(50);
      return holder;
    };
    /** All answers until the agent says that it did not get the lock. */
    const answersUnderLock = async (since: number) => {
      const seen = new Set<string>();
      let isOver = false;
      const over = agent
        .logged(({ msg }) => msg.includes('xtables lock'), { since })
        .finally(() => {
          isOver = true;
        });
      over.catch(() => undefined);
      while (!isOver) seen.add(await health());
      await over;
      return [...seen];
    };
    // Long enough for the agent to be healthy all the time.
    await writeFile(file, config('', '{syncPeriod: 30s, minSyncPeriod: 0s}'));
    await writeLocal({ ready: [] });
    const agent = start('--iptables-backend', 'legacy');
    await agent.synced();
    assert.equal(await health(), '503 0');
    let holder = await lock();
    let since = agent.log.length;
    await writeLocal({ ready: [1] });
    assert.deepEqual(await answersUnderLock(since), ['503 0'], 'no rule leads to the endpoint yet');
    await holder.stop();
    await writeLocal({ ready: [1, 2] });
    await becomes('200 2');
    const rules = await lab.exec('node', 'iptables-legacy-save', '-t', 'nat');
    for (const n of [1, 2]) assert.match(rules, new RegExp(`--to-destination ${podAddress(n).v4}:${PORT}`));
    holder = await lock();
    since = agent.log.length;
    await writeLocal({ ready: [2] });
    await becomes('200 1');
    // A sync waits for the lock now.
    await writeLocal({ ready: [] });
    await becomes('503 0');
    assert.deepEqual(
      agent.log.slice(since).filter(({ msg }) => msg === 'synced'),
      [],
    );
    await holder.stop();
    await agent.stop();
    await inNode(...SLICEWIRE, 'cleanup', '--iptables-backend', 'legacy');
  });

  it('works beside a thousand connections that say nothing, and malformed requests', async () => {
    const agent = start();
    await agent.synced();
    // Beyond the share of the node's own programs a connection is reset, maybe before its client hears that it was made.
    const crowd = `const net = require('net'); let n = 0;
      for (let i = 0; i < 1000; i++) {
        const one = net.connect(10256, '127.0.0.1', () => { if (i % 2) one.write('GET /x HT'); });
        const heard = () => { one.off('connect', heard).off('close', heard); if (++n === 1000) console.log('all'); };
        one.on('error', () => {}).on('connect', heard).on('close', heard);
      }`;
    const { promise, resolve } = Promise.withResolvers<void>();
    const { file: command, args } = lab.inside('node', process.execPath, ['-e', crowd]);
    running.push(startChild({ file: command, args, onLine: () => resolve() }));
    await promise;
    const since = agent.log.length;
    await writeManifests(1);
    const line = await agent.synced(since);
    assert.ok(Number(line.milliseconds) < 5000, `the sync took ${line.milliseconds} ms`);
    assert.equal((await ask('/healthz')).status, 200);
  });

  for (const [backend, capabilities] of [
    ['nft', ['net_admin']],
    ['legacy', ['net_admin', 'net_raw']],
  ] as const) {
    it(`needs ${capabilities.join(' and ')} alone with the ${backend} variant, once --init-only wrote the settings`, async () => {
      const init = await inNode(...SLICEWIRE, 'run', '--init-only', ...flags(), '--iptables-backend', backend);
      assert.equal(init.exitCode, 0, init.stderr);
      const set = ['-all', ...capabilities.map((name) => `+${name}`)].join(',');
      const confine = ['--no-new-privs', `--bounding-set=${set}`, `--inh-caps=${set}`, `--ambient-caps=${set}`];
      const args = [...confine, ...SLICEWIRE, 'run', ...flags(), '--iptables-backend', backend];
      const log: string[] = [];
      const inside = lab.inside('node', 'setpriv', args);
      const child = startChild({ ...inside, onErrorLine: (line) => log.push(line) });
      running.push(child);
      await answers('it works', '/healthz', ({ status }) => status === 200);
      for (let tries = 0; tries < 100 && !log.some((line) => line.includes('"synced"')); tries++) await pause(100);
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
      const bits = { net_admin: 1n << 12n, net_raw: 1n << 13n };
      const wanted = capabilities.reduce((sum, name) => sum | bits[name], 0n);
      assert.equal(BigInt(`0x${/^CapEff:\s*(\w+)/m.exec(status)?.[1]}`), wanted);
      assert.equal((await lab.ask('pod-3', { address: '10.96.0.10', port: 80 })).outcome, 'reply', log.join('\n'));
      await child.stop();
      await inNode(...SLICEWIRE, 'cleanup', '--iptables-backend', backend);
    });
  }

  it('writes in the variant of the kubelet, which a container cannot tell by the name iptables', async () => {
    await lab.exec('node', 'iptables-legacy', '-t', 'mangle', '-N', 'KUBE-IPTABLES-HINT');
    try {
      const once = await inNode(...SLICEWIRE, 'run', '--once', ...flags());
      assert.equal(once.exitCode, 0, once.stderr);
      assert.match(await lab.exec('node', 'iptables-legacy-save', '-t', 'nat'), /default\/web cluster IP/);
      assert.doesNotMatch(await lab.exec('node', 'iptables-nft-save', '-t', 'nat'), /default\/web/);
      await inNode(...SLICEWIRE, 'cleanup');
      assert.doesNotMatch(await lab.exec('node', 'iptables-legacy-save', '-t', 'nat'), /default\/web/);
    } finally {
      await lab.exec('node', 'iptables-legacy', '-t', 'mangle', '-X', 'KUBE-IPTABLES-HINT');
    }
  });
});
