/** The conformance stories with real packets through the real kernel: both variants of iptables, both families. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Answer } from '../../src/cli/demo/host-protocol.ts';
import { Lab, podAddress, remotePodAddress } from '../../src/cli/demo/lab.ts';
import { realCommands } from '../../src/host/commands.ts';
import { FAMILIES, type Family, parseCidr } from '../../src/model/address.ts';
import { IPTABLES } from '../conformance/iptables.ts';
import { HEALTH_PORT, NODE_PORT, POD_PORT, PORT } from '../conformance/stories/build.ts';
import { STORIES } from '../conformance/stories/index.ts';
import type { Expected, Story, StoryPacket } from '../conformance/story.ts';
import { isToldIn, seesNode } from '../conformance/suite.ts';
import { type BackendName, type Origin, type World, world } from '../conformance/world.ts';
import { commandsIn, sysctlsIn } from '../helpers/namespace-commands.ts';
import { NEVER, Rig } from '../helpers/rig.ts';

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
      lab = await Lab.create({ commands: realCommands, pods: 4, remotePods: 2, signal: NEVER });
      for (const protocol of ['TCP', 'UDP'] as const) {
        for (const host of ['pod-1', 'pod-2']) await lab.serve(host, protocol, POD_PORT);
        for (const address of Object.values(remotePodAddress(1))) await lab.serve('other', protocol, POD_PORT, address);
      }
      for (const port of [HEALTH_PORT, NODE_PORT]) await lab.serve('node', 'TCP', port);
      await answerBeyond(lab);
    });
    after(() => lab.remove());

    for (const family of FAMILIES) {
      for (const story of STORIES) {
        if (!isToldIn(story, family) || IPTABLES.differs[story.title] !== undefined) continue;
        if (story.onlyInterpreted !== undefined) continue;
        it(`${family}, ${story.field}: ${story.title}`, () => tellReally(lab, { story, family, backend }));
      }
    }
  });
}

interface Telling {
  readonly story: Story;
  readonly family: Family;
  readonly backend: 'nft' | 'legacy';
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
    const { clusterIP, externalIP, vip, address, node, gateway } = world(family);
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

async function tellReally(lab: Lab, { story, family, backend }: Telling): Promise<void> {
  const w = world(family);
  const told = story.tell(w);
  const { settings, nodeHas = [], closed = false } = told;
  // What the story before left in the kernel is found there, and replaced.
  const rig = new Rig({
    commands: commandsIn(lab, 'node'),
    sysctls: sysctlsIn(lab, 'node'),
    backend,
    settings: (of) => (of === family ? { ...settings } : {}),
  });
  const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}`;
  const bits = family === 'IPv4' ? 32 : 128;
  try {
    for (const address of nodeHas) await lab.exec('node', 'ip', 'address', 'add', `${address}/${bits}`, 'dev', 'lo');
    if (closed) await setFirewall(lab, tool, 'closed');
    for (const state of [told, ...(told.next ?? [])]) {
      const report = await rig.become(state).sync();
      assert.equal(report.outcome, 'complete', JSON.stringify(report.failed));
      for (const { packet, expected } of state.packets) await assertAnswers(lab, w, packet, expected);
    }
  } finally {
    if (closed) await setFirewall(lab, tool, 'open');
    for (const address of nodeHas) await lab.exec('node', 'ip', 'address', 'delete', `${address}/${bits}`, 'dev', 'lo');
  }
}

/** A firewall that drops what nobody accepts; neighbours still find each other (ICMPv6). */
async function setFirewall(lab: Lab, tool: string, to: 'closed' | 'open'): Promise<void> {
  const [verb, policy] = to === 'closed' ? ['-A', 'DROP'] : ['-D', 'ACCEPT'];
  if (tool.startsWith('ip6')) await lab.exec('node', tool, verb, 'INPUT', '-p', 'ipv6-icmp', '-j', 'ACCEPT');
  for (const chain of ['INPUT', 'FORWARD']) await lab.exec('node', tool, '-P', chain, policy);
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

function assertStopped(answer: Answer, kind: Exclude<Expected['kind'], 'balanced'>, what: string): void {
  if (kind === 'accepted') assert.equal(answer.outcome === 'reply' && answer.by, 'node', `${what}: ${answer.outcome}`);
  else if (kind === 'rejected') assert.equal(answer.outcome, 'refused', what);
  else if (kind === 'dropped') assert.equal(answer.outcome, 'timeout', what);
  else assert.ok(answer.outcome === 'reply' && ['node', BEYOND].includes(answer.by), `${what}: ${answer.outcome}`);
}

type Reply = Extract<Answer, { outcome: 'reply' }>;
interface SeenInput {
  readonly w: World;
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
