/** Services with thousands of endpoints: each endpoint has the same probability, and a flap of one is a small change. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Address, endpointText } from '../../../../src/base/address.ts';
import { endpointGroups, MAX_UNGROUPED } from '../../../../src/proxy/modes/netfilter/balancer.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { fatesIn, viewOfSaved } from '../../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../../helpers/proxy/rig.ts';

const CLUSTER_IP = '10.96.0.10' as Address;
const SLICE = 100;

const podIP = (n: number) => `10.244.${n >> 8}.${n & 255}`;
const podIPs = (count: number) => Array.from({ length: count }, (_, n) => podIP(n));

class BigService {
  readonly kernel = new FakeIptables();
  readonly rig = new Rig({ commands: this.kernel, families: ['IPv4'] });
  readonly #spec: object;

  constructor(spec: object = {}) {
    this.#spec = spec;
  }

  async become(endpoints: readonly string[]): Promise<readonly string[]> {
    const slices = Array.from({ length: Math.ceil(endpoints.length / SLICE) }, (_, i) =>
      slice({ name: `big-${i}`, service: 'big', endpoints: endpoints.slice(i * SLICE, (i + 1) * SLICE) }),
    );
    const big = service({ name: 'big', spec: { clusterIP: CLUSTER_IP, ports: [{ port: 80 }], ...this.#spec } });
    const before = this.kernel.ran.length;
    const report = await this.rig.become({ objects: [big, ...slices] }).sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
    return this.kernel.ran.slice(before).flatMap(({ file, lines }) => (file.endsWith('-restore') ? lines : []));
  }

  /** Probabilities by endpoint. */
  balance(): Map<string, number> {
    const source = '10.244.250.1' as Address;
    const packet = {
      protocol: 'TCP',
      source,
      destination: CLUSTER_IP,
      port: 80,
      device: 'eth0',
      state: 'NEW',
    } as const;
    const facts = { localAddresses: new Set<string>(), remembered: new Set<string>() };
    const view = viewOfSaved(this.kernel.save('IPv4'), 'IPv4');
    return new Map(fatesIn(view, packet, facts).map((fate) => [fate.backend, fate.probability]));
  }
}

function assertEven(balance: ReadonlyMap<string, number>, endpoints: readonly string[]): void {
  const wanted = endpoints.map((ip) => endpointText(ip as Address, 8080)).sort();
  assert.deepEqual([...balance.keys()].sort(), wanted);
  // The kernel keeps a fraction in 31 bits; what it loses adds up along the rules before.
  for (const [backend, probability] of balance) {
    assert.ok(
      Math.abs(probability * endpoints.length - 1) < 1e-3,
      `${backend}: ${probability} of 1/${endpoints.length}`,
    );
  }
}

describe('a Service of many endpoints', () => {
  for (const count of [MAX_UNGROUPED, MAX_UNGROUPED + 1, 700, 5000]) {
    it(`balances evenly over ${count}`, async () => {
      const big = new BigService();
      await big.become(podIPs(count));
      assertEven(big.balance(), podIPs(count));
    });
  }

  it('needs few rules for a packet and few writes for a flap, at 5,000 endpoints', async () => {
    const big = new BigService();
    await big.become(podIPs(5000));
    const chains = big.kernel.kernels.IPv4.get('nat') ?? new Map<string, string[]>();
    const longest = Math.max(...[...chains.values()].map((rules) => rules.length));
    assert.ok(longest <= 2 * MAX_UNGROUPED, `a chain of ${longest} rules`);
    for (const [endpoints, change] of [
      [podIPs(4999), 'goes'],
      [podIPs(5000), 'comes'],
    ] as const) {
      const lines = await big.become(endpoints);
      assert.ok(lines.length < 400, `${lines.length} lines are written when one ${change}`);
      assertEven(big.balance(), endpoints);
    }
  });

  it('leaves no chain behind when it becomes small, large and empty', async () => {
    const big = new BigService();
    const groups = () =>
      [...(big.kernel.kernels.IPv4.get('nat')?.keys() ?? [])].filter((name) => name.includes('-SEG-'));
    await big.become(podIPs(3000));
    assert.ok(groups().length > 30);
    await big.become(podIPs(100));
    assert.deepEqual(groups(), []);
    assertEven(big.balance(), podIPs(100));
    await big.become(podIPs(200));
    assertEven(big.balance(), podIPs(200));
    await big.become([]);
    assert.deepEqual(groups(), []);
    assert.deepEqual([...big.balance().keys()], ['']);
  });

  it('has one chain for each endpoint with ClientIP affinity, like a small Service', async () => {
    const big = new BigService({
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    });
    await big.become(podIPs(200));
    assertEven(big.balance(), podIPs(200));
  });
});

describe('groups', () => {
  it('have similar sizes, and keep their members while one endpoint comes or goes', () => {
    const endpoints = podIPs(6000).map((text) => ({ text }));
    const groups = endpointGroups(endpoints);
    const sizes = [...groups.values()].map((members) => members.length);
    assert.equal(groups.size, 128);
    assert.ok(Math.min(...sizes) > 10 && Math.max(...sizes) < 100, `${Math.min(...sizes)} to ${Math.max(...sizes)}`);
    const fewer = endpointGroups(endpoints.slice(1));
    const moved = [...fewer].filter(([group, members]) => members.length !== groups.get(group)?.length);
    assert.equal(moved.length, 1);
  });
});
