/** Stories with real packets: a lab, and what its hosts answer. The caller brings the mode under test. */
import assert from 'node:assert/strict';
import { FAMILIES, type Family, parseCidr } from '../../src/base/address.ts';
import type { HostAnswer } from '../../src/cli/lab/host-process.ts';
import { Lab, podAddress, remotePodAddress } from '../../src/cli/lab/lab.ts';
import { type BackendName, cluster, type Origin, type StoryCluster } from '../conformance/cluster.ts';
import { HEALTH_PORT, NODE_PORT, POD_PORT, PORT } from '../conformance/stories/build.ts';
import { STORIES } from '../conformance/stories/index.ts';
import type { Expected, PacketFate, Story, StoryCase, StoryPacket, StoryState } from '../conformance/story.ts';
import { isTestedIn, type ModeUnderTest, meantBy, seesNode, type Unserved } from '../conformance/suite.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, type Rig } from '../helpers/proxy/rig.ts';
import { assertSameFates, viewOf } from './same-fates.ts';

/** Most requests until every backend was seen: one of three is missed by all of them once in 10^17 runs. */
const MAX_REQUESTS = 100;
const HOST_OF: Readonly<Record<Origin, string>> = {
  'pod-1': 'pod-1',
  'pod-2': 'pod-2',
  'pod-3': 'pod-3',
  'remote-pod': 'other',
  other: 'other',
  node: 'node',
  outside: 'client',
};

/** Milliseconds. */
export interface Patience {
  /** Until silence counts as dropped. */
  readonly silence: number;
  /** Until an answer or a refusal must have come. */
  readonly answer: number;
}

/** On a machine that may be emulated. */
export const EMULATED: Patience = { silence: 1200, answer: 6000 };

/** How packets are sent, and judged. */
export interface Sending {
  /** The command that sets policies of built-in chains. */
  readonly tool: (family: Family) => string;
  readonly patience: Patience;
  readonly unserved: Unserved;
  /** A Service that is gone may be refused until its connections have ended. */
  readonly drains: boolean;
  /** Least requests to backends, where no rule is looked at that could lead to one too many; otherwise as many as show all of them. */
  readonly requests?: number;
}

/** A mode under test. */
export interface TestedMode extends Sending {
  /** A rig of the mode for a story, over what the story before left. */
  open(story: StoryCase, family: Family): Promise<Rig> | Rig;
  /** Before packets are sent. */
  readonly onSynced?: () => Promise<void>;
}

/** A proxy on the node that is brought to the states of one story. */
export interface StoryProxy {
  /** Resolves when it has written all that the state asks for. */
  reach(state: StoryState): Promise<void>;
  /** Checks the packets of a state by its rules, before they are sent. Throws an AssertionError. */
  check?(meant: readonly PacketFate[]): Promise<void>;
}

export interface RealStory {
  readonly story: Story;
  readonly family: Family;
  /** Of its test. */
  readonly name: string;
}

/** The stories that real packets can check in a mode, in each family. */
export function realStories(mode: ModeUnderTest): RealStory[] {
  return FAMILIES.flatMap((family) =>
    STORIES.filter(
      (story) =>
        isTestedIn(story, family) && mode.differs[story.id] === undefined && story.onlyInterpreted === undefined,
    ).map((story) => ({ story, family, name: `${family}, ${story.field}: ${story.title}` })),
  );
}

/** The hosts of the stories, serving. */
export async function storyLab(): Promise<Lab> {
  const lab = await Lab.create({ commands: shellCommands, pods: 4, remotePods: 2, signal: NEVER });
  for (const protocol of ['TCP', 'UDP'] as const) {
    for (const host of ['pod-1', 'pod-2']) await lab.serve(host, protocol, POD_PORT);
    for (const address of Object.values(remotePodAddress(1))) await lab.serve('other', protocol, POD_PORT, address);
  }
  for (const port of [HEALTH_PORT, NODE_PORT]) await lab.serve('node', 'TCP', port);
  await answerBeyond(lab);
  return lab;
}

