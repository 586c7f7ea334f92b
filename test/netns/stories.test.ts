/** The conformance stories with real packets through the real kernel: both variants of iptables, both families. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Answer } from '../../src/cli/demo/host-protocol.ts';
import { Lab } from '../../src/cli/demo/lab.ts';
import { realCommands } from '../../src/host/commands.ts';
import { STORIES } from '../conformance/stories/index.ts';
import type { Expected, StoryPacket } from '../conformance/story.ts';
import { type Origin, type World, world } from '../conformance/world.ts';
import { commandsIn, sysctlsIn } from '../helpers/namespace-commands.ts';
import { NEVER, Rig } from '../helpers/rig.ts';

const POD_PORT = 8080;
/** Most requests until every backend was seen: one of three is missed by all of them once in 10^17 runs. */
const MOST_REQUESTS = 100;
/** Milliseconds until silence counts as dropped. */
const SILENCE = 400;
/**
 * Milliseconds for a refusal. Between namespaces of one machine the answer may come while connect() still holds the
 * socket; the kernel then drops it (tcp_v6_err), and the client is refused at its second try, a second later.
 */
const REFUSAL = 2500;

const HOST_OF: Readonly<Record<Origin, string>> = {
  'pod-1': 'pod-1',
  'pod-2': 'pod-2',
  'pod-3': 'pod-3',
  'remote-pod': 'other',
  node: 'node',
  outside: 'client',
};

for (const backend of ['nft', 'legacy'] as const) {
  describe(`stories with real packets, iptables-${backend}`, () => {
    let lab: Lab;
    before(async () => {
      lab = await Lab.create({ commands: realCommands, pods: 3, remotePods: 2, signal: NEVER });
      for (const host of ['pod-1', 'pod-2', 'other']) {
        for (const protocol of ['TCP', 'UDP'] as const) await lab.serve(host, protocol, POD_PORT);
      }
    });
    after(() => lab.remove());

    for (const family of ['IPv4', 'IPv6'] as const) {
      for (const story of STORIES) {
        if (story.onlyInterpreted !== undefined || story.families?.includes(family) === false) continue;
        it(`${family}, ${story.field}: ${story.title}`, async () => {
          const w = world(family);
          const { objects, packets, settings, zone } = story.tell(w);
          // What the story before left in the kernel is found there, and replaced.
          const rig = new Rig({
            commands: commandsIn(lab, 'node'),
            sysctls: sysctlsIn(lab, 'node'),
            backend,
            settings: (of) => (of === family ? { ...settings } : {}),
          });
          if (zone !== undefined) {
            const labels = { 'topology.kubernetes.io/zone': zone };
            rig.put({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node', labels } });
          }
          const report = await rig.put(...objects).sync();
          assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
          for (const { packet, expected } of packets) await assertAnswers(lab, w, packet, expected);
        });
      }
    }
  });
}

async function assertAnswers(lab: Lab, w: World, packet: StoryPacket, expected: Expected): Promise<void> {
  const { from, to, port, protocol = 'TCP' } = packet;
  assert.notEqual(protocol, 'SCTP');
  const source = from === 'remote-pod' ? w.address(from) : undefined;
  const ask = () =>
    lab.ask(HOST_OF[from], {
      address: to,
      port,
      protocol: protocol as 'TCP',
      from: source,
      timeout: expected.kind === 'rejected' ? REFUSAL : SILENCE,
    });
  if (expected.kind !== 'balanced') {
    assertStopped(await ask(), expected.kind, `${from} to ${to}`);
    return;
  }
  const missing = new Set<string>(Object.keys(expected.shares));
  for (let i = 0; i < MOST_REQUESTS && missing.size > 0; i++) {
    const answer = await ask();
    assert.equal(answer.outcome, 'reply', `${from} to ${to}: ${JSON.stringify(answer)}`);
    if (answer.outcome !== 'reply') return;
    assert.ok(answer.by in expected.shares, `${answer.by} must not be asked`);
    missing.delete(answer.by);
    if (to !== w.loopback) assertSeen(answer, { w, from, expected });
  }
  assert.deepEqual([...missing], [], 'backends that were never asked');
}

function assertStopped(answer: Answer, kind: 'rejected' | 'dropped' | 'untouched', what: string): void {
  if (kind === 'rejected') assert.equal(answer.outcome, 'refused', what);
  else if (kind === 'dropped') assert.equal(answer.outcome, 'timeout', what);
  else assert.notEqual(answer.outcome, 'reply', what);
}

type Reply = Extract<Answer, { outcome: 'reply' }>;
interface SeenInput {
  readonly w: World;
  readonly from: Origin;
  readonly expected: Extract<Expected, { kind: 'balanced' }>;
}

/** A masqueraded client is seen under one of the node's addresses. */
function assertSeen(answer: Reply, { w, from, expected: { masqueraded } }: SeenInput): void {
  if (from === 'node') return;
  const isHidden = masqueraded === 'all' || (masqueraded !== 'none' && masqueraded.includes(answer.by as never));
  if (isHidden) assert.ok(w.local.has(answer.seen), `${answer.by} saw ${answer.seen}, which is not the node`);
  else assert.equal(answer.seen, w.address(from), `${answer.by} must see the client itself`);
}
