/** The DNS of a cluster with NodeLocal DNSCache: the Services kube-dns and kube-dns-upstream of both families, before pod-1. */
import { FAMILIES } from '../../../src/base/address.ts';
import { cluster, type StoryCluster } from '../../conformance/cluster.ts';
import { service, slice } from './objects.ts';

/** Where pod-1 answers, and where it has its metrics. */
export const DNS_POD_PORT = 5353;
export const METRICS_PORT = 9153;
/** The address at which the cache listens in every mode. */
export const LOCAL_DNS = { IPv4: '169.254.20.10', IPv6: 'fd00:169::10' } as const;

export const kubeDns = (w: StoryCluster) => w.clusterIP(10);
export const kubeDnsUpstream = (w: StoryCluster) => w.clusterIP(20);

const PORTS = [
  { name: 'dns', port: 53, protocol: 'UDP' },
  { name: 'dns-tcp', port: 53, protocol: 'TCP' },
  { name: 'metrics', port: METRICS_PORT, protocol: 'TCP' },
];
const TARGETS = PORTS.map(({ name, protocol }) => {
  return { name, protocol, port: name === 'metrics' ? METRICS_PORT : DNS_POD_PORT };
});

/** Services of the kube-system namespace, and their slices. `hasEndpoints`: of kube-dns itself. */
export function clusterDns({ hasEndpoints = true } = {}): object[] {
  const worlds = FAMILIES.map(cluster);
  const of = (name: string, addresses: readonly string[], endpoints: boolean): object[] => [
    service({
      ...{ name, namespace: 'kube-system' },
      spec: { clusterIP: addresses[0], clusterIPs: addresses, ipFamilies: FAMILIES, ports: PORTS },
    }),
    ...worlds.map((w) =>
      slice({
        ...{ name: `${name}-${w.family.toLowerCase()}`, namespace: 'kube-system', service: name },
        ...{ addressType: w.family, ports: TARGETS },
        endpoints: endpoints ? [{ addresses: [w.address('pod-1')], nodeName: 'node' }] : [],
      }),
    ),
  ];
  return [
    ...of('kube-dns', worlds.map(kubeDns), hasEndpoints),
    ...of('kube-dns-upstream', worlds.map(kubeDnsUpstream), true),
  ];
}