/** Ports that stories send to where no Service is. */
const BEYOND_PORTS = [PORT, PORT + 1, PORT + 3, HEALTH_PORT];

/** A pod that no story speaks of. */
const BEYOND = 'pod-4';

/**
 * Behind the node somebody has every address that a Service could have: it answers what the node passes on untouched, so
 * that «untouched» and «dropped» can be told apart.
 */
async function answerBeyond(lab: Lab): Promise<void> {
  for (const port of BEYOND_PORTS) await lab.serve(BEYOND, 'TCP', port);
  for (const family of FAMILIES) {
    const { clusterIP, externalIP, vip, address, node, gateway } = cluster(family);
    const bits = family === 'IPv4' ? 24 : 64;
    const via = family === 'IPv4' ? podAddress(4).v4 : podAddress(4).v6;
    for (const range of [clusterIP, externalIP, vip].map((of) => parseCidr(`${of(1)}/${bits}`) ?? '')) {
      await lab.exec('node', 'ip', 'route', 'add', range, 'via', via, 'src', node);
      await lab.exec(BEYOND, 'ip', 'route', 'add', 'local', range, 'dev', 'lo');
    }
    // Both ways through the node: a connection that it sees one way alone is invalid to it.
    for (const pod of ['pod-1', 'pod-2', 'pod-3'] as const) {
      await lab.exec(BEYOND, 'ip', 'route', 'add', address(pod), 'via', gateway);
    }
  }
  // And the node would tell its neighbours of the shorter way.
  for (const host of ['pod-1', 'pod-2', 'pod-3', BEYOND]) {
    for (const name of ['net.ipv4.conf.all', 'net.ipv4.conf.eth0', 'net.ipv6.conf.all', 'net.ipv6.conf.eth0']) {
      await lab.exec(host, 'sysctl', '-qw', `${name}.accept_redirects=0`);
    }
  }
}

/** Bring the node to each state of a story by a mode and send its packets. Throws an AssertionError when one ends otherwise. */
export async function sendStory(
  lab: Lab,
  mode: TestedMode,
  { story, family }: { story: Story; family: Family },
): Promise<void> {
  await sendPackets(lab, mode, { story, family }, async (first) => {
    const rig = await mode.open(first, family);
    return {
      reach: async (state) => {
        const report = await rig.become(state).sync();
        assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
        await mode.onSynced?.();
      },
      check: async (meant) => assertSameFates(await viewOf(rig, family), { story: first, meant, w: cluster(family) }),
    };
  });
}

/** The same by any proxy. `open` is called with the node as the story needs it. */
export async function sendPackets(
  lab: Lab,
  mode: Sending,
  { story, family }: { story: Story; family: Family },
  open: (first: StoryCase) => Promise<StoryProxy>,
): Promise<void> {
  const w = cluster(family);
  const first = story.tell(w);
  const { nodeHas = [], closed = false } = first;
  const tool = mode.tool(family);
  const bits = family === 'IPv4' ? 32 : 128;
  try {
    for (const address of nodeHas) await lab.exec('node', 'ip', 'address', 'add', `${address}/${bits}`, 'dev', 'lo');
    if (closed) await setFirewall(lab, tool, 'closed');
    const proxy = await open(first);
    for (const state of [first, ...(first.next ?? [])]) {
      await proxy.reach(state);
      const meant = state.packets.map((fate) => ({ packet: fate.packet, expected: meantBy(fate, mode.unserved, w) }));
      const mayDrain = ({ expected }: PacketFate) => mode.drains && state !== first && expected.kind === 'untouched';
      await proxy.check?.(meant.filter((fate) => !mayDrain(fate)));
      const silent: (() => Promise<void>)[] = [];
      for (const fate of meant) {
        const { packet, expected } = fate;
        const ask = () => assertAnswers({ ...mode, lab, w }, packet, mayDrain(fate) ? 'gone' : expected);
        if (expected.kind === 'dropped') silent.push(ask);
        else await ask();
      }
      // Silence is waited for once, and not once for each.
      await Promise.all(silent.map((ask) => ask()));
    }
  } finally {
    if (closed) await setFirewall(lab, tool, 'open');
    for (const address of nodeHas) await lab.exec('node', 'ip', 'address', 'delete', `${address}/${bits}`, 'dev', 'lo');
  }
}

