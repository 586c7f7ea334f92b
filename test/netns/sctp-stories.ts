/** SCTP through the real kernel. It may lack SCTP sockets; conntrack, iptables and IPVS know the protocol all the same, and peers over raw sockets speak enough of it. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { startChild } from '../../src/kernel/commands.ts';
import { cluster } from '../conformance/cluster.ts';
import { POD_PORT, PORT, podsWith, web } from '../conformance/stories/build.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, type Rig } from '../helpers/proxy/rig.ts';

const PEER = fileURLToPath(new URL('../helpers/cli/lab/sctp-peer.ts', import.meta.url));
/** Associations until both endpoints were seen: one is missed by all of them once in 10^6 runs. */
const MOST = 20;

/** Declares the tests of a mode; to be called within a `describe`. */
export function testSctp(open: (lab: Lab) => Promise<Rig> | Rig): void {
  let lab: Lab;
  const servers: { stop(): Promise<void> }[] = [];
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const family of FAMILIES) for (const n of [1, 2] as const) await serve(family, n);
  });
  after(async () => {
    for (const server of servers) await server.stop();
    await lab.remove();
  });

  /** Pod n answers pod 3 with tag n. */
  async function serve(family: Family, n: 1 | 2): Promise<void> {
    const client = cluster(family).address('pod-3');
    const args = [PEER, 'serve', client, String(POD_PORT), String(n)];
    await new Promise<void>((resolve) => {
      const inside = lab.inside(`pod-${n}`, process.execPath, args);
      servers.push(startChild({ ...inside, onLine: () => resolve() }));
    });
  }

  async function ask(address: string): Promise<string> {
    const inside = lab.inside('pod-3', process.execPath, [PEER, 'ask', address, String(PORT)]);
    return (await shellCommands.run(inside, NEVER)).stdout.trim();
  }

  for (const family of FAMILIES) {
    it(`${family}: an association is begun with either endpoint, and with none when there is none`, async () => {
      const w = cluster(family);
      const rig = await open(lab);
      const service = web(w, { ports: [{ port: PORT, protocol: 'SCTP' }] });
      rig.put(service, podsWith(w, { protocol: 'SCTP' }, ['pod-1', 'pod-2']));
      assert.equal((await rig.sync()).outcome, 'complete');
      const seen = new Set<string>();
      for (let i = 0; i < MOST && seen.size < 2; i++) seen.add(await ask(w.clusterIP(10)));
      assert.deepEqual([...seen].sort(), ['1', '2']);
      rig.put(podsWith(w, { protocol: 'SCTP' }, []));
      assert.equal((await rig.sync()).outcome, 'complete');
      assert.equal(await ask(w.clusterIP(10)), 'silence');
    });
  }
}
