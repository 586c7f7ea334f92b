/** The simulated nftables under the real client and the real mode. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EAGAIN, ENOBUFS, errnoOf } from '../../../../native/errno.ts';
import { decodeMessages } from '../../../../native/netlink.ts';
import { NetlinkSocket } from '../../../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../../../native/nfnetlink.ts';
import {
  NFT_MSG_GETSETELEM,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_ELEM_LIST_TABLE,
} from '../../../../native/nft/constants.ts';
import { request } from '../../../../native/nft/request.ts';
import { addElements, addSet } from '../../../../native/nft/sets.ts';
import { addTable } from '../../../../native/nft/table-requests.ts';
import { decodeGeneration, decodeWriter } from '../../../../native/nftables.ts';
import { FAMILIES } from '../../../../src/base/address.ts';
import { nftablesMode } from '../../../../src/proxy/modes/nftables/index.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { nftSettings } from '../../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../../helpers/proxy/rig.ts';
import { Calls, type Fault, SimProcess } from '../../engine/process.ts';
import { SimTime } from '../../engine/time.ts';
import { SimNftables } from './sim-nftables.ts';
import type { SimListener } from './transports.ts';

const NFT = { pid: 5_000_123, name: 'nft' };
const OURS = { family: 'IPv4', table: 'slicewire' } as const;

interface World {
  readonly time: SimTime;
  readonly kernel: SimNftables;
  readonly calls: Calls;
  start(): SimProcess;
}

function world(longestPart?: number): World {
  const time = new SimTime(() => 0.5);
  const kernel = new SimNftables({ now: () => time.now, ...(longestPart === undefined ? {} : { longestPart }) });
  const calls = new Calls(time);
  let pids = 5_000_000;
  return { time, kernel, calls, start: () => new SimProcess('agent', ++pids, calls) };
}

function rigIn(kernel: SimNftables, process: SimProcess, services = [1, 2, 3]): Rig {
  const mode = nftablesMode({ families: FAMILIES.map(nftSettings), kernel: kernel.open(process), keep: 0 });
  return new Rig({ commands: new FakeIptables(), mode, retry: 0 }).become({ objects: services.flatMap(web) });
}

const web = (n: number) => [
  service({ name: `web-${n}`, spec: { clusterIP: `10.96.0.${n}`, ports: [{ port: 80 }] } }),
  slice({ name: `web-${n}-a`, service: `web-${n}`, addressType: 'IPv4', endpoints: [`10.0.0.${n}`, `10.0.1.${n}`] }),
];

async function synced(rig: Rig): Promise<void> {
  const report = await rig.sync();
  assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
}

describe('nftables mode over simulated netlink', () => {
  it('writes a table, which the checks read as the same object until it changes', async () => {
    const { kernel, start } = world();
    const rig = rigIn(kernel, start());
    await synced(rig);
    const state = kernel.stateOf('IPv4', 'slicewire');
    assert.equal(state?.sets.get('services')?.length, 3);
    assert.equal(state?.sets.get('backends')?.length, 6);
    assert.equal(state, kernel.stateOf('IPv4', 'slicewire'));
    assert.equal(kernel.view('IPv4')?.table?.called('prerouting').length, 1);
    await synced(rig.become({ objects: [1].flatMap(web) }));
    assert.equal(kernel.stateOf('IPv4', 'slicewire')?.sets.get('services')?.length, 1);
  });

  it('survives its writer, and a new one finds it as desired', async () => {
    const { kernel, start } = world();
    const first = start();
    await synced(rigIn(kernel, first));
    const [before, generation] = [kernel.stateOf('IPv4', 'slicewire'), kernel.generation];
    assert.ok(first.open.length > 0);
    first.kill();
    assert.deepEqual(first.open, []);
    await synced(rigIn(kernel, start()));
    assert.equal(kernel.generation, generation);
    assert.equal(kernel.stateOf('IPv4', 'slicewire'), before);
  });

  it('is as desired in the end, whatever single call fails', async () => {
    const desired = textOf(await after(() => undefined));
    const { calls } = await after(() => undefined);
    const count = calls.count;
    assert.ok(count > 10, `${count} calls`);
    const faults: Fault[] = [0, 1, 2, 3, 4, 5].map((variant) => ({ kind: 'fails', when: 'before', variant }));
    for (const when of ['before', 'after'] as const) faults.push({ kind: 'kill', when });
    for (const variant of [0, 1]) faults.push({ kind: 'fails', when: 'after', variant });
    for (let at = 1; at <= count; at++) {
      const fault = faults[at % faults.length];
      assert.equal(textOf(await after((number) => (number === at ? fault : undefined))), desired, `call ${at}`);
    }
  });
});

/** The world after some syncs in which a call failed; a killed or broken agent starts again. */
async function after(faultAt: (number: number) => Fault | undefined): Promise<World> {
  const made = world();
  const { kernel, calls, start } = made;
  calls.faultAt = faultAt;
  let [process, rig]: [SimProcess, Rig | undefined] = [start(), undefined];
  for (let tries = 0; tries < 4; tries++) {
    try {
      rig ??= rigIn(kernel, process);
      await rig.sync();
    } catch {
      // It could not open nftables, or was killed.
    }
    if (!process.isDead && rig !== undefined) continue;
    process.kill();
    [process, rig] = [start(), undefined];
  }
  return made;
}

