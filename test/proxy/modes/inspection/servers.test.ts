/** The inspection of IPVS mode: views, a kernel that was changed behind the mode's back, and what waits. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../../src/base/address.ts';
import type { Server } from '../../../../src/kernel/ipvs-kernel.ts';
import type { Comparison, ObjectDifference } from '../../../../src/proxy/modes/inspection.ts';
import type { FamilyView } from '../../../../src/proxy/modes/view.ts';
import { slice } from '../../../helpers/cluster/objects.ts';
import type { FakeIpvs } from '../../../helpers/kernel/fake-ipvs.ts';
import { ipvsRig } from '../../../helpers/proxy/ipvs-rig.ts';
import { NEVER, type Rig } from '../../../helpers/proxy/rig.ts';
import { put, synced, WEB } from './objects.ts';

const SERVER = { protocol: 'TCP', address: WEB as Address, port: 80 } as const;

async function running(): Promise<{ rig: Rig; kernel: FakeIpvs }> {
  const { rig, kernel } = ipvsRig({ families: ['IPv4'] });
  put(rig);
  await synced(rig);
  return { rig, kernel };
}

function only({ differences }: Comparison): ObjectDifference {
  assert.equal(differences.length, 1, JSON.stringify(differences, undefined, 1));
  return differences[0] ?? assert.fail();
}

/** The Service shop/web by a view, with those of the kernel's entries and addresses that the view has. */
function plain(view: FamilyView | undefined, { sets, ours }: FakeIpvs) {
  const { servers } = view ?? {};
  const { server, destinations, owner } = servers?.server(SERVER) ?? assert.fail('no server');
  const at = destinations.map(({ address, port, weight }) => `${address}:${port} ${weight}`).sort();
  const all = [...new Set([...sets.values()].flatMap((set) => [...set.entries]))].sort();
  const entries = ['KUBE-CLUSTER-IP', 'KUBE-NODE-PORT-TCP', 'KUBE-IPVS-SERVERS', 'KUBE-NONE'].map((name) =>
    all.filter((entry) => servers?.hasEntry(name, entry)),
  );
  return { server, at, owner, entries, addresses: [...ours].filter((each) => servers?.hasAddress(each)).sort() };
}

