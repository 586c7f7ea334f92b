/** A mode over its kernel in memory, with a check of every commit. */

import assert from 'node:assert/strict';
import { type Family, familyOf } from '../../../src/base/address.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { becomeOf, viewsIn, type Walk } from './kernel-views.ts';
import { config, INTERFACES, type ModeWorld, modeWorld, SENDERS } from './mode-world.ts';
import { packetsTo } from './packets.ts';
import { type Commit, SafetyCheck, type Violation } from './safety.ts';
import { Versions } from './versions.ts';

export interface CheckedWorld extends ModeWorld {
  readonly versions: Versions;
  readonly check: SafetyCheck;
  readonly violations: Violation[];
  readonly commits: () => number;
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
  let commits = 0;
  const committed = (by: Commit['by']) => {
    commits += 1;
    violations.push(...check.committed({ views, by }));
  };
  const settings = (of: ModeName, family: Family) =>
    versions.nodes.at(-1)?.settings(of, family).settings ?? assert.fail();
  const world = modeWorld(mode, () => committed('agent'), settings);
  const { rig, views } = world;
  const put = (...objects: object[]) => {
    for (const object of objects) versions.put(object);
    rig.put(...objects);
  };
  return {
    ...world,
    ...{ versions, check, violations, committed, put },
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
