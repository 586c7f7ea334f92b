/** A table as former releases wrote it is taken over: every connection gets through, and nothing of it is left. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { FAMILIES } from '../../src/base/address.ts';
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { nftablesSettingsOf } from '../conformance/nftables.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { LOCAL_VIP, olderObjects, STICKY, writeOlderTable } from '../helpers/kernel/older-table.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

/** Takeovers under connections: it is over in milliseconds. */
const TIMES = 8;
/** Milliseconds for which traffic goes on around each. */
const AROUND = 250;

const ROUTES = [
  { from: 'pod-3', address: WEB, port: 80 },
  { from: 'client', address: LAB.node.v4, port: NODE_PORT },
  { from: 'client', address: LOCAL_VIP, port: 80 },
  { from: 'pod-3', address: LOCAL_VIP, port: 80 },
  { from: 'pod-1', address: WEB, port: 80 },
  { from: 'client', address: STICKY, port: 80 },
];

describe('a table of the older form', () => {
  let lab: Lab;
  let kernel: NftNetlink;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2, 3]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    kernel = new NftNetlink(transportsIn(lab.namespace('node')));
  });
  after(async () => {
    kernel.close();
    await lab.remove();
  });
  beforeEach(async () => {
    await lab.exec('node', 'nft', 'flush', 'ruleset');
  });

  const listed = async () =>
    (await lab.exec('node', 'nft', '-t', 'list', 'ruleset')).replace(/^\t*elements[^}]*}\n/gm, '');
  const elementsOf = (set: string) => lab.exec('node', 'nft', 'list', 'map', 'ip', 'slicewire', set);
  const started = () => {
    const families = FAMILIES.map((each) => nftablesSettingsOf(each, {}));
    return new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel, keep: 300 }) });
  };

  async function synced(rig: Rig): Promise<void> {
    const { outcome, failed } = await rig.sync();
    assert.equal(outcome, 'complete', JSON.stringify(failed));
  }

  async function settled(rig: Rig): Promise<void> {
    await synced(rig);
    for (let i = 0; rig.mode.isWaiting && i < 100; i++) {
      await pause(100);
      await synced(rig);
    }
  }

  it('is replaced Service by Service, and what is left is what a fresh start writes', async () => {
    await settled(started().put(...olderObjects()));
    const fresh = [await listed(), await elementsOf('backends'), await elementsOf('services')];
    await lab.exec('node', 'nft', 'flush', 'ruleset');
    writeOlderTable(lab.namespace('node'));
    assert.match(await listed(), /map endpoints \{/, 'the table is of the older form');
    await settled(started().put(...olderObjects()));
    const sorted = (text: string) => text.split('\n').sort();
    const taken = [await listed(), await elementsOf('backends'), await elementsOf('services')];
    assert.deepEqual(taken.map(sorted), fresh.map(sorted));
  });

  it('loses no connection, whatever changed meanwhile, and clients with affinity stay where they were', async () => {
    for (let i = 0; i < TIMES; i++) {
      await lab.exec('node', 'nft', 'flush', 'ruleset');
      writeOlderTable(lab.namespace('node'));
      const first = await lab.ask('pod-3', { address: STICKY, port: 80 });
      const traffic = startTraffic(lab, ROUTES, { pause: 0 });
      await pause(AROUND);
      const rig = started().put(...olderObjects(), ...webObjects(i % 2 === 0 ? [1, 2, 3] : [2], { hasOther: false }));
      await settled(rig);
      await pause(AROUND);
      const { requests, failures } = await traffic.stop();
      assert.deepEqual(failures.slice(0, 5), [], `${failures.length} of ${requests}`);
      assert.ok(requests > ROUTES.length, `only ${requests} connections`);
      const again = await lab.ask('pod-3', { address: STICKY, port: 80 });
      assert.ok(first.outcome === 'reply' && again.outcome === 'reply' && first.by === again.by, 'affinity');
      const text = await listed();
      for (const former of [
        /map endpoints \{/,
        /map node-port-endpoints \{/,
        /chain (cluster-ip|external|node-port)-\d/,
      ]) {
        assert.doesNotMatch(text, former);
      }
    }
  });
});