function textOf({ kernel }: World): string {
  const state = kernel.stateOf('IPv4', 'slicewire');
  const chains = [...(state?.chains ?? [])].map(([name, { rules }]) => [name, rules.map(({ text }) => text)]).sort();
  const sets = [...(state?.sets ?? [])].map(([name, elements]) => [name, [...elements].map(({ key }) => key).sort()]);
  return JSON.stringify([chains, sets.sort()]);
}

describe('the simulated nftables', () => {
  it('lists in several datagrams, and marks a listing during which another program wrote', () => {
    const { kernel, start } = world(50);
    const socket = new NetlinkSocket(kernel.transport(start())(NETLINK_NETFILTER));
    const table = { family: 'IPv4', table: 'one' } as const;
    const elements = Array.from({ length: 20 }, (_, n) => ({ key: `\x0a\0\0${String.fromCharCode(n)}`, end: '' }));
    kernel.others.writeAs(NFT, [addTable(table, ''), addSet(table, { name: 's', fields: [4], keyType: 7 }, 1)]);
    assert.deepEqual(kernel.others.writeAs(NFT, [addElements(table, 's', elements)]), []);
    const listed = (onPart: (part: number) => void) => {
      const asked = request(NFT_MSG_GETSETELEM, table, 0, (body) =>
        body.text(NFTA_SET_ELEM_LIST_TABLE, 'one').text(NFTA_SET_ELEM_LIST_SET, 's'),
      );
      const parts = socket.list(asked);
      for (let count = 0; ; count++) {
        const next = parts.next();
        if (next.done === true) return { count, isTorn: next.value };
        onPart(count);
      }
    };
    assert.deepEqual(
      listed(() => undefined),
      { count: 20, isTorn: false },
    );
    const touched = listed((part) => {
      if (part === 5) kernel.others.touch(NFT);
    });
    assert.deepEqual(touched, { count: 20, isTorn: true });
  });

  it('refuses a transaction of an older generation, and the client writes it after all', async () => {
    const { kernel, calls, start } = world();
    const rig = rigIn(kernel, start());
    await synced(rig);
    let isNext = true;
    calls.onCall = ({ what }) => {
      if (!isNext || !what.includes('transaction')) return;
      isNext = false;
      kernel.others.touch(NFT);
    };
    await synced(rig.become({ objects: [1, 2].flatMap(web) }));
    assert.equal(isNext, false);
    assert.equal(kernel.stateOf('IPv4', 'slicewire')?.sets.get('services')?.length, 2);
  });

  it('lets others delete, and keeps what is theirs apart', async () => {
    const { kernel, start } = world();
    const rig = rigIn(kernel, start());
    await synced(rig);
    const { others } = kernel;
    assert.equal(kernel.bytesOfOthers(), '');
    others.touch(NFT);
    const theirs = kernel.bytesOfOthers();
    assert.match(theirs, /other-program/);
    assert.ok(others.deleteElement(NFT, OURS, 'services', 1));
    assert.ok(others.flushChain(NFT, OURS, 'services'));
    assert.ok(!others.flushChain(NFT, OURS, 'services'));
    assert.ok(!others.deleteChain(NFT, OURS, 'services'), 'rules lead to it');
    assert.equal(kernel.stateOf('IPv4', 'slicewire')?.sets.get('services')?.length, 2);
    assert.equal(kernel.bytesOfOthers(), theirs);
    others.touch(NFT);
    assert.notEqual(kernel.bytesOfOthers(), theirs);
    assert.deepEqual(kernel.lastWriter, { ...NFT, generation: kernel.generation, port: kernel.lastWriter?.port });
    assert.ok(others.deleteTable(NFT, OURS));
    assert.equal(kernel.stateOf('IPv4', 'slicewire'), undefined);
  });

  it('keeps memories until they expire, without a transaction', async () => {
    const { kernel, time, start } = world();
    const client = kernel.open(start());
    const writes = [
      { kind: 'add-table' },
      { kind: 'add-set', set: { name: 'affinity-x', key: ['address'], isMemory: true } },
    ] as const;
    assert.deepEqual(await client.commit('IPv4', writes), []);
    const { generation } = kernel;
    assert.ok(kernel.remember(OURS, 'affinity-x', { key: '\x0a\0\0\x01', seconds: 30 }));
    assert.deepEqual([...(await client.expirations('IPv4', 'affinity-x'))], [['\x0a\0\0\x01', 30]]);
    time.stall(29_000);
    assert.deepEqual([...(await client.expirations('IPv4', 'affinity-x'))], [['\x0a\0\0\x01', 1]]);
    time.stall(1000);
    assert.equal((await client.expirations('IPv4', 'affinity-x')).size, 0);
    assert.equal(kernel.generation, generation);
  });
});

