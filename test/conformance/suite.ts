/** The conformance suite: every story, in both families, told by a mode. A mode brings a factory and, where it differs, the reason. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Address, endpointText, FAMILIES, type Family } from '../../src/base/address.ts';
import type { Fate, Packet } from '../../src/inspect/explain/packet.ts';
import type { ModeName } from '../../src/proxy/model/modes.ts';
import { type BackendName, cluster, deviceOf, type StoryCluster } from './cluster.ts';
import { POD_PORT } from './stories/build.ts';
import { STORIES } from './stories/index.ts';
import type { Expected, PacketFate, Story, StoryCase, StoryPacket, StoryState } from './story.ts';

/** A mode on a node in memory, in one family. */
export interface Subject {
  /** Bring it to this state: all objects there are. Throws when a write fails. */
  reach(state: StoryState): Promise<void>;
  /** What becomes of a packet now. */
  fates(packet: StoryPacket, cluster: StoryCluster): readonly Fate[];
}

type LeftOrRefused = 'untouched' | 'rejected';

/** What becomes of a packet to a port of a Service's address that the Service does not have: of a cluster IP, and of another. */
export interface Unserved {
  readonly clusterIP: LeftOrRefused;
  readonly other: LeftOrRefused;
}

/** What is expected of a packet in a mode. */
export function meantBy({ packet, expected }: PacketFate, unserved: Unserved, w: StoryCluster): Expected {
  if (expected.kind !== 'unserved') return expected;
  return { kind: w.isClusterIP(packet.to) ? unserved.clusterIP : unserved.other };
}

export interface ModeUnderTest {
  readonly mode: ModeName;
  /** Why the mode differs from a story, by the story's id. Such a story is not told, and docs/reference/conformance.md says why. */
  readonly differs: Readonly<Record<string, string>>;
  readonly unserved: Unserved;
  open(family: Family, story: StoryCase): Subject;
}

/** Whether a story makes sense in a family. */
export function isTestedIn(story: Story, family: Family): boolean {
  return story.families?.includes(family) !== false;
}

/** Tell a story; throws an AssertionError when it ends otherwise. */
export async function tellStory(mode: ModeUnderTest, story: Story, family: Family): Promise<void> {
  const w = cluster(family);
  const told = story.tell(w);
  const subject = mode.open(family, told);
  for (const state of [told, ...(told.next ?? [])]) {
    await subject.reach(state);
    for (const fate of state.packets) {
      const { packet } = fate;
      assertFates(subject.fates(packet, w), { packet, expected: meantBy(fate, mode.unserved, w) }, w);
    }
  }
}

/** Declare a test for each story and family. */
export function conformanceSuite(mode: ModeUnderTest): void {
  for (const family of FAMILIES) {
    describe(`conformance, ${mode.mode} mode, ${family}`, () => {
      for (const story of STORIES) {
        if (!isTestedIn(story, family)) continue;
        const reason = mode.differs[story.id];
        const options = reason === undefined ? {} : { skip: reason };
        it(`${story.field}: ${story.title}`, options, () => tellStory(mode, story, family));
      }
    });
  }
}

/** Throws an AssertionError when these are not the fates that are expected of the packet. */
export function assertFates(fates: readonly Fate[], { packet, expected }: PacketFate, w: StoryCluster): void {
  const what = `${packet.from} to ${packet.to} port ${packet.port}: ${JSON.stringify(fates)}`;
  assert.deepEqual([...new Set(fates.map((fate) => fate.kind))], [kindOf(expected)], what);
  if (expected.kind !== 'balanced') return;
  const wanted = new Map<string, { share: number; isMasqueraded: boolean }>();
  for (const [name, share] of Object.entries(expected.shares)) {
    const backend = endpointText(w.address(name as BackendName), expected.targetPort ?? POD_PORT);
    wanted.set(backend, { share, isMasqueraded: seesNode(expected, name as BackendName) });
  }
  assert.deepEqual(new Set(fates.map((fate) => fate.backend)), new Set(wanted.keys()), what);
  for (const fate of fates) {
    const { share, isMasqueraded } = wanted.get(fate.backend) ?? assert.fail();
    assert.ok(
      Math.abs(fate.probability - share) <= (expected.within ?? 1e-6),
      `${fate.backend} gets ${fate.probability}, not ${share}`,
    );
    assert.equal(fate.masqueraded, isMasqueraded, `masquerading before ${fate.backend}: ${what}`);
  }
}

/** What no rule of ours stops reaches the node's own server. */
function kindOf({ kind }: Expected): Fate['kind'] {
  return kind === 'accepted' || kind === 'unserved' ? 'untouched' : kind;
}

/** Whether a backend sees the node's address. */
export function seesNode({ masqueraded }: Extract<Expected, { kind: 'balanced' }>, name: BackendName): boolean {
  if (masqueraded === 'all' || masqueraded === 'none') return masqueraded === 'all';
  return masqueraded.includes(name);
}

/** A story's packet as the interpreter walks it. */
export function packetOf(packet: StoryPacket, w: StoryCluster): Packet {
  const { protocol = 'TCP', to, port, from, state = 'NEW' } = packet;
  return {
    protocol,
    source: sourceOf(packet, w),
    destination: to as Address,
    port,
    device: deviceOf(from),
    state,
  };
}

/** The packet's source: its own word, the loopback address when it goes there, or its sender's address. */
function sourceOf({ as, from, to }: StoryPacket, w: StoryCluster): Address {
  if (as !== undefined) return as as Address;
  return to.startsWith('127.') || to === '::1' ? w.loopback : w.address(from);
}
