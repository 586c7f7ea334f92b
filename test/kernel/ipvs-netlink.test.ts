/** The kernel of IPVS over netlink: calls that come together, and questions beside a sync. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../src/base/address.ts';
import type { IpvsReader, Server } from '../../src/kernel/ipvs-kernel.ts';
import { ipvsQuestions } from '../../src/kernel/ipvs-open.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { Calls, SimProcess } from '../sim/engine/process.ts';
import { SimTime } from '../sim/engine/time.ts';
import { SimKernel } from '../sim/kernel/kernel.ts';

const SERVER: Server = {
  protocol: 'TCP',
  address: '10.96.0.2' as Address,
  port: 80,
  scheduler: 'rr',
  flags: 0,
  timeout: 0,
};

const ALL = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
const addressed = (net: string, n: number) => `${net}.${n}` as Address;

/** A kernel with many servers, and many destinations of the first. Each listing has several parts. */
function simulated(): SimKernel {
  const kernel = new SimKernel({ time: new SimTime(() => 0.5) });
  for (const n of ALL) {
    const server = { ...SERVER, address: addressed('10.96.0', n) };
    kernel.ipvs.write({ kind: 'add-server', server });
    const destination = { address: addressed('10.244.1', n), port: 8080, weight: 1 };
    kernel.ipvs.write({ kind: 'add-destination', server: SERVER, destination });
  }
  return kernel;
}

function processOf(kernel: SimKernel): SimProcess {
  return new SimProcess('agent', 4711, new Calls(kernel.time));
}

const last = (found: readonly { readonly address: Address }[]) =>
  found.map(({ address }) => Number(address.split('.')[3])).sort((a, b) => a - b);

describe('the kernel of IPVS over netlink', () => {
  it('answers calls that come together one after another, each with the whole', async () => {
    const simulation = simulated();
    const kernel = await simulation.calls(processOf(simulation)).openIpvs(NEVER);
    const [servers, destinations, again, written, timeouts] = await Promise.all([
      kernel.servers(),
      kernel.destinations(SERVER),
      kernel.servers(),
      kernel.write([{ kind: 'change-server', server: SERVER }], NEVER),
      kernel.timeouts(),
    ]);
    for (const found of [servers, destinations, again]) assert.deepEqual(last(found), ALL);
    assert.deepEqual(written, [undefined]);
    assert.deepEqual(timeouts, { tcp: 900, tcpFin: 120, udp: 300 });
  });
});

describe('a server of IPVS that is changed', () => {
  it('is missing, or the kernel has no such scheduler', async () => {
    const simulation = simulated();
    const kernel = await simulation.calls(processOf(simulation)).openIpvs(NEVER);
    const outcomes = await kernel.write(
      [
        { kind: 'change-server', server: { ...SERVER, port: 81 } },
        { kind: 'change-server', server: { ...SERVER, scheduler: 'nosuch' } },
      ],
      NEVER,
    );
    assert.deepEqual(
      outcomes.map((error) => error?.failure),
      ['missing', 'refused'],
    );
  });
});

describe('questions to the kernel of IPVS', () => {
  it('have sockets of their own, which are closed when the answer is there, or the failure', async () => {
    const simulation = simulated();
    const [syncs, asks] = [processOf(simulation), processOf(simulation)];
    const sync = await simulation.calls(syncs).openIpvs(NEVER);
    const questions = ipvsQuestions(() => simulation.calls(asks).openIpvs(NEVER));
    const ask = (question: (kernel: IpvsReader) => Promise<unknown>) => questions.ask(question);
    const [ofSync, first, second] = await Promise.all([
      sync.servers(),
      questions.ask((kernel) => kernel.servers()),
      questions.ask((kernel) => kernel.servers()),
    ]);
    for (const found of [ofSync, first, second]) assert.deepEqual(last(found), ALL);
    await assert.rejects(
      ask(() => Promise.reject(new Error('no answer'))),
      /no answer/,
    );
    assert.deepEqual(asks.open, []);
    assert.equal(syncs.open.length, 3);
  });
});
