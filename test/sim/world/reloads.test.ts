/** A changed configuration: the ending parts hand over what they know. One that cannot be used yet is tried again, and the former one stays. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import type { IptablesVariant } from '../../../src/kernel/iptables-tools.ts';
import { Random } from '../../helpers/base/random.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { becomeOf, viewsIn } from '../check/kernel-views.ts';
import { leftovers } from '../check/liveness.ts';
import type { Settings, SimMode } from '../history/actions.ts';
import { type HistoryPlan, planOf } from '../history/plan.ts';
import './preloaded.ts';
import { CONFIG_FILE, METRICS_PORT } from './config-text.ts';
import { SimWorld } from './world.ts';

const PERIOD = 30_000;

/** An agent in iptables mode, with the first objects of a plan, after its first sync. */
async function begun(
  test: (world: SimWorld, lines: readonly string[]) => Promise<void>,
  variant: IptablesVariant = 'nft',
): Promise<void> {
  const whole = planOf(3, { mode: 'iptables' });
  const settings: Settings = { ...whole.settings, syncPeriod: PERIOD };
  const plan: HistoryPlan = { ...whole, source: 'api', settings, variant, faultRate: 0 };
  const lines: string[] = [];
  const onLine = (line: string) => void lines.push(line);
  const world = new SimWorld({ plan, random: new Random(1), onLine, onCommit: () => undefined });
  const restore = world.time.install();
  try {
    for (const { at, action } of plan.steps) if (at === 0) world.perform(action);
    world.agents.begin();
    await run(world, 10_000);
    await test(world, lines);
    assert.equal(world.agents.starts, 1, lines.join('\n'));
    world.agents.stop();
    await run(world, 15_000);
    world.mustBeStopped();
  } finally {
    world.end();
    restore();
  }
}

async function run(world: SimWorld, milliseconds: number): Promise<void> {
  await world.time.runUntil(world.time.now + milliseconds);
}

function wantMode(world: SimWorld, mode: SimMode): void {
  world.perform({ kind: 'configure', settings: { mode }, isSignalled: false });
}

function serves(world: SimWorld, mode: SimMode): boolean {
  const views = world.kernel.views('IPv4');
  return leftovers(views, mode).length === 0 && (mode !== 'nftables' || views.nftables !== undefined);
}

/** Whether a Pod's connection to the API server's Service is masqueraded. */
function masquerades(world: SimWorld): boolean {
  const [destination, source] = ['10.96.0.1' as Address, '10.244.1.199' as Address];
  const packet = { protocol: 'TCP', source, destination, port: 443, device: 'cni0', state: 'NEW' } as const;
  const facts = { localAddresses: new Set<string>(), remembered: new Set<string>() };
  const { fates, isDelivered } = becomeOf(viewsIn(world.kernel.views('IPv4')), packet, facts);
  assert.ok(isDelivered);
  return fates.every(({ masqueraded }) => masqueraded);
}

const linesWith = (lines: readonly string[], text: string) => lines.filter((line) => line.includes(text));