describe('the inspection of IPVS mode', () => {
  it('believes, desires and reads the same after a sync, and is never sure', async () => {
    const { rig, kernel } = await running();
    const { inspection } = rig.mode;
    const read = plain((await inspection.read(NEVER))[0], kernel);
    assert.deepEqual(plain(inspection.believed()[0], kernel), read);
    assert.deepEqual(plain(inspection.desired()[0], kernel), read);
    assert.deepEqual(read.at, ['10.244.1.11:8080 1', '10.244.1.12:8080 1']);
    assert.equal(read.owner, 'shop/web');
    assert.ok(read.entries[0]?.includes('10.96.0.20,tcp:80'));
    assert.deepEqual(read.entries[3], []);
    assert.deepEqual(read.addresses, [...kernel.ours].sort());
    assert.equal(await inspection.isCertain(), false);
    const { differences, compared } = await inspection.compare(NEVER);
    assert.deepEqual(differences, []);
    assert.ok(compared > 30, String(compared));
  });

  it('never reads through the kernel of the syncs: a question comes in the middle of one', async () => {
    const { rig, kernel } = await running();
    const own: string[] = [];
    let reads = 0;
    const onRead = (what: string) => {
      reads += 1;
      if (kernel.asking === 0) own.push(what);
    };
    kernel.options = { ...kernel.options, onRead };
    const { inspection } = rig.mode;
    await inspection.read(NEVER);
    await inspection.compare(NEVER);
    await inspection.remembered(
      'IPv4',
      { lists: [], destinations: [`TCP ${WEB}:80 -> 10.244.1.11:8080`] },
      '10.244.1.13' as Address,
    );
    await rig.mode.metrics.connectionCounts({ signal: NEVER, between: (work) => work() });
    assert.deepEqual(own, []);
    assert.ok(reads > 10, String(reads));
    assert.equal(kernel.asking, 0);
  });

  it('can be asked while a sync reads the kernel again, and not after a reading that failed', async () => {
    const { rig, kernel } = await running();
    const { mode } = rig;
    const during = new Set<boolean>();
    kernel.options = { ...kernel.options, onRead: () => during.add(mode.isObserved) };
    assert.equal((await mode.observe(NEVER)).kind, 'known');
    assert.deepEqual([...during], [true]);
    kernel.options = {
      ...kernel.options,
      onRead: (what) => {
        if (what === 'device') throw new Error('no answer');
      },
    };
    assert.equal((await mode.observe(NEVER)).kind, 'unknown');
    assert.equal(mode.isObserved, false);
  });

  it('reads only the destinations of the Service in the focus', async () => {
    const { rig, kernel } = await running();
    const reads: string[] = [];
    kernel.options = { ...kernel.options, onRead: (what) => reads.push(what) };
    const [view] = await rig.mode.inspection.read(NEVER, SERVER);
    const ofWeb = [...kernel.virtual.values()].filter(({ server }) => server.port !== 80 || server.address === WEB);
    assert.equal(reads.filter((what) => what === 'destinations').length, ofWeb.length);
    assert.equal(view?.servers?.server(SERVER)?.destinations.length, 2);
    assert.equal(view?.servers?.server({ ...SERVER, port: 81 }), undefined);
    const other = { ...SERVER, address: '10.96.0.30' as Address };
    assert.throws(() => view?.servers?.server(other), /the destinations of TCP 10\.96\.0\.30:80 were not read/);
  });

  it('names a changed weight, a missing destination and a foreign one', async () => {
    const { rig, kernel } = await running();
    const { destinations } = kernel.virtual.get(`TCP ${WEB}:80`) ?? assert.fail();
    const [key, destination] = [...destinations][0] ?? assert.fail();
    destinations.set(key, { ...destination, weight: 7 });
    assert.deepEqual(only(await rig.mode.inspection.compare(NEVER)), {
      family: 'IPv4',
      object: `destination TCP ${WEB}:80 -> ${key}`,
      owner: 'shop/web',
      kind: 'changed',
      wanted: [`-t ${WEB}:80 -r ${key} -m -w 1`],
      found: [`-t ${WEB}:80 -r ${key} -m -w 7`],
      because: undefined,
      isRepaired: true,
    });
    destinations.delete(key);
    assert.equal(only(await rig.mode.inspection.compare(NEVER)).kind, 'missing');
    destinations.set(key, destination);
    destinations.set('10.9.9.9:1', { ...destination, address: '10.9.9.9' as Address, port: 1 });
    const { kind, owner } = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([kind, owner], ['foreign', 'shop/web']);
  });

  it('names a changed scheduler, a missing entry and address, and the device', async () => {
    const { rig, kernel } = await running();
    const found = kernel.virtual.get(`TCP ${WEB}:80`) ?? assert.fail();
    const server: Server = found.server;
    found.server = { ...server, scheduler: 'lc' };
    const changed = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([changed.kind, changed.found], ['changed', [`-t ${WEB}:80 -s lc`]]);
    found.server = server;
    kernel.sets.get('KUBE-CLUSTER-IP')?.entries.delete(`${WEB},tcp:80`);
    const entry = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([entry.kind, entry.object, entry.owner], ['missing', `KUBE-CLUSTER-IP ${WEB},tcp:80`, 'shop/web']);
    kernel.sets.get('KUBE-CLUSTER-IP')?.entries.add(`${WEB},tcp:80`);
    kernel.ours.delete(WEB as Address);
    const address = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([address.kind, address.object, address.owner], ['missing', `address ${WEB}`, 'shop/web']);
    kernel.ours.add(WEB as Address);
    kernel.device = false;
    const device = only(await rig.mode.inspection.compare(NEVER));
    assert.deepEqual([device.family, device.kind, device.object], [undefined, 'missing', 'device kube-ipvs0']);
  });

  it('says that draining endpoints wait for their connections', async () => {
    const { rig, kernel } = await running();
    const leaving = { address: '10.244.1.12' as Address, port: 8080 };
    for (const { server } of kernel.virtual.values()) {
      if (server.address === WEB || server.port === 30080) kernel.connect(server, leaving, 3);
    }
    rig.put(slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: ['10.244.1.11'] }));
    await synced(rig);
    const { differences } = await rig.mode.inspection.compare(NEVER);
    assert.ok(differences.length > 0);
    assert.deepEqual(new Set(differences.map(({ because }) => because)), new Set(['waits for connections to end']));
    assert.deepEqual(new Set(differences.map(({ owner }) => owner)), new Set(['shop/web']));
    rig.remove('Service', 'shop/web');
    await synced(rig);
    const waiting = (await rig.mode.inspection.compare(NEVER)).differences;
    assert.ok(waiting.some(({ object }) => object === `server TCP ${WEB}:80`));
    assert.deepEqual(
      waiting.filter(({ because }) => because !== 'waits for connections to end'),
      [],
    );
  });

  it('remembers clients by the templates of the kernel', async () => {
    const { rig, kernel } = await running();
    const server = { protocol: 'TCP', address: '10.96.0.30' as Address, port: 80 } as const;
    const destination = { address: '10.244.1.13' as Address, port: 8080 };
    kernel.remembers = [{ server, destination, seconds: 99 }];
    const key = 'TCP 10.96.0.30:80 -> 10.244.1.13:8080';
    const ask = (key: string, ...lists: string[]) =>
      rig.mode.inspection.remembered('IPv4', { lists, destinations: [key] }, '10.244.1.7' as Address);
    assert.deepEqual(await ask(key), new Map([[key, 99]]));
    assert.deepEqual(await ask('TCP 10.96.0.30:80 -> 10.244.1.14:8080'), new Map());
    assert.deepEqual(
      await rig.mode.inspection.remembered('IPv6', { lists: [], destinations: [key] }, '::1' as Address),
      new Map(),
    );
    assert.deepEqual(await ask(key, 'KUBE-SEP-OFNOBODY'), new Map([[key, 99]]), 'a list of rules is another memory');
    // The caller says which it is, whatever its name.
    await assert.rejects(
      ask('TCP 10.96.0.30:80 -> 10.244.1.14:8080', key),
      /^RangeError: no list of clients has the name/,
    );
  });
});
