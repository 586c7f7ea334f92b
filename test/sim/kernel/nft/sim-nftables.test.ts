/** The simulated nftables under the real client and the real mode. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../../../../src/model/address.ts';
import { nftablesMode } from '../../../../src/modes/nftables/index.ts';
import { FakeIptables } from '../../../helpers/fake-iptables.ts';
import { nftSettings } from '../../../helpers/nft-rig.ts';
import { service, slice } from '../../../helpers/objects.ts';
import { Rig } from '../../../helpers/rig.ts';
import { Calls, SimProcess } from '../../engine/process.ts';
import { SimTime } from '../../engine/time.ts';
import { SimNftables } from './sim-nftables.ts';

interface World {
  readonly kernel: SimNftables;
  readonly calls: Calls;
  start(): SimProcess;
}

function world(longestPart?: number): World {
  const time = new SimTime(() => 0.5);
  const kernel = new SimNftables({ now: () => time.now, ...(longestPart === undefined ? {} : { longestPart }) });
  const calls = new Calls(time);
  let pids = 5_000_000;
  return { kernel, calls, start: () => new SimProcess('agent', ++pids, calls) };
}

function rigIn(kernel: SimNftables, process: SimProcess): Rig {
  const mode = nftablesMode({ families: FAMILIES.map(nftSettings), kernel: kernel.open(process), keep: 0 });
  return new Rig({ commands: new FakeIptables(), mode, retry: 0 });
}

const web = (n: number) => [
  service({ name: `web-${n}`, spec: { clusterIP: `10.96.0.${n}`, ports: [{ port: 80 }] } }),
  slice({ name: `web-${n}-a`, service: `web-${n}`, addressType: 'IPv4', endpoints: [`10.0.0.${n}`, `10.0.1.${n}`] }),
];

describe('nftables mode over simulated netlink', () => {
  it('writes a table, and finds it as desired', async () => {
    const { kernel, start } = world();
    const process = start();
    const rig = rigIn(kernel, process);
    rig.become({ objects: [1, 2, 3].flatMap(web) });
    const report = await rig.sync();
    assert.equal(report.outcome, 'complete', JSON.stringify(report));
    const state = kernel.stateOf('IPv4', 'slicewire');
    assert.equal(state?.sets.get('services')?.length, 3);
    assert.equal(state?.sets.get('backends')?.length, 6);
    assert.equal(state, kernel.stateOf('IPv4', 'slicewire'));
  });
});
