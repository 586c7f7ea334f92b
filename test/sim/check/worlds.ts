/** A mode over its kernel in memory, with a check of every commit. */

import assert from 'node:assert/strict';
import { type Address, type Cidr, type Family, familyOf, isLoopback } from '../../../src/base/address.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { rulesOfSaved, serversOf, viewOfTable } from '../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { FakeIpvs } from '../../helpers/kernel/fake-ipvs.ts';
import { FakeNft } from '../../helpers/kernel/fake-nft.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';
import { becomeOf, type ModeViews, viewsIn, type Walk } from './kernel-views.ts';
import { packetsTo, sendersOf } from './packets.ts';
import { type Commit, SafetyCheck, type Violation } from './safety.ts';
import type { CheckedConfig } from './settings.ts';
import { Versions } from './versions.ts';

export const MODES: readonly ModeName[] = ['iptables', 'nftables', 'ipvs'];
const INTERFACES = ['127.0.0.1', '192.168.77.2', '::1', 'fd00:77::2'] as Address[];
const PRIMARY = { IPv4: '192.168.77.2' as Address, IPv6: 'fd00:77::2' as Address };

export const SENDERS = sendersOf(PRIMARY);

export const config = (mode: ModeName): CheckedConfig => ({
  mode,
  ipvs: { scheduler: 'rr', excludeCidrs: [], strictArp: false, tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 },
  detectLocal: { kind: 'cluster-cidr', cidrs: ['10.244.0.0/16', 'fd00:244::/32'] as Cidr[] },
  masqueradeAll: false,
  masqueradeBit: 14,
  nodePortAddresses: { primary: false, cidrs: [] },
  localhostNodePorts: true,
  bindAddress: undefined,
  countsConnections: false,
});

export interface CheckedWorld {
  readonly rig: Rig;
  readonly nft: FakeNft;
  readonly iptables: FakeIptables;
  readonly ipvs: FakeIpvs;
  readonly versions: Versions;
  readonly check: SafetyCheck;
  readonly violations: Violation[];
  readonly commits: () => number;
  readonly views: (family: Family) => ModeViews;
  /** Tell the mode and the check of objects, then sync. */
  sync(...objects: object[]): Promise<void>;
  put(...objects: object[]): void;
  remove(kind: 'Service' | 'EndpointSlice', key: string): void;
  committed(by: Commit['by']): void;
  isServed(packet: string): boolean;
}

export interface WorldOptions {
  readonly walk?: Walk;
  readonly readsApart?: boolean;
}

export function aWorld(mode: ModeName, { walk, readsApart = false }: WorldOptions = {}): CheckedWorld {
  const versions = new Versions({ config: config(mode), nodeName: 'node', interfaces: INTERFACES, readsApart });
  const check = new SafetyCheck({ versions, senders: SENDERS, walk });
  const violations: Violation[] = [];
  const [nft, iptables, ipvs] = [new FakeNft(), new FakeIptables(), new FakeIpvs()];
  for (const address of INTERFACES.filter((one) => !isLoopback(one))) ipvs.others.add(address);
  const views = (family: Family): ModeViews => {
    const table = nft.tables.get(family);
    const rules = rulesOfSaved(iptables.save(family));
    return {
      nftables: table && viewOfTable(table, family),
      iptables: { family, rules },
      ipvs: ipvs.device ? { family, rules, servers: serversOf(ipvs) } : undefined,
    };
  };
  let commits = 0;
  const committed = (by: Commit['by']) => {
    commits += 1;
    violations.push(...check.committed({ views, by }));
  };
  const settings = (family: Family) => {
    const { settings } = versions.nodes.at(-1)?.settings(mode, family) ?? assert.fail();
    return settings;
  };
  const rig = rigOf(mode, { settings, nft, iptables, ipvs });
  nft.options = { ...nft.options, onCommit: () => committed('agent') };
  iptables.options = { ...iptables.options, onCommit: () => committed('agent') };
  const write = ipvs.write.bind(ipvs);
  ipvs.write = async (writes) => {
    const results = [];
    for (const one of writes) {
      results.push(...(await write([one])));
      committed('agent');
    }
    return results;
  };
  const put = (...objects: object[]) => {
    for (const object of objects) versions.put(object);
    rig.put(...objects);
  };
  return {
    ...{ rig, nft, iptables, ipvs, versions, check, violations, views, committed, put },
    commits: () => commits,
    remove(kind, key) {
      versions.remove(kind, key);
      rig.remove(kind, key);
    },
    async sync(...objects) {
      put(...objects);
      const { outcome, failed } = await rig.sync();
      assert.equal(outcome, 'complete', JSON.stringify(failed));
    },
    isServed: (packet) => {
      for (const { at } of versions.frontends) {
        const local = versions.localAddresses(at.family);
        for (const sent of packetsTo(at, SENDERS, local)) {
          if (sent.name !== packet) continue;
          const facts = { localAddresses: local, remembered: new Set<string>() };
          return becomeOf(viewsIn(views(familyOf(sent.packet.destination))), sent.packet, facts).isDelivered;
        }
      }
      return assert.fail(`no packet ${packet}`);
    },
  };
}

interface RigInput {
  readonly settings: (family: Family) => object;
  readonly nft: FakeNft;
  readonly iptables: FakeIptables;
  readonly ipvs: FakeIpvs;
}

function rigOf(mode: ModeName, { settings, nft, iptables, ipvs }: RigInput): Rig {
  if (mode === 'nftables') return nftRig({ kernel: nft, settings }).rig;
  if (mode === 'ipvs') return ipvsRig({ kernel: ipvs, iptables, settings }).rig;
  return new Rig({ commands: iptables, settings });
}
