/** Node ports on loopback in nftables mode (KEP-6032): the e2e tests of Kubernetes 1.37. */
import type { UpstreamFile } from '../cases.ts';

const RELAY = 'test/netns/localhost-relay.test.ts';

export const LOCALHOST_NODEPORTS: UpstreamFile = {
  path: 'test/e2e/network/localhost_nodeports.go',
  cases: [
    {
      title: 'should proxy localhost NodePort traffic to backends across nodes',
      tests: {
        [RELAY]: [
          'reach endpoints of this node and of another, in both families, and leave the rules as they are',
          'are not served and nobody listens, unless a range of loopback is named',
        ],
      },
    },
    {
      title: 'should honor sessionAffinity=ClientIP for localhost NodePort',
      tests: { [RELAY]: ['keep to one endpoint by ClientIP, and to this node by externalTrafficPolicy Local'] },
    },
    {
      title: 'should let a node pull an image from a registry exposed via localhost NodePort',
      tests: {
        [RELAY]: [
          'bring what a registry on another node sends, byte for byte, and a reset where the registry goes away',
        ],
      },
      differs:
        'An HTTP server stands for the registry, and a client compares the digest of 24 MiB: a kubelet with a container runtime is not part of it.',
    },
  ],
};
