/** SCTP in IPVS mode. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { FAMILIES } from '../../src/base/address.ts';
import { Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { IptablesTools } from '../../src/kernel/iptables-tools.ts';
import type { IpvsKernel } from '../../src/kernel/ipvs-kernel.ts';
import type { Sysctls } from '../../src/kernel/sysctls.ts';
import { handover } from '../../src/proxy/modes/handover.ts';
import { iptablesMode } from '../../src/proxy/modes/iptables/index.ts';
import { until } from '../helpers/base/until.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { defaultSettings, NEVER, Rig } from '../helpers/proxy/rig.ts';
import { testSctp } from '../netns/sctp-stories.ts';
import { kernelIn, modeIn, rigIn, settledSysctls } from './ipvs-under-test.ts';
import { diameter, PATIENCE, SctpPeers } from './sctp-peers.ts';

describe('SCTP, ipvs', () => {
  testSctp(async (lab) => rigIn(lab, await kernelIn(lab, 'node')));
});

const ASSOCIATIONS = 4;

describe('established SCTP associations in IPVS mode', () => {
  let lab: Lab;
  let kernel: IpvsKernel;
  let sysctls: Sysctls;
  let peers: SctpPeers;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    peers = await SctpPeers.serve(lab);
    kernel = await kernelIn(lab, 'node');
    sysctls = await settledSysctls(lab);
  });
  afterEach(async () => {
    await modeIn(lab, kernel).cleanup(NEVER);
  });
  after(async () => {
    await peers?.stop();
    await lab.remove();
  });

  async function wellSynced(rig: Rig): Promise<void> {
    const report = await rig.sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
  }

  async function served(...pods: readonly number[]): Promise<Rig> {
    const rig = rigIn(lab, kernel, { sysctls, families: ['IPv4'] }).put(...diameter(...pods));
    await wellSynced(rig);
    return rig;
  }

  /** The same in iptables mode, which takes over. */
  function byRules(): Rig {
    const rules = iptablesMode(
      FAMILIES.map((family) => ({
        settings: defaultSettings(family),
        tools: new IptablesTools(commandsIn(lab, 'node'), family, 'auto'),
        sysctls: sysctlsIn(lab, 'node'),
      })),
    );
    const mode = handover(rules, modeIn(lab, kernel, { isPredecessor: true, sysctls }));
    return new Rig({ commands: commandsIn(lab, 'node'), mode });
  }

  const destinations = async () =>
    [...(await lab.exec('node', 'ipvsadm', '-Sn')).matchAll(/^-a --sctp-service \S+ -r (\S+):\d+ -m -w (\d+)$/gm)].map(
      ([, address, weight]) => `${address} ${weight}`,
    );

  it('go on when their endpoint is removed, until they end; new ones begin elsewhere', async () => {
    const rig = await served(1, 2);
    const { first, ask, end } = await peers.associations(ASSOCIATIONS);
    assert.deepEqual([...first].sort(), ['1', '1', '2', '2']);
    await wellSynced(rig.put(...diameter(2)));
    assert.deepEqual(await ask(), first);
    assert.deepEqual((await destinations()).sort(), [`${podAddress(1).v4} 0`, `${podAddress(2).v4} 1`]);
    const later = await peers.associations(2);
    assert.deepEqual(later.first, ['2', '2']);
    await end();
    const isGone = async () => {
      await wellSynced(rig);
      return (await destinations()).length === 1;
    };
    await until('the removed endpoint goes after its last association', isGone, PATIENCE);
    assert.deepEqual(await later.ask(), ['2', '2']);
    await later.end();
  });

  it('go on when iptables mode takes over, and their server with them until they end', async () => {
    await served(1, 2);
    const { first, ask, end } = await peers.associations(ASSOCIATIONS);
    const rig = byRules().put(...diameter(1, 2));
    await wellSynced(rig);
    assert.match(await lab.exec('node', 'iptables-save'), /-p sctp .*--to-destination/);
    assert.deepEqual(await ask(), first);
    assert.deepEqual((await destinations()).sort(), [`${podAddress(1).v4} 0`, `${podAddress(2).v4} 0`]);
    assert.equal(rig.mode.isWaiting, true);
    await end();
    const isGone = async () => {
      await wellSynced(rig);
      return !rig.mode.isWaiting;
    };
    await until('nothing of IPVS mode is left', isGone, PATIENCE);
    assert.equal(await kernel.hasDevice(), false);
  });
});
