/**
 * A restore commits table by table, and packets flow in between. Between two commits every packet has its fate from before
 * or from after the change: source ranges are never open for a moment (k8s#88698), no packet of a Service with endpoints
 * before and after is stopped or leaves untranslated, and none is masqueraded that never should be.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Address } from '../../../../src/base/address.ts';
import type { Fate, Packet } from '../../../../src/inspect/explain/packet.ts';
import { aStep, type Step } from '../../../helpers/cluster/histories.ts';
import { service, slice } from '../../../helpers/cluster/objects.ts';
import { fatesIn, viewOfSaved } from '../../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../../helpers/proxy/rig.ts';

const RUNS = 150;
const NODE = '192.168.77.2';
const FACTS = { localAddresses: new Set([NODE]), remembered: new Set<string>() };

const SENDERS: readonly { source: string; device: string | undefined }[] = [
  { source: '10.244.1.1', device: 'cni0' },
  { source: '192.168.77.100', device: 'eth0' },
  { source: '172.16.0.1', device: 'eth0' },
  { source: NODE, device: undefined },
];
const ADDRESSES = ['10.96.0.1', '10.96.0.2', '10.96.0.3', '192.0.2.1', '198.51.100.1', '198.51.100.2'];
const SOCKETS = [
  ...ADDRESSES.flatMap((to) => [80, 81, 82].map((port) => ({ to, port }))),
  ...[30_080, 30_081].map((port) => ({ to: NODE, port })),
];
const PACKETS: readonly Packet[] = SENDERS.flatMap(({ source, device }) =>
  SOCKETS.flatMap(({ to, port }) =>
    (['TCP', 'UDP'] as const).map(
      (protocol): Packet => ({
        protocol,
        source: source as Address,
        destination: to as Address,
        port,
        device,
        state: 'NEW',
      }),
    ),
  ),
);

/** Refused and dropped count as the same. */
function keyOf({ kind, backend, masqueraded }: Fate): string {
  return kind === 'rejected' || kind === 'dropped' ? 'stopped' : `${kind} ${backend} ${masqueraded}`;
}

function isServed(fates: ReadonlySet<string>): boolean {
  return [...fates].some((fate) => fate.startsWith('balanced'));
}

/** The set of possible fates of each packet. */
function fates(kernel: FakeIptables): Set<string>[] {
  const view = viewOfSaved(kernel.save('IPv4'), 'IPv4');
  return PACKETS.map((packet) => new Set(fatesIn(view, packet, FACTS).map(keyOf)));
}

async function assertNoThirdFate(history: readonly Step[]): Promise<number> {
  const snapshots: Set<string>[][] = [];
  const kernel = new FakeIptables({ onCommit: () => snapshots.push(fates(kernel)) });
  const cidr = '10.244.0.0/16' as never;
  const settings = () => ({ localDetector: { kind: 'cidr', cidr } as const, nodeAddresses: [NODE as Address] });
  const rig = new Rig({ commands: kernel, families: ['IPv4'], settings });
  await rig.sync();
  let commits = 0;
  for (const step of [...history, { kind: 'sync' } as const]) {
    if (step.kind === 'put') rig.put(step.object);
    if (step.kind === 'remove') rig.remove(...(step.id.split(' ') as ['Service', string]));
    if (step.kind !== 'sync') continue;
    const before = fates(kernel);
    snapshots.length = 0;
    assert.equal((await rig.sync()).outcome, 'complete');
    const after = fates(kernel);
    commits += snapshots.length;
    for (const between of snapshots) {
      for (const [i, found] of between.entries()) {
        const [was, will] = [before[i] ?? new Set<string>(), after[i] ?? new Set<string>()];
        // A packet may be stopped while a Service comes or goes, but never if the Service serves before and after.
        const mayStop = !isServed(was) || !isServed(will);
        const third = [...found].filter(
          (fate) => !was.has(fate) && !will.has(fate) && !(mayStop && fate === 'stopped'),
        );
        assert.deepEqual(
          third,
          [],
          `${JSON.stringify(PACKETS[i])}: before ${[...was].join()}, after ${[...will].join()}`,
        );
      }
    }
  }
  return commits;
}

describe('between two commits of a restore', () => {
  it('a load balancer address stays served until source ranges that nothing fulfils stop it', async () => {
    const balanced = (ranges: readonly string[]) =>
      service({
        name: 'a',
        spec: {
          type: 'LoadBalancer',
          clusterIP: '10.96.0.1',
          clusterIPs: ['10.96.0.1'],
          ports: [{ name: 'p80', port: 80, protocol: 'TCP' }],
          loadBalancerSourceRanges: ranges,
        },
        status: { loadBalancer: { ingress: [{ ip: '198.51.100.2' }] } },
      });
    const endpoint = slice({
      name: 'a-1',
      service: 'a',
      ports: [{ name: 'p80', port: 8080, protocol: 'TCP' }],
      endpoints: [{ addresses: ['10.244.1.1'], conditions: { ready: true } }],
    });
    const put = (object: object): Step => ({ kind: 'put', id: 'Service default/a', object });
    const commits = await assertNoThirdFate([
      put(endpoint),
      put(balanced([])),
      { kind: 'sync' },
      put(balanced(['bogus'])),
    ]);
    assert.ok(commits > 2, `${commits} commits`);
  });

  it('every packet has its fate from before or from after (k8s#88698)', async () => {
    let commits = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { minLength: 5, maxLength: 40, size: 'max' }), async (history) => {
        commits += await assertNoThirdFate(history);
      }),
      { numRuns: RUNS },
    );
    assert.ok(commits > 100, `${commits} commits`);
  });
});
