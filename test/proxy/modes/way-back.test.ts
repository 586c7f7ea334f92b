/** What a predecessor had comes back as it was, in memory: from each mode that writes by iptables to each, and with data that went through a file. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../../../src/base/address.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import { handover } from '../../../src/proxy/modes/handover.ts';
import { iptablesMode } from '../../../src/proxy/modes/iptables/index.ts';
import type { Mode } from '../../../src/proxy/modes/mode.ts';
import { type KeptRules, type KeptServers, keepRules, readKeptRules } from '../../../src/proxy/modes/way-back/kept.ts';
import { keepServers, rulesBack, serversBack } from '../../../src/proxy/modes/way-back/way-back.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { FakeIpvs } from '../../helpers/kernel/fake-ipvs.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { defaultIpvsSettings } from '../../helpers/proxy/ipvs-settings.ts';
import { defaultSettings, fakeSysctls, NEVER, Rig } from '../../helpers/proxy/rig.ts';

type Former = 'iptables' | 'ipvs';

const web = (endpoints: readonly string[]) => [
  service({
    name: 'web',
    spec: { clusterIP: '10.96.0.10', ports: [{ port: 80, nodePort: 30_080 }], type: 'NodePort' },
  }),
  slice({ name: 'web-1', service: 'web', endpoints: [...endpoints] }),
];
const sticky = [
  service({
    name: 'sticky',
    spec: {
      clusterIP: '10.96.0.11',
      ports: [{ port: 80 }],
      sessionAffinity: 'ClientIP',
      externalIPs: ['198.51.100.11'],
    },
  }),
  slice({ name: 'sticky-1', service: 'sticky', endpoints: ['10.244.1.13'] }),
];
const late = [
  service({ name: 'late', spec: { clusterIP: '10.96.0.12', ports: [{ port: 80 }] } }),
  slice({ name: 'late-1', service: 'late', endpoints: ['10.244.1.14'] }),
];

class Node {
  readonly iptables = new FakeIptables();
  readonly kernel = new FakeIpvs();
  readonly #sysctls = fakeSysctls();

  rig(mode: Former, predecessor?: Former): Rig {
    const { iptables, kernel } = this;
    const made = mode === 'ipvs' ? ipvsRig({ kernel, iptables }).rig.mode : this.#iptablesMode();
    const old =
      mode === 'iptables' && predecessor === 'ipvs'
        ? ipvsRig({ kernel, iptables, isPredecessor: true }).rig.mode
        : undefined;
    return new Rig({ commands: iptables, mode: old === undefined ? made : handover(made, old) });
  }

  #iptablesMode(): Mode {
    return iptablesMode(
      this.#tools().map(({ tools }) => ({ settings: defaultSettings(tools.family), tools, sysctls: this.#sysctls })),
    );
  }

  #tools() {
    return FAMILIES.map((family) => ({ tools: new IptablesTools(this.iptables, family, 'auto') }));
  }

  #withSettings() {
    return this.#tools().map((one) => ({ ...one, settings: defaultIpvsSettings(one.tools.family) }));
  }

  async keep(): Promise<{ readonly rules: readonly KeptRules[]; readonly servers: readonly KeptServers[] }> {
    const rules = await Promise.all(this.#tools().map(({ tools }) => keepRules(tools, NEVER)));
    const { kernel } = this;
    const servers = await keepServers(this.#withSettings(), { kernel, sysctls: this.#sysctls }, NEVER);
    return JSON.parse(JSON.stringify({ rules, servers }));
  }

  /** The modes to apply, one after another, as src/agent/takeover/keeping.ts has them. */
  wayBack({ rules, servers }: Awaited<ReturnType<Node['keep']>>, former: Former, mode: Former): readonly Mode[] {
    const rulesOf = (family: string) => rules.find((one) => one.family === family) as KeptRules;
    const { kernel, iptables } = this;
    if (former === 'iptables') {
      const back = rulesBack(this.#tools().map((one) => ({ ...one, kept: rulesOf(one.tools.family) })));
      return mode === 'iptables' ? [back] : [back, ipvsRig({ kernel, iptables, isPredecessor: true }).rig.mode];
    }
    const families = this.#withSettings().map((one) => {
      const { family } = one.settings;
      return { ...one, rules: rulesOf(family), servers: servers.find((each) => each.family === family) as KeptServers };
    });
    return [serversBack(families, { kernel, sysctls: this.#sysctls })];
  }

  state() {
    const { kernel, iptables } = this;
    const lines = FAMILIES.flatMap((family) => iptables.save(family).split('\n'));
    return {
      // KUBE-FIREWALL belongs to the kubelet, too, and always stays.
      rules: lines
        .filter((line) => line.includes('KUBE-') && !line.includes('KUBE-FIREWALL'))
        .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
        .sort(),
      device: kernel.device,
      addresses: [...kernel.ours].sort(),
      sets: [...kernel.sets].map(([name, { entries }]) => [name, [...entries].sort()]).sort(),
      servers: [...kernel.virtual]
        .map(([key, { server, destinations }]) => [
          key,
          server.scheduler,
          server.timeout,
          [...destinations.values()].map(({ address, port, weight }) => `${address} ${port} ${weight}`).sort(),
        ])
        .sort(),
    };
  }
}

async function synced(rig: Rig): Promise<void> {
  for (let i = 0; i < 3; i++) {
    const { outcome, failed } = await rig.sync();
    assert.equal(outcome, 'complete', JSON.stringify(failed));
  }
}

async function applied(mode: Mode): Promise<void> {
  for (let round = 1; round < 5; round++) {
    assert.equal((await mode.observe(NEVER)).kind, 'known');
    const plan = mode.plan();
    if (plan.steps.length === 0) break;
    await plan.apply(NEVER);
  }
  assert.deepEqual(
    mode.plan().steps.map(({ key }) => key),
    [],
  );
}

for (const former of ['iptables', 'ipvs'] as const) {
  for (const mode of ['iptables', 'ipvs'] as const) {
    it(`the state of ${former} mode comes back after ${mode} mode took over`, async () => {
      const node = new Node();
      await synced(node.rig(former).put(...web(['10.244.1.11', '10.244.1.12']), ...sticky));
      const before = node.state();
      const kept = await node.keep();
      await synced(node.rig(mode, former).put(...web(['10.244.1.12', '10.244.2.15']), ...late));
      assert.notDeepEqual(node.state(), before);
      for (const one of node.wayBack(kept, former, mode)) await applied(one);
      assert.deepEqual(node.state(), before);
    });
  }
}

describe('kept rules', () => {
  it('are input of iptables-restore: chains without a policy, the rules of proxies and the jumps to them alone', async () => {
    const node = new Node();
    await synced(node.rig('iptables').put(...sticky));
    const { rules } = await node.keep();
    const lines = rules.find(({ family }) => family === 'IPv4')?.lines ?? [];
    assert.ok(lines.includes('*nat') && lines.includes(':PREROUTING - [0:0]') && lines.includes('COMMIT'));
    for (const line of lines) assert.match(line, /^(\*|:|COMMIT|.*KUBE-)/);
    const { chains, jumps } = readKeptRules({ family: 'IPv4', lines });
    assert.ok(chains.has('nat KUBE-SERVICES') && jumps.some(({ target }) => target === 'KUBE-SERVICES'));
  });

  it('that were cut off cannot be read', () => {
    assert.throws(
      () => readKeptRules({ family: 'IPv4', lines: ['*nat', ':KUBE-SERVICES - [0:0]'] }),
      /ends before COMMIT/,
    );
  });
});
