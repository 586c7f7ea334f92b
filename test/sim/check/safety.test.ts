/** The check of every commit, over kernels in memory that real modes write: silent where all is well, and it finds what is broken on purpose. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { fakeSysctls } from '../../helpers/proxy/rig.ts';
import { breakIt, redirect } from './breaking.ts';
import { config, MODES } from './mode-world.ts';
import { aWorld, type CheckedWorld } from './worlds.ts';

const WEB = {
  type: 'LoadBalancer',
  clusterIPs: ['10.96.0.10', 'fd00:96::10'],
  clusterIP: '10.96.0.10',
  ports: [{ port: 80, nodePort: 30_080 }],
};
const web = (spec: object = {}) =>
  service({
    name: 'web',
    spec: { ...WEB, ...spec },
    status: { loadBalancer: { ingress: [{ ip: '198.51.100.1' }] } },
  });
const pods = (...endpoints: string[]) => slice({ name: 'web-1', service: 'web', endpoints });
const [A, B, C] = ['10.244.1.1', '10.244.1.2', '10.244.1.3'] as const;
const TO_WEB = 'pod -> TCP 10.96.0.10:80';

async function served(mode: ModeName, ...endpoints: string[]): Promise<CheckedWorld> {
  const world = aWorld(mode);
  await world.sync(nodeOf('a'), web(), pods(...endpoints));
  assert.ok(world.isServed(TO_WEB));
  assert.deepEqual(world.violations, []);
  return world;
}

const kinds = ({ violations }: CheckedWorld) => [...new Set(violations.map(({ kind }) => kind))];
const has = ({ violations }: CheckedWorld, text: RegExp) => violations.some((one) => text.test(one.text));

describe('the check of every commit', () => {
  for (const mode of MODES) {
    it(`is silent while ${mode} mode follows the objects`, async () => {
      const world = await served(mode, A);
      for (const next of [[A, B], [B], [], [C]]) await world.sync(pods(...next));
      world.remove('Service', 'default/web');
      await world.sync();
      await world.sync(web());
      assert.deepEqual(world.violations, []);
    });

    it(`finds a frontend that is not served any more: ${mode}`, async () => {
      const world = await served(mode, A);
      breakIt(world, mode);
      world.committed('agent');
      assert.deepEqual(kinds(world), ['stopped']);
      assert.ok(has(world, /^pod -> TCP 10\.96\.0\.10:80 was delivered, should be, and is: (untouched|rejected)$/));
    });

    it(`lets a cleanup stop packets, and nothing more: ${mode}`, async () => {
      const world = await served(mode, A);
      redirect(world, mode, A, B);
      world.committed('cleanup');
      assert.deepEqual(kinds(world), ['stray']);
      world.violations.length = 0;
      breakIt(world, mode);
      world.committed('cleanup');
      world.committed('agent');
      assert.deepEqual(
        world.violations.filter(({ kind }) => kind === 'stopped'),
        [],
      );
    });

    it(`does not ask for a frontend whose endpoints went meanwhile: ${mode}`, async () => {
      const world = await served(mode, A);
      world.put(pods());
      breakIt(world, mode);
      world.committed('agent');
      assert.deepEqual(world.violations, []);
    });

    it(`finds a packet that goes to a stranger: ${mode}`, async () => {
      const world = await served(mode, A);
      redirect(world, mode, A, '10.244.9.9');
      world.committed('agent');
      assert.deepEqual(kinds(world), ['stray']);
      assert.ok(
        has(world, /^pod -> TCP 10\.96\.0\.10:80 goes to 10\.244\.9\.9:8080, and may go only to 10\.244\.1\.1:8080$/),
      );
    });

    it(`finds a packet that goes to a former endpoint, once the agent knew better: ${mode}`, async () => {
      const world = await served(mode, A);
      world.put(pods(B));
      redirect(world, mode, A, A);
      world.committed('agent');
      assert.deepEqual(world.violations, [], 'just before is allowed');
      await world.sync();
      redirect(world, mode, B, A);
      world.committed('agent');
      assert.deepEqual(kinds(world), ['stray']);
    });

    it(`knows that an agent may still have to write what was between two equal versions: ${mode}`, async () => {
      const world = await served(mode, A);
      world.put(pods(B));
      world.put(pods(A));
      world.committed('agent');
      redirect(world, mode, A, B);
      world.committed('agent');
      assert.deepEqual(world.violations, []);
      world.check.settled();
      world.committed('agent');
      assert.deepEqual(kinds(world), ['stray']);
    });

    it(`leaves to others what others broke, until it is repaired: ${mode}`, async () => {
      const world = await served(mode, A);
      redirect(world, mode, A, '10.244.9.9');
      world.committed('others');
      world.committed('agent');
      assert.deepEqual(world.violations, []);
      redirect(world, mode, '10.244.9.9', A);
      world.committed('agent');
      redirect(world, mode, A, '10.244.9.9');
      world.committed('agent');
      assert.deepEqual(kinds(world), ['stray']);
    });

    it(`finds source ranges that are open: ${mode}`, async () => {
      const world = await served(mode, A);
      world.put(web({ loadBalancerSourceRanges: ['10.0.0.0/8'] }));
      world.committed('agent');
      assert.deepEqual(world.violations, [], 'just before is allowed');
      world.check.settled();
      world.committed('agent');
      assert.ok(has(world, /^outside -> TCP 198\.51\.100\.1:80 goes to .*, and may go nowhere$/));
    });
  }

  it('knows Services and slices each at a version of its own', async () => {
    const world = await served('nftables', A);
    // The Service's port gets a name, and its slices follow: who knows one of the two alone finds no endpoint.
    world.put(web({ ports: [{ name: 'http', port: 80, nodePort: 30_080 }] }));
    world.put(slice({ name: 'web-1', service: 'web', ports: [{ name: 'http', port: 8080 }], endpoints: [B] }));
    breakIt(world, 'nftables');
    world.committed('agent');
    assert.deepEqual(world.violations, []);
  });

  it('learns nothing of slices from a frontend that nobody may have', async () => {
    const world = await served('nftables', A);
    // As by a restore: the agent knows that the port went, and neither that it came back, nor that the endpoint went.
    await world.sync(web({ ports: [{ name: '', port: 81 }] }));
    world.versions.put(web());
    world.versions.put(slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: [] }));
    world.committed('agent');
    world.rig.put(web());
    await world.rig.sync();
    assert.deepEqual(world.violations, []);
  });

  it('knows each slice at a version of its own where objects are read apart', async () => {
    for (const readsApart of [false, true]) {
      const world = aWorld('nftables', { readsApart });
      const other = (...endpoints: string[]) =>
        slice({ name: 'web-2', service: 'web', addressType: 'IPv4', endpoints });
      await world.sync(nodeOf('a'), web(), pods(A), other());
      world.put(other(B));
      world.put(slice({ name: 'web-1', service: 'web', addressType: 'IPv4', endpoints: [] }));
      // Who knows the second change alone finds no endpoint.
      breakIt(world, 'nftables');
      world.committed('agent');
      assert.deepEqual(kinds(world), readsApart ? [] : ['stopped']);
    }
  });

  it('knows old and new slices together in IPVS mode, too, where servers have endpoints of all', async () => {
    const world = aWorld('ipvs', { readsApart: true });
    const other = (...endpoints: string[]) => slice({ name: 'web-2', service: 'web', addressType: 'IPv4', endpoints });
    await world.sync(nodeOf('a'), web(), pods(A), other());
    world.versions.put(other(A));
    const ending = { addresses: [B], conditions: { ready: false, serving: true, terminating: true } };
    // Together they never lead to the endpoint that ends. The agent cannot read the other slice, and knows that it was empty.
    await world.sync(slice({ name: 'web-1', service: 'web', endpoints: [ending] }));
    assert.deepEqual(world.violations, []);
  });

  it('does not take what others removed for the knowledge of the agent', async () => {
    const world = await served('nftables', A);
    const table = world.nft.tables.get('IPv4') ?? assert.fail();
    // The agent does not hear of it.
    world.versions.remove('Service', 'default/web');
    for (const by of ['others', 'cleanup'] as const) {
      world.nft.tables.delete('IPv4');
      world.committed(by);
      world.committed('agent');
      world.nft.tables.set('IPv4', table);
      world.committed('agent');
      assert.deepEqual(world.violations, [], by);
    }
    world.nft.tables.delete('IPv4');
    world.committed('agent');
    world.nft.tables.set('IPv4', table);
    world.committed('agent');
    assert.deepEqual(kinds(world), ['stray']);
  });

  it('lets an agent that hears of a change late undo what a second one wrote', async () => {
    for (const by of ['agents', 'agent'] as const) {
      const world = await served('nftables', A);
      world.versions.put(pods(B));
      redirect(world, 'nftables', A, B);
      world.committed(by);
      redirect(world, 'nftables', B, A);
      world.committed('agent');
      assert.deepEqual(kinds(world), by === 'agents' ? [] : ['stray']);
    }
  });

  it('does not count packets to a stranger as delivered', async () => {
    const world = await served('nftables', A);
    redirect(world, 'nftables', A, '10.244.9.9');
    world.committed('others');
    breakIt(world, 'nftables');
    world.committed('agent');
    assert.deepEqual(world.violations, []);
  });

  it('finds a changed byte of others, unless they wrote it', () => {
    const { check, views } = aWorld('nftables');
    const committed = (others: string, by: 'agent' | 'others') =>
      check.committed({ views, by, others: { text: others, by } });
    assert.deepEqual(committed('table a\nchain b', 'agent'), []);
    assert.deepEqual(committed('table a\nchain c', 'others'), []);
    assert.deepEqual(committed('table a\nchain c', 'agent'), []);
    const [{ kind, text } = assert.fail()] = committed('table a', 'agent');
    assert.deepEqual([kind, text], ['others', 'what belongs to others changed: line 2 was chain c, and is undefined']);
  });

  it('looks at one family alone where only that was written', async () => {
    const world = await served('nftables', A);
    breakIt(world, 'nftables');
    assert.deepEqual(world.check.committed({ views: world.views, by: 'agent', families: ['IPv6'] }), []);
    assert.notDeepEqual(world.check.committed({ views: world.views, by: 'agent', families: ['IPv4'] }), []);
  });
});

describe('the check while one mode takes over from another', () => {
  const rules = async (world: CheckedWorld) => {
    const { iptables } = world;
    const { iptablesMode } = await import('../../../src/proxy/modes/iptables/index.ts');
    const { defaultSettings, Rig } = await import('../../helpers/proxy/rig.ts');
    const tools = new IptablesTools(iptables, 'IPv4', 'auto');
    const { settings } = world.versions.nodes.at(-1)?.settings('iptables', 'IPv4') ?? assert.fail();
    const mode = iptablesMode([
      { settings: { ...defaultSettings('IPv4'), ...settings }, tools, sysctls: fakeSysctls() },
    ]);
    return new Rig({ commands: iptables, mode });
  };

  it('is silent where one of them serves', async () => {
    const world = await served('nftables', A);
    world.versions.configure(config('iptables'));
    await (await rules(world)).put(nodeOf('a'), web(), pods(A)).sync();
    world.nft.tables.delete('IPv4');
    world.committed('agent');
    assert.deepEqual(world.violations, []);
  });

  it('finds that none of them serves', async () => {
    const world = await served('nftables', A);
    world.nft.tables.delete('IPv4');
    world.committed('agent');
    assert.deepEqual(kinds(world), ['stopped']);
  });

  it('finds that one of them drops', async () => {
    const world = await served('nftables', A);
    world.iptables.kernels.IPv4.get('filter')?.get('FORWARD')?.push(`-d ${A}/32 -j DROP`);
    world.committed('agent');
    // The table's own walk does not see it, and the walk of the rules does not see the translation.
    assert.deepEqual(world.violations, []);
    world.iptables.kernels.IPv4.get('filter')?.get('OUTPUT')?.push('-d 10.96.0.10/32 -j DROP');
    world.committed('agent');
    assert.deepEqual(world.violations, [], 'the other mode has translated such packets before');
    world.iptables.kernels.IPv4.get('mangle')?.get('OUTPUT')?.push('-d 10.96.0.10/32 -j DROP');
    world.committed('agent');
    assert.deepEqual(kinds(world), ['stopped']);
  });
});

describe('the versions', () => {
  it('give an address to its next owner', async () => {
    const world = await served('iptables', A);
    const spec = { clusterIP: '10.96.0.11', ports: [{ port: 80 }], externalIPs: ['192.0.2.1'] };
    const other = (name: string, at: string) =>
      service({ name, spec: { ...spec, ...(name === 'old' ? {} : { clusterIP: '10.96.0.12' }) }, createdAt: at });
    const of = (name: string, to: string) => slice({ name: `${name}-1`, service: name, endpoints: [to] });
    await world.sync(
      other('old', '2026-01-01T00:00:00Z'),
      of('old', B),
      other('new', '2026-02-01T00:00:00Z'),
      of('new', C),
    );
    world.remove('Service', 'default/old');
    await world.sync();
    assert.deepEqual(world.violations, []);
    redirect(world, 'iptables', C, B);
    world.committed('agent');
    assert.ok(has(world, /192\.0\.2\.1:80 goes to 10\.244\.1\.2:8080, and may go only to 10\.244\.1\.3:8080/));
  });

  it('know addresses of the machine that come and go', async () => {
    const world = await served('iptables', A);
    const visiting = '192.168.77.9' as Address;
    const before = world.versions.localAddresses('IPv4');
    world.versions.setInterfaces([...before, visiting] as Address[]);
    world.committed('agent');
    assert.ok(world.isServed('outside -> TCP 192.168.77.9:30080'));
    world.versions.setInterfaces([...before] as Address[]);
    world.committed('agent');
    assert.deepEqual(world.violations, []);
  });

  it('do not take a changed configuration as in force where nobody has the frontend', async () => {
    const world = aWorld('iptables');
    await world.sync(nodeOf('a'), web(), pods(A));
    world.remove('Service', 'default/web');
    await world.sync();
    // nftables mode has no node ports on loopback addresses. The agent cannot take this configuration yet.
    world.versions.configure(config('nftables'));
    world.committed('agent');
    await world.sync(web());
    assert.ok(world.isServed('node -> TCP 127.0.0.1:30080'));
    assert.deepEqual(world.violations, []);
  });
});
