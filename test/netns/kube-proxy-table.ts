/** A table as kube-proxy's nftables mode leaves it, up to 1.35: a chain a Service with a map of its own, and a chain an endpoint. */
import { createHash } from 'node:crypto';
import type { ProxiedService } from './kube-proxy-rules.ts';

export interface TableService extends ProxiedService {
  readonly nodePort?: number;
  /** Default: tcp. */
  readonly protocol?: 'tcp' | 'udp';
}

export interface TableOptions {
  readonly clusterCidr?: string;
  /** Where node ports are served. */
  readonly nodeAddress?: string;
}

/** Input for `nft -f`: the table `kube-proxy` of IPv4, into a node that has none. */
export function kubeProxyTable(
  services: readonly TableService[],
  { clusterCidr = '10.128.0.0/9', nodeAddress }: TableOptions = {},
): string {
  const chains: string[] = [];
  const elements: string[] = [];
  const nodePorts: string[] = [];
  for (const { id, clusterIP, port, nodePort, endpoints, protocol = 'tcp' } of services) {
    const name = nameOf(id, protocol);
    const service = `service-${hash(name)}-${name}`;
    const targets = endpoints.map(
      (endpoint) => `endpoint-${hash(name + endpoint)}-${name}__${endpoint.replace(':', '/')}`,
    );
    elements.push(`${clusterIP} . ${protocol} . ${port} : goto ${service}`);
    for (const [i, target] of targets.entries()) {
      const [address] = endpoints[i]?.split(':') ?? [];
      chains.push(
        `chain ${target} {`,
        `ip saddr ${address} jump mark-for-masquerade`,
        `meta l4proto ${protocol} dnat to ${endpoints[i]}`,
        '}',
      );
    }
    const choices = targets.map((target, i) => `${i} : goto ${target}`).join(', ');
    chains.push(
      `chain ${service} {`,
      `ip daddr ${clusterIP} ${protocol} dport ${port} ip saddr != ${clusterCidr} jump mark-for-masquerade`,
      `numgen random mod ${targets.length} vmap { ${choices} }`,
      '}',
    );
    if (nodePort === undefined) continue;
    const external = `external-${hash(name)}-${name}`;
    nodePorts.push(`${protocol} . ${nodePort} : goto ${external}`);
    chains.push(`chain ${external} {`, 'jump mark-for-masquerade', `goto ${service}`, '}');
  }
  const filled = [
    elementsOf('service-ips', elements),
    elementsOf('service-nodeports', nodePorts),
    elementsOf('nodeport-ips', nodeAddress === undefined ? [] : [nodeAddress]),
  ];
  return [...SKELETON, ...chains, '}', ...filled, ''].join('\n');
}

const SKELETON = [
  'table ip kube-proxy {',
  'comment "rules for kube-proxy"',
  'set cluster-ips { type ipv4_addr; comment "Active ClusterIPs"; }',
  'map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"; }',
  'set nodeport-ips { type ipv4_addr; comment "IPs that accept NodePort traffic"; }',
  'map service-nodeports { type inet_proto . inet_service : verdict; comment "NodePort traffic"; }',
  'map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }',
  'chain nat-prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }',
  'chain nat-output { type nat hook output priority -100; policy accept; jump services; }',
  'chain nat-postrouting { type nat hook postrouting priority srcnat; policy accept; jump masquerading; }',
  'chain mark-for-masquerade { meta mark set meta mark | 0x4000; }',
  'chain masquerading { meta mark & 0x4000 == 0 return; meta mark set meta mark ^ 0x4000; masquerade fully-random; }',
  'chain services {',
  'ip daddr . meta l4proto . th dport vmap @service-ips',
  'ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports',
  '}',
];

function elementsOf(set: string, elements: readonly string[]): string {
  return elements.length === 0 ? '' : `add element ip kube-proxy ${set} { ${elements.join(',\n')} }`;
}

/** `namespace/name:port` as `namespace/name/PROTOCOL/port`. */
function nameOf(id: string, protocol: string): string {
  const [service = '', port = ''] = id.split(':');
  return `${service}/${protocol}/${port}`;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8).toUpperCase();
}
