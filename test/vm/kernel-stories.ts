/**
 * Which stories nftables mode has on another kernel. It has other implementations of the expressions and sets that the table
 * is made of, and nothing else that a packet meets: these stories use each of them. Which endpoint a Service chooses is
 * decided before anything is written, so the other stories are the same on every kernel; test/netns/stories-nftables.test.ts
 * has them all.
 */
import { NFTABLES } from '../conformance/nftables.ts';
import type { ModeUnderTest } from '../conformance/suite.ts';
import { type RealStory, realStories } from '../netns/story-packets.ts';

/** Ids of stories by what they use of the kernel. */
export const STORIES_FOR: Readonly<Record<string, readonly string[]>> = {
  'lookup in a verdict map by address, protocol and port; numgen; dnat': [
    'cluster-ip-balanced',
    'cluster-ip-udp',
    'one-port-two-protocols',
    'ports-by-name-and-protocol',
  ],
  'bitwise on the mark; masquerade': ['node-masqueraded-by-cluster-cidr', 'other-mark-bit', 'sole-pod-reaches-itself'],
  'meta iifname, whole and by its prefix': ['pods-by-bridge', 'pods-by-interface-prefix'],
  'reject with a reset and with an ICMP error; drop': [
    'cluster-ip-without-endpoints',
    'cluster-ip-udp-without-endpoints',
    'internal-local-without-endpoint-here',
  ],
  'fib address type': ['node-port-local', 'node-port-chosen-addresses', 'node-port-not-on-loopback'],
  'sets of intervals': ['ranges-let-in', 'ranges-with-node'],
  'elements and chains that come, change and go in one transaction': [
    'endpoint-comes-drains-goes',
    'ranges-come-and-go',
    'service-changes-and-goes',
  ],
};

const IDS = new Set(Object.values(STORIES_FOR).flat());

/** In both families. The other modes have them on the kernels of `npm run test:kernels`, where they pass through each rule, set and server. */
export function kernelStories(mode: ModeUnderTest = NFTABLES): RealStory[] {
  return realStories(mode).filter(({ story }) => IDS.has(story.id));
}