describe('the notices of the simulated nftables', () => {
  it('name the writer of each generation, after a moment', async () => {
    const { kernel, time, start } = world();
    const listener = kernel.listener(start());
    let calls = 0;
    listener.onData(() => {
      calls += 1;
    });
    kernel.others.touch(NFT);
    kernel.bumpGeneration({ pid: 5_000_200, name: 'iptables' }, [
      { family: 'IPv4', table: 'nat', chain: 'KUBE-SERVICES' },
    ]);
    assert.equal(calls, 0);
    await time.runUntil(10);
    assert.equal(calls, 1);
    assert.deepEqual(heard(listener), ['nft 5000123 2', 'iptables 5000200 3']);
    assert.equal(errnoOf(caught(() => listener.receive(Buffer.alloc(10)))), EAGAIN);
  });

  it('leave out the objects of one port', () => {
    const { kernel, start } = world();
    const process = start();
    const writing = kernel.transport(process)(NETLINK_NETFILTER);
    const [all, less] = [kernel.listener(process), kernel.listener(process, writing.port)];
    new NetlinkSocket(writing).batch({ type: 16, flags: 0, body: [Buffer.from([0, 0, 0, 10])] }, [addTable(OURS, '')], {
      type: 17,
      flags: 0,
      body: [Buffer.from([0, 0, 0, 10])],
    });
    assert.deepEqual([datagrams(all), datagrams(less)], [2, 1]);
  });

  it('are lost when the buffer is full, and the listener is told once', () => {
    const { kernel, start } = world();
    const listener = kernel.listener(start());
    for (let n = 0; n < 4000; n++) kernel.others.touch(NFT);
    assert.equal(errnoOf(caught(() => listener.receive(Buffer.alloc(8192)))), ENOBUFS);
    assert.ok(datagrams(listener) > 100);
  });
});

function datagrams(listener: SimListener): number {
  for (let count = 0; ; count++) {
    const error = caught(() => listener.receive(Buffer.alloc(8192)));
    if (error !== undefined) return errnoOf(error) === EAGAIN ? count : assert.fail(String(error));
  }
}

function heard(listener: SimListener): string[] {
  const [buffer, found]: [Buffer, string[]] = [Buffer.alloc(8192), []];
  for (;;) {
    let length = 0;
    if (caught(() => (length = listener.receive(buffer))) !== undefined) return found;
    for (const message of decodeMessages(buffer, length)) {
      const writer = decodeWriter(buffer, message);
      if (writer !== undefined) found.push(`${writer.name} ${writer.pid} ${decodeGeneration(buffer, message)}`);
    }
  }
}

function caught(call: () => void): unknown {
  try {
    call();
    return undefined;
  } catch (error) {
    return error;
  }
}
