/** A walk looks at what the packet meets, not at all Services: it asks the view as often among many Services as among few. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import type { Packet } from '../../../src/inspect/explain/packet.ts';
import { walk, walkInPortions } from '../../../src/inspect/explain/walk.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { serversOf, viewOfSaved, viewOfTable } from '../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const FEW = 30;
const MANY = 1500;

function objects(services: number): object[] {
  return Array.from({ length: services }, (_, n) => [
    service({
      name: `s${n}`,
      spec: {
        type: 'LoadBalancer',
        clusterIP: `10.96.${n >> 8}.${n & 255}`,
        ports: [{ port: 80, nodePort: 30_000 + n }],
        loadBalancerSourceRanges: ['10.0.0.0/8'],
      },
      status: { loadBalancer: { ingress: [{ ip: `198.51.${n >> 8}.${n & 255}` }] } },
    }),
    slice({ name: `s${n}-1`, service: `s${n}`, endpoints: [`10.244.${n >> 8}.${n & 255}`] }),
  ]).flat();
}

const MODES: Readonly<Record<string, (all: readonly object[]) => Promise<FamilyView>>> = {
  async iptables(all) {
    const kernel = new FakeIptables();
    await new Rig({ commands: kernel, families: ['IPv4'] }).put(...all).sync();
    return viewOfSaved(kernel.save('IPv4'), 'IPv4');
  },
  async nftables(all) {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    await rig.put(...all).sync();
    return viewOfTable(kernel.tables.get('IPv4') ?? assert.fail(), 'IPv4');
  },
  async ipvs(all) {
    const { rig, iptables, kernel } = ipvsRig({ families: ['IPv4'] });
    await rig.put(...all).sync();
    return viewOfSaved(iptables.save('IPv4'), 'IPv4', serversOf(kernel));
  },
};

const FACTS = { localAddresses: new Set(['192.168.77.2']), remembered: new Set<string>() };

function packetTo(destination: string, port: number): Packet {
  const source = '10.244.9.9' as Address;
  return { protocol: 'TCP', source, destination: destination as Address, port, device: 'eth0', state: 'NEW' };
}

/** The number of rules, elements and answers that a walk is given; a set that is scanned counts all its elements. */
function workOf({ family, rules, servers, table }: FamilyView, packet: Packet): number {
  let work = 0;
  const counted = <T>(list: readonly T[] | undefined) => {
    work += list?.length ?? 0;
    return list;
  };
  const view: FamilyView = {
    family,
    servers: servers && {
      ...servers,
      hasEntry(set, entry) {
        work += 1;
        return servers.hasEntry(set, entry);
      },
    },
    rules: rules && { ...rules, chain: (of, name) => counted(rules.chain(of, name)) },
    table: table && {
      ...table,
      chain: (name) => counted(table.chain(name)),
      elements: (set) => counted([...table.elements(set)]) ?? [],
    },
  };
  const { fates, unknown } = walk(view, packet, FACTS);
  assert.deepEqual([unknown, fates.length], [[], 1]);
  return work;
}

describe('the work of a walk', () => {
  for (const [mode, viewOf] of Object.entries(MODES)) {
    it(`comes in portions at a Service of many endpoints, and ends alike: ${mode}`, async () => {
      const endpoints = Array.from({ length: 600 }, (_, n) => `10.244.${n >> 8}.${n & 255}`);
      const big = service({ name: 'big', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }] } });
      const view = await viewOf([big, slice({ name: 'big-1', service: 'big', endpoints })]);
      const packet = packetTo('10.96.0.10', 80);
      let breaths = 0;
      const walked = await walkInPortions({ view, packet, facts: FACTS }, async () => {
        breaths += 1;
        await Promise.resolve();
      });
      assert.deepEqual(walked, walk(view, packet, FACTS));
      assert.deepEqual([walked.fates.length, breaths], [600, 2]);
    });
  }

  for (const [mode, viewOf] of Object.entries(MODES)) {
    it(`does not grow with the Services: ${mode}`, async () => {
      const [few, many] = [await viewOf(objects(FEW)), await viewOf(objects(MANY))];
      for (const [destination, port] of [
        ['10.96.0.7', 80],
        ['10.96.0.7', 81],
        ['192.168.77.2', 30_007],
      ] as const) {
        const packet = packetTo(destination, port);
        const [small, large] = [workOf(few, packet), workOf(many, packet)];
        // The dispatch trees of iptables are deeper.
        assert.ok(large <= small * 1.5 + 40, `${destination}:${port}: ${small} among ${FEW}, ${large} among ${MANY}`);
      }
    });
  }
});
