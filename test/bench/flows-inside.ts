/** Run inside a namespace by flows.ts: fills the kernel's table of connections, sweeps it, and prints what that took as JSON. */
import { createSocket } from 'node:dgram';
import type { Flow } from '../../native/conntrack.ts';
import { AF_INET, SOCK_RAW, sendTo, socket } from '../../native/libc.ts';
import { realClock } from '../../src/base/clock.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { type FlowTable, openFlowTable } from '../../src/kernel/conntrack.ts';
import { FlowSweeper } from '../../src/proxy/sync/flow-sweeper.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

/** A protocol for experiments (RFC 3692): its flows are of no Service. */
const OTHER_PROTOCOL = 253;
const PORT = 53;

export interface FlowsMeasured {
  readonly flows: number;
  readonly others: number;
  readonly stale: number;
  /** Milliseconds. */
  readonly sweep: number;
  readonly sweepOfNone: number;
  /** Of connections that nobody answered, with none there. */
  readonly sweepOfOpenings: number;
  /** The longest time that the event loop was held. */
  readonly longest: number;
  /** conntrack -L -p udp, and conntrack -D of the stale ones. */
  readonly list: number;
  readonly remove: number;
}

const address = (net: number, n: number) => `10.${net + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;

async function fillUdp(net: number, count: number): Promise<void> {
  const sender = createSocket('udp4');
  for (let n = 1; n <= count; n++) await new Promise((resolve) => sender.send('x', PORT, address(net, n), resolve));
  sender.close();
}

function fillOthers(count: number): void {
  const sender = socket(AF_INET, SOCK_RAW, OTHER_PROTOCOL);
  const to = Buffer.alloc(16);
  to.writeUInt16LE(AF_INET, 0);
  for (let n = 1; n <= count; n++) {
    Buffer.from(address(160, n).split('.').map(Number)).copy(to, 4);
    sendTo(sender, Buffer.from('x'), to);
  }
}

/** A Service for each stale flow, with an endpoint that nobody was translated to. */
async function staleRig(count: number): Promise<Rig> {
  const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
  for (let n = 1; n <= count; n++) {
    const ports = [{ port: PORT, protocol: 'UDP' }];
    rig.put(service({ name: `s${n}`, spec: { clusterIP: address(200, n), ports } }));
    const target = [{ name: '', port: PORT, protocol: 'UDP' }];
    rig.put(slice({ name: `s${n}-1`, service: `s${n}`, ports: target, endpoints: ['10.1.0.1'] }));
  }
  await rig.sync();
  return rig;
}

async function timed(call: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await call();
  return performance.now() - start;
}

const [flows = 0, others = 0, stale = 0] = process.argv.slice(2).map(Number);
await fillUdp(140, flows);
fillOthers(others);
const rig = await staleRig(stale);
let longest = 0;
/** The same table, watched: from one breath to the next. */
const watched = async (): Promise<FlowTable> => {
  const table = await openFlowTable();
  function* timedParts(parts: Generator<readonly Flow[], boolean>): Generator<readonly Flow[], boolean> {
    for (;;) {
      const start = performance.now();
      const next = parts.next();
      longest = Math.max(longest, performance.now() - start);
      if (next.done === true) return next.value;
      yield next.value;
    }
  }
  return {
    close: () => table.close(),
    udpFlows: (family) => timedParts(table.udpFlows(family)),
    openings: () => timedParts(table.openings()),
    translated: () => timedParts(table.translated()),
    unanswered: () => timedParts(table.unanswered()),
    entries: () => table.entries(),
    delete: (some) => table.delete(some),
  };
};
const sweeper = new FlowSweeper({
  flows: rig.flows,
  open: watched,
  clock: realClock,
  families: ['IPv4'],
  nodeAddresses: () => Promise.resolve(() => false),
  retry: 1000,
  onSweep: ({ outcome, cause }) => {
    if (outcome !== 'complete') throw new Error(cause ?? outcome);
  },
});
const conntrack = (...args: string[]) => realCommands.run({ file: 'conntrack', args }, NEVER);
// The first sweep loads the code.
await sweeper.sweep(NEVER);
await fillUdp(200, stale);
const remove = await timed(() => conntrack('-D', '-p', 'udp', '--orig-dst', '10.200.0.0/16'));
await fillUdp(200, stale);
const list = await timed(() => conntrack('-L', '-p', 'udp', '-o', 'extended'));
const sweep = await timed(() => sweeper.sweep(NEVER, ['udp']));
const sweepOfNone = await timed(() => sweeper.sweep(NEVER, ['udp']));
const sweepOfOpenings = await timed(() => sweeper.sweep(NEVER, ['opening']));
const measured: FlowsMeasured = { flows, others, stale, sweep, sweepOfNone, sweepOfOpenings, longest, list, remove };
process.stdout.write(`${JSON.stringify(measured)}\n`);
process.exit(0);
