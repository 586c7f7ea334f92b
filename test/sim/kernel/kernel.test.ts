/** The rest of the simulated kernel: IPVS, conntrack, settings, and the facts of the machine. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../src/base/address.ts';
import { Calls, type Fault, SimProcess } from '../engine/process.ts';
import { SimTime } from '../engine/time.ts';
import type { FlowFacts } from './conntrack.ts';
import { SimKernel } from './kernel.ts';

const NEVER = new AbortController().signal;

function scene() {
  const time = new SimTime(() => 0.5);
  const calls = new Calls(time);
  const kernel = new SimKernel({ time });
  const process = new SimProcess('agent', 4711, calls);
  const setFault = (fault: Fault | undefined) => {
    calls.faultAt = () => fault;
  };
  return { time, kernel, process, calls, setFault, processKernel: kernel.calls(process) };
}

const SERVER = { protocol: 'TCP', address: '10.96.0.10' as Address, port: 80 } as const;
const ENDPOINT = { address: '10.244.1.7' as Address, port: 8080, weight: 1 };

describe('simulated IPVS', () => {
  it('writes in order, tells of each commit, and keeps its state when the process is gone', async () => {
    const { kernel, processKernel, process, calls } = scene();
    const commits: string[] = [];
    kernel.onCommit = ({ what }) => void commits.push(what);
    const ipvs = await processKernel.openIpvs(NEVER);
    assert.deepEqual(
      process.open,
      ['rtnetlink', 'IPVS', 'ipset'].map((part) => `netlink socket of ${part}`),
    );
    const server = { ...SERVER, scheduler: 'rr', flags: 0, timeout: 0 };
    const address = { kind: 'add-address', address: SERVER.address } as const;
    const [refused] = await ipvs.write([address, { kind: 'add-device' }], NEVER);
    assert.equal(refused?.failure, 'missing');
    const outcomes = await ipvs.write(
      [
        address,
        { kind: 'add-server', server },
        { kind: 'add-server', server: { ...server, port: 81, scheduler: 'none-of-this-name' } },
        { kind: 'add-destination', server: SERVER, destination: ENDPOINT },
      ],
      NEVER,
    );
    const failures = outcomes.map((one) => one?.failure);
    assert.deepEqual(failures, [undefined, undefined, 'refused', undefined]);
    assert.deepEqual(commits, ['add-device', 'add-address', 'add-server', 'add-destination']);
    process.kill();
    const next = new SimProcess('next', 4712, calls);
    assert.equal((await (await kernel.calls(next).openIpvs(NEVER)).servers()).length, 1);
    const view = kernel.views('IPv4').ipvs?.servers;
    assert.equal(view?.server(SERVER)?.destinations.length, 1);
    assert.equal(kernel.views('IPv4').ipvs?.servers, view, 'the same until something changes');
    kernel.ipvs.write({ kind: 'remove-server', server: SERVER });
    assert.equal(view?.server(SERVER)?.destinations.length, 1, 'a view stays as it was');
    assert.equal(kernel.views('IPv4').ipvs?.servers?.server(SERVER), undefined);
  });

  it('does not know the outcome of writes whose answer is lost', async () => {
    const { kernel, processKernel, setFault } = scene();
    const ipvs = await processKernel.openIpvs(NEVER);
    setFault({ kind: 'fails', when: 'after', variant: 0 });
    const [lost] = await ipvs.write([{ kind: 'add-device' }], NEVER);
    assert.equal(lost?.failure, 'environment');
    assert.equal(kernel.ipvs.state.hasDevice, true);
  });

  it('ends connections by time, and refuses to remove a set that a rule uses', async () => {
    const { kernel, time } = scene();
    kernel.ipvs.write({ kind: 'add-server', server: { ...SERVER, scheduler: 'rr', flags: 0, timeout: 0 } });
    kernel.ipvs.write({ kind: 'add-destination', server: SERVER, destination: ENDPOINT });
    kernel.ipvs.connect(SERVER, ENDPOINT, 5000);
    assert.equal(kernel.ipvs.state.destination(SERVER, ENDPOINT)?.connections, 1);
    await time.runUntil(6000);
    assert.equal(kernel.ipvs.state.destination(SERVER, ENDPOINT)?.connections, 0);
    const set = { name: 'KUBE-X', type: 'hash:ip', family: 'IPv4', maxelem: 8 } as const;
    kernel.ipvs.write({ kind: 'add-set', set });
    const rules = kernel.iptables.stores.nft;
    rules.commit('IPv4', 'nat', new Map([['KUBE-A', ['-m set --match-set KUBE-X dst -j ACCEPT']]]));
    assert.equal(kernel.ipvs.write({ kind: 'remove-set', set: 'KUBE-X' })?.failure, 'environment');
  });

  it('knows how large a set is, accepts it from kube-proxy only in the same size, and swaps sets of one type', () => {
    const { ipvs } = scene().kernel;
    const set = { name: 'KUBE-X', type: 'hash:ip', family: 'IPv4', maxelem: 1 } as const;
    const large = { ...set, name: 'KUBE-Y', maxelem: 8 };
    const ports = { ...set, name: 'KUBE-Z', type: 'bitmap:port' } as const;
    for (const each of [set, large, ports]) assert.equal(ipvs.write({ kind: 'add-set', set: each }), undefined);
    assert.equal(ipvs.write({ kind: 'add-entry', set: 'KUBE-X', entry: '10.0.0.1' }), undefined);
    assert.equal(ipvs.write({ kind: 'add-entry', set: 'KUBE-X', entry: '10.0.0.2' })?.failure, 'refused');
    assert.equal(ipvs.state.createIfMissing(set), undefined);
    assert.equal(ipvs.state.createIfMissing({ ...set, maxelem: 8 })?.failure, 'exists');
    assert.equal(ipvs.state.createIfMissing({ ...ports, maxelem: 8 }), undefined, 'a bitmap has no maxelem');
    assert.equal(ipvs.write({ kind: 'swap-set', set: 'KUBE-X', with: 'KUBE-Z' })?.failure, 'refused');
    assert.equal(ipvs.write({ kind: 'swap-set', set: 'KUBE-X', with: 'KUBE-W' })?.failure, 'missing');
    assert.equal(ipvs.write({ kind: 'swap-set', set: 'KUBE-X', with: 'KUBE-Y' }), undefined);
    assert.equal(ipvs.state.createIfMissing({ ...set, maxelem: 8 }), undefined);
    assert.deepEqual([...(ipvs.state.sets.get('KUBE-Y')?.entries ?? [])], ['10.0.0.1']);
  });
});

const UDP: FlowFacts = {
  protocol: 'UDP',
  source: { address: '10.244.1.9' as Address, port: 40_000 },
  destination: { address: '10.96.0.11' as Address, port: 53 },
  answers: { address: '10.244.1.8' as Address, port: 53 },
  isAnswered: true,
};

describe('simulated conntrack', () => {
  it('lists flows until they time out or are deleted, without those that came meanwhile', async () => {
    const { kernel, processKernel, time, setFault } = scene();
    const table = await processKernel.openFlowTable();
    for (let port = 1; port <= 5; port++) {
      kernel.conntrack.send({ ...UDP, source: { ...UDP.source, port } }, port < 5 ? 30 : 300);
    }
    const all = (family: 'IPv4' | 'IPv6') => {
      let count = 0;
      const parts = table.udpFlows(family);
      for (let next = parts.next(); ; next = parts.next()) {
        if (next.done === true) return { count, mayMiss: next.value };
        if (count === 0) kernel.conntrack.send({ ...UDP, source: { ...UDP.source, port: 99 } }, 300);
        count += next.value.length;
      }
    };
    assert.deepEqual(all('IPv4'), { count: 5, mayMiss: false });
    assert.deepEqual(all('IPv6'), { count: 0, mayMiss: false });
    // The identity of a flow is in the buffer of its part.
    const [first = []] = table.udpFlows('IPv4');
    assert.equal(table.delete(first.slice(0, 1)), 1);
    assert.equal(table.delete(first.slice(0, 1)), 0, 'it is gone');
    await time.runUntil(31_000);
    assert.equal(kernel.conntrack.flows.length, 2);
    setFault({ kind: 'fails', when: 'before', variant: 0 });
    assert.throws(() => table.delete(first), /ENOBUFS/);
  });

  it('has openings until somebody answers', async () => {
    const { kernel, processKernel } = scene();
    const table = await processKernel.openFlowTable();
    kernel.conntrack.send({ ...UDP, protocol: 'TCP', isAnswered: false }, 120);
    const [part] = [...table.openings()];
    assert.equal(part?.length, 1);
    kernel.conntrack.send({ ...UDP, protocol: 'TCP' }, 120);
    assert.deepEqual([...table.openings()], []);
  });
});

describe('simulated settings and machine', () => {
  it('write what may be written', async () => {
    const { kernel, processKernel } = scene();
    const name = 'net/netfilter/nf_conntrack_max';
    await processKernel.settings.write(name, '7');
    assert.equal(await processKernel.settings.read(name), '7');
    kernel.settings.readOnly.add(name);
    assert.match((await processKernel.settings.whyNotWritable(name)) ?? '', /read-only/);
    await assert.rejects(processKernel.settings.write(name, '8'), /EACCES/);
    await assert.rejects(processKernel.settings.write('net/none', '8'), /ENOENT/);
    assert.equal(await processKernel.settings.read('net/none'), undefined);
  });

  it('has addresses that come and go', async () => {
    const { kernel, process } = scene();
    const facts = kernel.machine.facts(process);
    kernel.machine.addresses.add('192.0.2.1' as Address);
    assert.ok((await facts.addresses('IPv4')).includes('192.0.2.1' as Address));
    assert.equal(await facts.hasServiceDevice(), false);
    kernel.ipvs.write({ kind: 'add-device' });
    assert.equal(await facts.hasServiceDevice(), true);
    assert.deepEqual(await facts.legacyTables('IPv4'), []);
  });

  it('lets a process end while a fact of the machine is read slowly: the reading changes nothing', async () => {
    const { kernel, process, setFault, time } = scene();
    const facts = kernel.machine.facts(process);
    setFault({ kind: 'slow', milliseconds: 20_000 });
    for (const read of [facts.legacyTables('IPv6'), facts.hasIpvs(), facts.addresses('IPv4')]) {
      read.catch(() => undefined);
      await time.runUntil(1);
      assert.equal(time.timersOf(process), 0);
    }
  });
});
