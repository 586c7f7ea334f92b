/** The engine for the work that each mode does family by family: attempts, failures and whose they are. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { IptablesTools } from '../../../src/kernel/iptables-tools.ts';
import type { NftRefusal, NftTables } from '../../../src/kernel/nftables-kernel.ts';
import { driftText } from '../../../src/proxy/model/drift.ts';
import { handover } from '../../../src/proxy/modes/handover.ts';
import { ipvsPredecessor } from '../../../src/proxy/modes/ipvs/index.ts';
import { tablesPredecessor } from '../../../src/proxy/modes/nftables/index.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { DEFAULT_NODE_SETTINGS, defaultIpvsSettings } from '../../helpers/proxy/ipvs-settings.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { fakeSysctls, NEVER } from '../../helpers/proxy/rig.ts';

const web = (endpoints: number) => [
  service({
    name: 'web',
    spec: {
      clusterIP: '10.96.0.1',
      clusterIPs: ['10.96.0.1', 'fd00:96::1'],
      ipFamilies: ['IPv4', 'IPv6'],
      ports: [{ port: 80 }],
    },
  }),
  slice({ name: 'web-4', service: 'web', endpoints: Array.from({ length: endpoints }, (_, i) => `10.244.1.${i + 1}`) }),
  slice({
    name: 'web-6',
    service: 'web',
    addressType: 'IPv6',
    endpoints: Array.from({ length: endpoints }, (_, i) => `fd00:244::${i + 1}`),
  }),
];

const NO_MEMORY: NftRefusal = {
  write: 0,
  element: undefined,
  cause: 'ENOMEM: cannot allocate memory',
  blame: 'environment',
};

describe('a mode of several families', () => {
  it('has failed when nothing could be written, and reports the cause of the kernel alone', async () => {
    const { rig, kernel } = nftRig({ families: ['IPv4'] });
    kernel.commit = () => Promise.resolve([NO_MEMORY]);
    const { outcome, applied, failed } = await rig.put(...web(1)).sync();
    assert.deepEqual([outcome, applied], ['failed', 0]);
    assert.deepEqual(
      failed.map(({ family, kind, cause }) => [family, kind, cause.startsWith('ENOMEM')]),
      [['IPv4', 'rules', true]],
    );
  });

  it('blames no other family for a failure of one', async () => {
    const { rig, kernel } = nftRig();
    const commit = kernel.commit.bind(kernel);
    kernel.commit = (family, writes) => (family === 'IPv4' ? Promise.resolve([NO_MEMORY]) : commit(family, writes));
    const { outcome, failed } = await rig.put(...web(1)).sync();
    assert.equal(outcome, 'partial');
    assert.deepEqual(
      failed.map(({ family }) => family),
      ['IPv4'],
    );
    assert.ok(kernel.tables.has('IPv6'));
  });

  it('reports what another program changed in one family, though it had to read the other again', async () => {
    const { rig, kernel } = nftRig();
    assert.equal((await rig.put(...web(2)).sync()).outcome, 'complete');
    kernel.tables.delete('IPv6');
    kernel.tables.get('IPv4')?.sets.get('cluster-ips')?.elements.clear();
    assert.equal((await rig.put(...web(3)).sync()).outcome, 'complete');
    rig.loop.distrust();
    const { outcome, drift } = await rig.sync();
    assert.deepEqual([outcome, drift.map(driftText)], ['complete', ['IPv4 cluster-ips 10.96.0.1']]);
  });
});

describe('a check of a mode of several families', () => {
  it('that fails in one family waits for the process that reads the other', async () => {
    const { rig, iptables } = ipvsRig();
    assert.equal((await rig.put(...web(1)).sync()).outcome, 'complete');
    const run = iptables.run.bind(iptables);
    const ended: string[] = [];
    iptables.run = async (command) => {
      if (command.file === 'ip6tables-save') throw new Error('it cannot be started');
      const result = await run(command);
      await new Promise(setImmediate);
      ended.push(command.file);
      return result;
    };
    await assert.rejects(rig.mode.probe.differs(NEVER), /it cannot be started/);
    assert.deepEqual(ended, ['iptables-save']);
  });
});

describe('beside a family that cannot be read', () => {
  it('what another program changed in the other one is found, and only the other one is asked for its rules', async () => {
    const { rig, iptables } = ipvsRig();
    assert.equal((await rig.put(...web(1)).sync()).outcome, 'complete');
    const run = iptables.run.bind(iptables);
    iptables.run = (command) =>
      command.file.startsWith('ip6tables') ? Promise.reject(new Error('it cannot be started')) : run(command);
    iptables.kernels.IPv4.get('nat')?.get('KUBE-POSTROUTING')?.splice(0);
    assert.equal(await rig.mode.probe.differs(NEVER), true);
    rig.loop.distrust();
    await rig.sync();
    assert.equal(rig.mode.isObserved, false);
    assert.equal(rig.mode.isObservedInPart, true);
    assert.equal(await rig.mode.probe.isInstalled(NEVER), true);
  });
});

describe('a predecessor', () => {
  it('in IPVS mode leaves the timeouts as they are, whatever is configured', async () => {
    const { rig, kernel, iptables } = ipvsRig({ families: ['IPv4'] });
    await rig.sync();
    const options = {
      families: [{ settings: defaultIpvsSettings('IPv4'), tools: new IptablesTools(iptables, 'IPv4', 'auto') }],
      node: { ...DEFAULT_NODE_SETTINGS, tcpTimeout: 1234 },
      kernel,
      sysctls: fakeSysctls(),
    };
    const mode = ipvsPredecessor(options);
    await mode.observe(NEVER);
    assert.deepEqual(
      mode.plan().steps.filter(({ kind }) => kind === 'setting'),
      [],
    );
  });

  it('of which one family cannot be read is not gone, and its cause is reported for that family', async () => {
    const { rig } = nftRig();
    await rig.sync();
    const tables = new Set(['IPv4', 'IPv6']);
    let isBroken = false;
    const kernel: NftTables = {
      hasTable(family) {
        if (isBroken && family === 'IPv6') throw new Error('EIO: input/output error');
        return tables.has(family);
      },
      keys: () => Promise.resolve([]),
      isDormant: () => false,
      changeTables([change]) {
        if (change?.family === 'IPv6') {
          isBroken = true;
          throw new Error('EBUSY: resource busy');
        }
        if (change !== undefined) tables.delete(change.family);
      },
    };
    const ids = (['IPv4', 'IPv6'] as const).map((family) => ({ family, table: 'kube-proxy' }));
    const mode = handover(rig.mode, tablesPredecessor(kernel, ids));
    await mode.observe(NEVER);
    await mode.plan().apply(NEVER);
    for (let again = 0; again < 2; again++) {
      const { outcome, failed } = await mode.plan().apply(NEVER);
      assert.equal(outcome, 'partial');
      assert.deepEqual(
        failed.map(({ family, cause }) => [family, cause]),
        [['IPv6', 'EIO: input/output error']],
      );
    }
    assert.deepEqual([...tables], ['IPv6']);
  });
});
