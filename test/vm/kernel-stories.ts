/**
 * Which stories nftables mode has on another kernel. It has other implementations of the expressions and sets that the table
 * is made of, and nothing else that a packet meets: these stories use each of them. Which endpoint a Service chooses is
 * decided before anything is written, so the other stories are the same on every kernel; test/netns/stories-nftables.test.ts
 * has them all.
 */
import { NFTABLES } from '../conformance/nftables.ts';
import { type RealStory, realStories } from '../netns/story-packets.ts';

/** Stories by what they use of the kernel. */
export const STORIES_FOR: Readonly<Record<string, readonly string[]>> = {
  'lookup in a verdict map by address, protocol and port; numgen; dnat': [
    'a pod is balanced over all endpoints and keeps its address',
    'UDP is balanced like TCP',
    'one port number in two protocols goes to two sets of endpoints',
    'ports find their endpoints by name and protocol, not by number',
  ],
  'bitwise on the mark; masquerade': [
    'the node is masqueraded when a cluster CIDR is known, a pod is not',
    'another bit of the mark asks for masquerading',
    'a pod that is the only endpoint reaches itself',
  ],
  'meta iifname, whole and by its prefix': [
    'pods are told by their bridge',
    'pods are told by the prefix of their interfaces',
  ],
  'reject with a reset and with an ICMP error; drop': [
    'a Service without endpoints refuses at once, pods, the node and outside',
    'a UDP Service without endpoints refuses at once',
    'internal policy Local without an endpoint here: dropped, and refused when there is none at all',
  ],
  'fib address type': [
    'a node port, policy Local: outside only endpoints here and seen by them; a pod and the node all',
    'node ports on chosen addresses only',
    'no node port on a loopback address when that is not wanted, and never on ::1',
  ],
  'sets of intervals': [
    'source ranges let in whom they name and nobody else, on every address of the load balancer',
    'a range that holds the node lets the node in, on every address',
  ],
  'elements and chains that come, change and go in one transaction': [
    'an endpoint comes, drains, goes and comes back',
    'ranges come, change and go',
    'a Service changes its address, and is deleted',
  ],
};

const TITLES = new Set(Object.values(STORIES_FOR).flat());

/** In both families. */
export function kernelStories(): RealStory[] {
  return realStories(NFTABLES).filter(({ story }) => TITLES.has(story.title));
}