/** A firewall that drops what nobody accepts; neighbours still find each other (ICMPv6), and programs of the node talk to each other. */
async function setFirewall(lab: Lab, tool: string, to: 'closed' | 'open'): Promise<void> {
  const [verb, policy] = to === 'closed' ? ['-A', 'DROP'] : ['-D', 'ACCEPT'];
  await lab.exec('node', tool, verb, 'INPUT', '-i', 'lo', '-j', 'ACCEPT');
  if (tool.startsWith('ip6')) await lab.exec('node', tool, verb, 'INPUT', '-p', 'ipv6-icmp', '-j', 'ACCEPT');
  for (const chain of ['INPUT', 'FORWARD']) await lab.exec('node', tool, '-P', chain, policy);
}

interface Place extends Pick<Sending, 'patience' | 'requests'> {
  readonly lab: Lab;
  readonly w: StoryCluster;
}

/** `gone`: untouched, or refused while connections of a Service that is no more are waited for. */
async function assertAnswers(
  { lab, w, patience, requests = 0 }: Place,
  packet: StoryPacket,
  expected: Expected | 'gone',
): Promise<void> {
  const { from, to, port, protocol = 'TCP' } = packet;
  assert.notEqual(protocol, 'SCTP');
  const source = HOST_OF[from] === 'other' ? w.address(from) : undefined;
  const isSilent = expected !== 'gone' && expected.kind === 'dropped';
  const timeout = isSilent ? patience.silence : patience.answer;
  const ask = () => lab.ask(HOST_OF[from], { address: to, port, protocol: protocol as 'TCP', from: source, timeout });
  const what = `${from} to ${to}`;
  if (expected === 'gone') {
    const answer = await ask();
    if (answer.outcome !== 'refused') assertStopped(answer, 'untouched', what);
    return;
  }
  if (expected.kind !== 'balanced') {
    assertStopped(await ask(), expected.kind, what);
    return;
  }
  const missing = new Set<string>(Object.keys(expected.shares));
  for (let i = 0; i < requests || (i < MAX_REQUESTS && missing.size > 0); i++) {
    const answer = await ask();
    assert.equal(answer.outcome, 'reply', `${from} to ${to}: ${JSON.stringify(answer)}`);
    if (answer.outcome !== 'reply') return;
    assert.ok(answer.by in expected.shares, `${answer.by} must not be asked`);
    missing.delete(answer.by);
    if (to !== w.loopback) assertSeen(answer, { w, from, expected });
  }
  assert.deepEqual([...missing], [], 'backends that were never asked');
}

function assertStopped(answer: HostAnswer, kind: Exclude<Expected['kind'], 'balanced'>, what: string): void {
  if (kind === 'accepted') assert.equal(answer.outcome === 'reply' && answer.by, 'node', `${what}: ${answer.outcome}`);
  else if (kind === 'rejected') assert.equal(answer.outcome, 'refused', what);
  else if (kind === 'dropped') assert.equal(answer.outcome, 'timeout', what);
  else assert.ok(answer.outcome === 'reply' && ['node', BEYOND].includes(answer.by), `${what}: ${answer.outcome}`);
}

type Reply = Extract<HostAnswer, { outcome: 'reply' }>;
interface SeenInput {
  readonly w: StoryCluster;
  readonly from: Origin;
  readonly expected: Extract<Expected, { kind: 'balanced' }>;
}

/** A masqueraded client is seen under one of the node's addresses. */
function assertSeen(answer: Reply, { w, from, expected }: SeenInput): void {
  if (from === 'node') return;
  if (seesNode(expected, answer.by as BackendName)) {
    assert.ok(w.local.has(answer.seen), `${answer.by} saw ${answer.seen}, which is not the node`);
  } else assert.equal(answer.seen, w.address(from), `${answer.by} must see the client itself`);
}
