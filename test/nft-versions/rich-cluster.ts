/**
 * A cluster that fills every map and set of nftables mode's table and needs chains of every kind, in both families. iptables mode writes it,
 * too.
 */
import type { Family } from '../../src/base/address.ts';
import type { LocalDetector } from '../../src/proxy/modes/netfilter/local-traffic.ts';
import { type BackendName, cluster, type StoryCluster } from '../conformance/cluster.ts';
import { HEALTH_PORT, POD_PORT, PORT, vips } from '../conformance/stories/build.ts';
import type { StorySettings } from '../conformance/story.ts';
import { service, slice } from '../helpers/cluster/objects.ts';

const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const;
const EVERYWHERE: readonly BackendName[] = ['pod-1', 'pod-2', 'other'];
const STICKY = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } } };

/** Services of one family: cluster IPs, external IPs, load balancers with source ranges, node ports, affinity, policies; with and without endpoints. */
export function richObjects(family: Family): object[] {
  const w = cluster(family);
  const made = (n: number, name: string, spec: Record<string, unknown>, at: readonly BackendName[]) => [
    service({
      name: `${name}-${family.toLowerCase()}`,
      spec: {
        type: 'LoadBalancer',
        clusterIP: w.clusterIP(n),
        externalIPs: [w.externalIP(n)],
        ports: PROTOCOLS.map((protocol, i) => ({ ...named(protocol), port: PORT, nodePort: 30_000 + n * 10 + i })),
        ...spec,
      },
      status: vips(w.vip(n)),
    }),
    endpoints(`${name}-${family.toLowerCase()}`, w, at),
  ];
  const ranges = [`${w.address('outside')}/${family === 'IPv4' ? 32 : 128}`, w.podCidr];
  const [outside, inside] = [{ externalTrafficPolicy: 'Local' }, { internalTrafficPolicy: 'Local' }];
  return [
    ...made(1, 'all', { loadBalancerSourceRanges: ranges }, EVERYWHERE),
    ...made(2, 'sticky', STICKY, ['pod-1', 'other']),
    ...made(3, 'here', { ...outside, healthCheckNodePort: HEALTH_PORT }, EVERYWHERE),
    ...made(4, 'elsewhere', { ...outside, ...inside }, ['other']),
    ...made(5, 'inside', inside, ['pod-1', 'other']),
    ...made(6, 'nobody', {}, []),
    ...made(7, 'sticky-here', { ...STICKY, ...outside }, ['pod-1', 'pod-2']),
  ];
}

type RichSettings = StorySettings & { readonly localDetector: LocalDetector };

/** In IPv4 with limits of every kind, in IPv6 without. */
export function richSettings(family: Family): RichSettings {
  const w = cluster(family);
  const nodeAddresses = [w.node];
  return family === 'IPv4'
    ? { nodeAddresses, localDetector: { kind: 'cidr', cidr: w.podCidr }, nodePortAddresses: [w.node] }
    : { nodeAddresses, localDetector: { kind: 'interface', name: 'cni0' }, nodePortAddresses: 'all' };
}

const named = (protocol: string) => ({ name: protocol.toLowerCase(), protocol });

function endpoints(name: string, w: StoryCluster, at: readonly BackendName[]): object {
  return slice({
    name: `${name}-1`,
    service: name,
    addressType: w.family,
    ports: PROTOCOLS.map((protocol) => ({ ...named(protocol), port: POD_PORT })),
    endpoints: at.map((who) => ({ addresses: [w.address(who)], nodeName: who === 'other' ? 'other-node' : 'node' })),
  });
}
