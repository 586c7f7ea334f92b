/** Cases of kube-proxy's iptables proxier. */
import type { UpstreamFile } from '../cases.ts';

export const IPTABLES_PROXIER: UpstreamFile = {
  path: 'pkg/proxy/iptables/proxier_test.go',
  cases: [
    {
      title: 'TestLoadBalancerIngressRouteTypeProxy/ipMode Proxy',
      stories: ['an address that the load balancer translates itself is left to it'],
    },
  ],
};
