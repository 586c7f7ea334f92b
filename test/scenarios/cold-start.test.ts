/**
 * The first sync of a node, of many Services: whoever sends a packet between two commits meets a Service whole or not at
 * all, and DNS and the API server's Service before all others.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Address, endpointText } from '../../src/base/address.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { fatesIn, viewOfSaved } from '../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { Rig } from '../helpers/proxy/rig.ts';

const SERVICES = 1500;
const SAMPLE = [2, 7, 500, 1003, SERVICES - 1];
const EVERY_FIFTH_IS_EMPTY = 5;

const clusterIP = (n: number) => `10.${96 + (n % 16)}.${(n * 7919) % 256}.${n % 251}`;
const podIPs = (n: number) => [1, 2].map((i) => `10.244.${n >> 5}.${(n % 32) * 4 + i}`);

function objectsOf(n: number): object[] {
  const isEmpty = n % EVERY_FIFTH_IS_EMPTY === 2;
  return [
    service({ name: `s${n}`, spec: { clusterIP: clusterIP(n), ports: [{ port: 80 }] } }),
    ...(isEmpty ? [] : [slice({ name: `s${n}-a`, service: `s${n}`, endpoints: podIPs(n) })]),
  ];
}

function needed(name: string, namespace: string, { ip, port }: { ip: string; port: number }): object[] {
  return [
    service({ name, namespace, spec: { clusterIP: ip, ports: [{ port }] } }),
    slice({ name: `${name}-a`, namespace, service: name, endpoints: ['10.244.200.1'] }),
  ];
}

const API_SERVER = { ip: '10.96.255.1', port: 443 };
const DNS = { ip: '10.96.255.10', port: 53 };

class ColdStart {
  readonly kernel = new FakeIptables();
  readonly rig = new Rig({ commands: this.kernel, families: ['IPv4'] });

  constructor() {
    for (let n = 1; n < SERVICES; n++) this.rig.put(...objectsOf(n));
    this.rig.put(...needed('kubernetes', 'default', API_SERVER), ...needed('dns', 'kube-system', DNS));
  }

  fates(ip: string, port: number): string[] {
    const packet = {
      protocol: 'TCP',
      source: '10.244.250.1' as Address,
      destination: ip as Address,
      port,
      device: 'eth0',
      state: 'NEW',
    } as const;
    const facts = { localAddresses: new Set(['192.168.77.2']), remembered: new Set<string>() };
    const view = viewOfSaved(this.kernel.save('IPv4'), 'IPv4');
    return fatesIn(view, packet, facts).map((fate) => `${fate.kind} ${fate.backend}`);
  }
}

describe('a cold start', () => {
  it('shows each Service whole or not at all, after each commit', async () => {
    const cold = new ColdStart();
    const seen = new Map<number, Set<string>>(SAMPLE.map((n) => [n, new Set()]));
    let commits = 0;
    cold.kernel.options = {
      onCommit: () => {
        commits += 1;
        for (const n of SAMPLE) seen.get(n)?.add(cold.fates(clusterIP(n), 80).join(', '));
      },
    };
    assert.equal((await cold.rig.sync()).outcome, 'complete');
    assert.ok(commits > 5, `${commits} commits`);
    for (const n of SAMPLE) {
      const isEmpty = n % EVERY_FIFTH_IS_EMPTY === 2;
      const whole = podIPs(n).map((ip) => `balanced ${endpointText(ip as Address, 8080)}`);
      assert.deepEqual([...(seen.get(n) ?? [])], ['untouched ', isEmpty ? 'rejected ' : whole.join(', ')], `s${n}`);
    }
  });

  it('has DNS and the API server before all others', async () => {
    const cold = new ColdStart();
    const order: string[] = [];
    const watched = { dns: DNS, 'the API server': API_SERVER, another: { ip: clusterIP(7), port: 80 } };
    cold.kernel.options = {
      onCommit: () => {
        for (const [name, { ip, port }] of Object.entries(watched)) {
          if (!order.includes(name) && cold.fates(ip, port)[0] !== 'untouched ') order.push(name);
        }
      },
    };
    assert.equal((await cold.rig.sync()).outcome, 'complete');
    assert.deepEqual(order, ['dns', 'the API server', 'another']);
    const begun = cold.kernel.ran.findIndex(({ lines }) => lines.some((line) => line.includes(DNS.ip)));
    const before = cold.kernel.ran.slice(0, begun + 1).reduce((sum, { lines }) => sum + lines.length, 0);
    assert.ok(before < 200, `${before} lines were written until DNS was there`);
  });

  it('that a restore breaks off goes on where it was', async () => {
    const cold = new ColdStart();
    let restores = 0;
    cold.kernel.options = {
      intercept: ({ file }) => {
        if (!file.endsWith('-restore')) return undefined;
        restores += 1;
        return restores === 3 ? { exitCode: undefined, stdout: '', stderr: 'killed' } : undefined;
      },
    };
    assert.equal((await cold.rig.sync()).outcome, 'failed');
    assert.deepEqual(cold.fates(DNS.ip, DNS.port), [`balanced ${endpointText('10.244.200.1' as Address, 8080)}`]);
    assert.equal((await cold.rig.sync()).outcome, 'complete');
    const once = new ColdStart();
    await once.rig.sync();
    const sorted = (kernel: FakeIptables) => kernel.save('IPv4').split('\n').sort();
    assert.deepEqual(sorted(cold.kernel), sorted(once.kernel));
  });

  it('is none where the rules stand: they are found, and nothing is written', async () => {
    const before = new ColdStart();
    await before.rig.sync();
    const after = new ColdStart();
    for (const [table, chains] of before.kernel.kernels.IPv4) after.kernel.kernels.IPv4.set(table, chains);
    assert.equal((await after.rig.sync()).outcome, 'complete');
    assert.equal(after.kernel.restores, 0);
  });
});
