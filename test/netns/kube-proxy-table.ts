/** A table as kube-proxy's nftables mode leaves it: a chain a Service with a map of its own, and a chain an endpoint. */
import { createHash } from 'node:crypto';
import type { ProxiedService } from './kube-proxy-rules.ts';

/** Input for `nft -f`: the table `kube-proxy` of IPv4, into a node that has none. */
export function kubeProxyTable(services: readonly ProxiedService[], clusterCidr = '10.128.0.0/9'): string {
  const chains: string[] = [];
  const elements: string[] = [];
  for (const { id, clusterIP, port, endpoints } of services) {
    const name = nameOf(id);
    const service = `service-${hash(name)}-${name}`;
    const targets = endpoints.map(
      (endpoint) => `endpoint-${hash(name + endpoint)}-${name}__${endpoint.replace(':', '/')}`,
    );
    elements.push(`${clusterIP} . tcp . ${port} : goto ${service}`);
    for (const [i, target] of targets.entries()) {
      const [address] = endpoints[i]?.split(':') ?? [];
      chains.push(
        `chain ${target} {`,
        `ip saddr ${address} jump mark-for-masquerade`,
        `meta l4proto tcp dnat to ${endpoints[i]}`,
        '}',
      );
    }
    const choices = targets.map((target, i) => `${i} : goto ${target}`).join(', ');
    chains.push(
      `chain ${service} {`,
      `ip daddr ${clusterIP} tcp dport ${port} ip saddr != ${clusterCidr} jump mark-for-masquerade`,
      `numgen random mod ${targets.length} vmap { ${choices} }`,
      '}',
    );
  }
  return [...SKELETON, ...chains, '}', elementsOf(elements), ''].join('\n');
}

const SKELETON = [
  'table ip kube-proxy {',
  'comment "rules for kube-proxy"',
  'set cluster-ips { type ipv4_addr; comment "Active ClusterIPs"; }',
  'map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"; }',
  'map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }',
  'chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }',
  'chain nat-output { type nat hook output priority -100; policy accept; jump services; }',
  'chain nat-postrouting { type nat hook postrouting priority srcnat; policy accept; jump masquerading; }',
  'chain mark-for-masquerade { meta mark set meta mark | 0x4000; }',
  'chain masquerading { meta mark & 0x4000 == 0 return; meta mark set meta mark ^ 0x4000; masquerade fully-random; }',
  'chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }',
];

function elementsOf(elements: readonly string[]): string {
  return elements.length === 0 ? '' : `add element ip kube-proxy service-ips { ${elements.join(',\n')} }`;
}

/** `namespace/name:port` as `namespace/name/tcp/port`. */
function nameOf(id: string): string {
  const [service = '', port = ''] = id.split(':');
  return `${service}/tcp/${port}`;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8).toUpperCase();
}