async function reloads(world: SimWorld): Promise<Record<string, number>> {
  const asked = world.ports.ask({ port: METRICS_PORT, path: '/metrics' });
  await run(world, 1000);
  const { body = '' } = (await asked) ?? {};
  const samples = body.matchAll(/^slicewire_config_reloads_total\{result="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...samples].map(([, result, value]) => [result, Number(value)]));
}

it('flows to a Service that was deleted since the last sync are deleted by the parts of the changed configuration', () =>
  begun(async (world, lines) => {
    const at = { address: '10.96.0.99' as Address, port: 80 };
    const [source, answers] = ['10.244.0.77', '10.244.9.9'].map((one) => ({ address: one as Address, port: 8080 }));
    assert.ok(source !== undefined && answers !== undefined);
    const own = service({
      name: 'short',
      spec: { clusterIP: at.address, ports: [{ port: at.port, targetPort: 8080 }] },
    });
    const pods = slice({ name: 'short-1', service: 'short', endpoints: [answers.address] });
    world.perform({ kind: 'configure', settings: { minSyncPeriod: PERIOD }, isSignalled: false });
    world.perform({ kind: 'put', of: 'services', object: own });
    world.perform({ kind: 'put', of: 'slices', object: pods });
    await run(world, 3 * PERIOD);
    const flow = { protocol: 'TCP', source, destination: at, answers, isAnswered: false } as const;
    world.kernel.conntrack.send(flow, 3600);
    await run(world, 2 * PERIOD);
    assert.ok(world.kernel.conntrack.find(flow), 'its endpoint may answer');
    // The sync of the deletion is not due before the next parts take over.
    world.perform({
      kind: 'put',
      of: 'slices',
      object: slice({ name: 'short-2', service: 'short', endpoints: ['10.244.9.8'] }),
    });
    await run(world, 500);
    world.perform({ kind: 'delete', of: 'services', name: 'short' });
    wantMode(world, 'nftables');
    await run(world, 3 * PERIOD);
    assert.ok(serves(world, 'nftables'), lines.join('\n'));
    assert.equal(world.kernel.conntrack.find(flow), undefined);
  }));

describe('a changed configuration that cannot be used yet', () => {
  it('is tried again until it works, and its failure is in the log once', () =>
    begun(async (world, lines) => {
      world.perform({ kind: 'api', what: 'go-down' });
      wantMode(world, 'nftables');
      await run(world, 10 * PERIOD);
      const [failure, ...others] = linesWith(lines, 'the changed configuration cannot be used');
      assert.match(failure ?? '', /the former one stays in force, and the changed one is tried again every 30 s/);
      assert.deepEqual(others, []);
      assert.ok(serves(world, 'iptables'));
      assert.deepEqual(await reloads(world), { failed: 1 });
      world.perform({ kind: 'api', what: 'come-up' });
      await run(world, 4 * PERIOD);
      assert.ok(serves(world, 'nftables'), lines.join('\n'));
      assert.equal(linesWith(lines, 'can be used now').length, 1);
      assert.deepEqual(await reloads(world), { applied: 1, failed: 1 });
    }));

  it('is not tried again once the file asks for the former one', () =>
    begun(async (world, lines) => {
      world.perform({ kind: 'api', what: 'go-down' });
      wantMode(world, 'nftables');
      await run(world, PERIOD + 5000);
      assert.equal(linesWith(lines, 'cannot be used').length, 1);
      wantMode(world, 'iptables');
      world.perform({ kind: 'api', what: 'come-up' });
      await run(world, 4 * PERIOD);
      assert.ok(serves(world, 'iptables'), lines.join('\n'));
      assert.deepEqual(await reloads(world), { failed: 1, unchanged: 1 });
    }));

  for (const [when, wait] of [
    ['between two tries', PERIOD + 5000],
    ['during a try', PERIOD / 2],
  ] as const) {
    it(`is not tried again once the file is wrong: ${when}`, () =>
      begun(async (world, lines) => {
        world.perform({ kind: 'api', what: 'go-down' });
        wantMode(world, 'nftables');
        await run(world, wait);
        world.files.replace(CONFIG_FILE, '{"kind": "KubeProxyConfiguration", "mode": 7}');
        await run(world, PERIOD);
        assert.equal(linesWith(lines, 'the changed configuration is refused').length, 1, lines.join('\n'));
        world.perform({ kind: 'api', what: 'come-up' });
        await run(world, 4 * PERIOD);
        assert.ok(serves(world, 'iptables'), lines.join('\n'));
        assert.deepEqual(await reloads(world), { failed: 1, refused: 1 });
      }));
  }

  for (const [mode, call, variant, times = 1] of [
    ['nftables', 'nftables: open a socket', 0],
    ['nftables', 'addresses of IPv4', 0],
    ['nftables', 'addresses of IPv4', 6],
    // It is opened again after modprobe.
    ['ipvs', 'IPVS: open a socket', 0, 2],
  ] as const) {
    it(`is used at the next try when the kernel failed: ${mode}, ${call}, ${variant}`, () =>
      begun(async (world, lines) => {
        let left: number = times;
        world.calls.faultAt = (_number, what) => {
          if (left === 0 || what !== call) return undefined;
          left -= 1;
          return { kind: 'fails', when: 'before', variant };
        };
        wantMode(world, mode);
        await run(world, PERIOD / 2);
        assert.ok(left === 0 && serves(world, 'iptables'));
        assert.equal(linesWith(lines, 'the changed configuration cannot be used').length, 1, lines.join('\n'));
        await run(world, 2 * PERIOD);
        assert.ok(serves(world, mode), lines.join('\n'));
        assert.deepEqual(await reloads(world), { applied: 1, failed: 1 });
      }));
  }
});

describe('run --once, while the agent changes its mode', () => {
  it('writes no rules of the former mode, also where reading the kernel took longer than the change', () =>
    begun(async (world, lines) => {
      let reads = 0;
      world.calls.faultAt = (_, what, { name }) =>
        name === 'once' && what === 'ip6tables-save' && ++reads === 1
          ? { kind: 'slow', milliseconds: 10_000 }
          : undefined;
      world.perform({ kind: 'agent', what: 'once' });
      await run(world, 100);
      wantMode(world, 'nftables');
      await run(world, 30_000);
      assert.ok(serves(world, 'nftables'), lines.join('\n'));
      await run(world, 30_000);
      assert.ok(serves(world, 'nftables'), lines.join('\n'));
      const written = linesWith(lines, 'once: ').filter((line) => line.includes('synced'));
      assert.deepEqual(written, []);
    }));
});

describe('run --once that wrote while the agent changed its mode', () => {
  it('says so', () =>
    begun(async (world, lines) => {
      // Both find that the rules are gone, and write them.
      let writes = 0;
      world.calls.faultAt = (_, what, { name }) => {
        if (name !== 'once') return undefined;
        if (what === 'iptables-save') world.perform({ kind: 'foreign', what: 'flush-nat', variant: 0 });
        return what.startsWith('iptables-restore') && ++writes === 1
          ? { kind: 'slow', milliseconds: 10_000 }
          : undefined;
      };
      world.perform({ kind: 'agent', what: 'once' });
      await run(world, 200);
      assert.equal(writes, 1, lines.join('\n'));
      wantMode(world, 'nftables');
      await run(world, 30_000);
      const told = linesWith(lines, 'runs in nftables mode now, and --once wrote rules of iptables mode');
      assert.equal(told.length, 1, lines.join('\n'));
    }));
});

describe('run --once that writes rules of a former configuration of the same mode', () => {
  it('is repaired within a syncPeriod in the legacy variant, where replacing rules changes no count of a table', () =>
    begun(async (world, lines) => {
      assert.ok(!masquerades(world));
      world.calls.faultAt = (_, what, { name }) =>
        name === 'once' && what === 'iptables-save' ? { kind: 'slow', milliseconds: 15_000 } : undefined;
      world.perform({ kind: 'agent', what: 'once' });
      await run(world, 100);
      world.perform({ kind: 'configure', settings: { masqueradeAll: true }, isSignalled: false });
      await run(world, 13_000);
      assert.ok(masquerades(world), lines.join('\n'));
      await run(world, 4000);
      assert.equal(linesWith(lines, 'once: ').filter((line) => line.includes('synced')).length, 1, lines.join('\n'));
      await run(world, PERIOD);
      assert.ok(masquerades(world), lines.join('\n'));
    }, 'legacy'));
});

describe('a configuration that SIGHUP made the agent read', () => {
  it('is left again when the file is as before it, within the time in which one save settles', () =>
    begun(async (world, lines) => {
      // The check of the file has read `nftables` itself.
      wantMode(world, 'nftables');
      await run(world, 1000);
      world.perform({ kind: 'configure', settings: { mode: 'iptables' }, isSignalled: true });
      await run(world, 50);
      wantMode(world, 'nftables');
      await run(world, 20_000);
      assert.ok(serves(world, 'nftables'), lines.join('\n'));
    }));
});

describe('a mode that another one replaces before its first write', () => {
  it('leaves nothing, although it wrote after the next one was prepared', () =>
    begun(async (world, lines) => {
      wantMode(world, 'ipvs');
      await run(world, 20_000);
      let reads = 0;
      world.calls.faultAt = (_, what) =>
        what === 'ipset: list' && ++reads === 1 ? { kind: 'slow', milliseconds: 5000 } : undefined;
      wantMode(world, 'nftables');
      await run(world, 2000);
      assert.ok(reads > 0 && world.kernel.views('IPv4').nftables === undefined, 'nftables mode has not written yet');
      wantMode(world, 'iptables');
      await run(world, 60_000);
      assert.ok(serves(world, 'iptables'), lines.join('\n'));
    }));
});
