/** Rules as kube-proxy leaves them (its pkg/proxy/iptables): a chain an endpoint, one long KUBE-SERVICES. */
import { JUMPS } from '../../src/proxy/modes/iptables/static-chains.ts';
import { endpointChain, serviceChains } from '../../src/proxy/modes/netfilter/balancer.ts';

export interface ProxiedService {
  /** `namespace/name[:port]` */
  readonly id: string;
  readonly clusterIP: string;
  readonly port: number;
  /** `ip:port` */
  readonly endpoints: readonly string[];
}

/** Input for `iptables-restore --noflush` on a node without any proxy. */
export function kubeProxyRules(services: readonly ProxiedService[]): string {
  const chains = ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'];
  const rules = [
    '-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
    '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
    '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
    '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
  ];
  for (const { id, clusterIP, port, endpoints } of services) {
    const svc = serviceChains(id, 'TCP')('SVC');
    chains.push(svc);
    rules.push(
      `-A KUBE-SERVICES -m comment --comment "${id} cluster IP" -m tcp -p tcp -d ${clusterIP} --dport ${port} -j ${svc}`,
    );
    for (const [i, endpoint] of endpoints.entries()) {
      const sep = endpointChain(id, 'TCP', endpoint);
      const left = endpoints.length - i;
      const chance = left > 1 ? `-m statistic --mode random --probability ${(1 / left).toFixed(10)} ` : '';
      chains.push(sep);
      rules.push(`-A ${svc} -m comment --comment "${id} -> ${endpoint}" ${chance}-j ${sep}`);
      rules.push(`-A ${sep} -m comment --comment ${id} -s ${endpoint.split(':')[0]} -j KUBE-MARK-MASQ`);
      rules.push(`-A ${sep} -m comment --comment ${id} -m tcp -p tcp -j DNAT --to-destination ${endpoint}`);
    }
  }
  const filterChains = [
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-NODEPORTS',
    'KUBE-FORWARD',
    'KUBE-PROXY-FIREWALL',
  ];
  const jumps = (table: string) =>
    JUMPS.filter((jump) => jump.table === table).map(({ chain, text }) => `-I ${chain} ${text}`);
  const declare = (names: readonly string[]) => names.map((name) => `:${name} - [0:0]`);
  const filter = ['*filter', ...declare(filterChains), ...jumps('filter'), 'COMMIT'];
  return [...filter, '*nat', ...declare(chains), ...jumps('nat'), ...rules, 'COMMIT', ''].join('\n');
}
