/** A KubeProxyConfiguration, and flags beside it. */
import type { Flags } from '../../src/config/flags.ts';
import type { Row } from './row.ts';

interface Input {
  readonly text: string;
  readonly flags?: Flags;
}

/** A file of the right kind with these fields. */
function of(fields: string): Input {
  return { text: `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n${fields}\n` };
}

export const CONFIG_FILES: readonly Row<Input>[] = [
  {
    name: 'another kind',
    input: { text: 'apiVersion: v1\nkind: Pod\n' },
    message:
      '--config: must be a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1; kind is Pod, and apiVersion is v1',
  },
  {
    name: 'no kind',
    input: { text: 'mode: ipvs\n' },
    message:
      '--config: must be a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1; kind is missing, and apiVersion is missing',
  },
  {
    name: 'a field that is unknown',
    input: of('iptables: {masqueradeBits: 3}'),
    message: '--config: unknown field "iptables.masqueradeBits"; the file is used anyway, as kube-proxy does',
  },
  {
    name: 'an unknown mode',
    input: of('mode: userspace'),
    message: '--config: mode: userspace: must be iptables, ipvs, nftables or auto',
  },
  {
    name: 'a number where a string must be',
    input: of('clusterCIDR: 10'),
    message: '--config: clusterCIDR: 10: must be a string',
  },
  {
    name: 'a string where a number must be',
    input: of('conntrack: {min: "5"}'),
    message: '--config: conntrack.min: "5": must be a whole number',
  },
  {
    name: 'a string where true or false must be',
    input: of('iptables: {masqueradeAll: "yes"}'),
    message: '--config: iptables.masqueradeAll: "yes": must be true or false',
  },
  {
    name: 'a duration that is none',
    input: of('iptables: {syncPeriod: 30}'),
    message: '--config: iptables.syncPeriod: 30: must be a duration in quotes, such as "30s" or "1m30s"',
  },
  {
    name: 'a string where a list must be',
    input: of('nodePortAddresses: 10.0.0.0/8'),
    message: '--config: nodePortAddresses: "10.0.0.0/8": must be a list of strings',
  },
  {
    name: 'a value where a section must be',
    input: of('iptables: 5'),
    message: '--config: iptables: 5: must be a map of fields',
  },
  {
    name: 'a bit that is none',
    input: of('iptables: {masqueradeBit: 32}'),
    message: '--config: iptables.masqueradeBit: 32: must be a whole number from 0 to 31',
  },
  {
    name: 'a pause longer than the period, which nobody gave',
    input: of('mode: ipvs\nipvs: {minSyncPeriod: 40s}'),
    message: '--config: ipvs.minSyncPeriod: 40s: must not be longer than ipvs.syncPeriod, which is 30s by default',
  },
  {
    name: 'a pause longer than the period',
    input: of('iptables: {minSyncPeriod: 40s, syncPeriod: 20s}'),
    message: '--config: iptables.minSyncPeriod: 40s: must not be longer than iptables.syncPeriod, which is 20s',
  },
  {
    name: 'a period shorter than the pause, which nobody gave',
    input: of('nftables: {syncPeriod: 500ms}\nmode: nftables'),
    message:
      '--config: nftables.syncPeriod: 500ms: must not be shorter than nftables.minSyncPeriod, which is 1s by default',
  },
  {
    name: 'a bridge that is not named',
    input: of('detectLocalMode: BridgeInterface'),
    message:
      '--config: detectLocal.bridgeInterface: must be the name of the pod bridge, at most 15 characters, because detectLocalMode is BridgeInterface',
  },
  {
    name: 'a prefix that is too long',
    input: of('detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: abcdefghijklmno}'),
    message:
      '--config: detectLocal.interfaceNamePrefix: abcdefghijklmno: must be the prefix of pod interface names, at most 14 characters, because detectLocalMode is InterfaceNamePrefix',
  },
  {
    name: 'a range of pods that is none',
    input: of('clusterCIDR: 10.0.0.0'),
    message: '--config: clusterCIDR: 10.0.0.0: must be a CIDR such as 10.244.0.0/16',
  },
  {
    name: 'an address for node ports that is none',
    input: of('nodePortAddresses: [eth0]'),
    message: '--config: nodePortAddresses: eth0: must be primary, localhost, all or a CIDR such as 10.0.0.0/8',
  },
  {
    name: 'an address for health that is none',
    input: of('healthzBindAddress: localhost'),
    message:
      '--config: healthzBindAddress: localhost: must be an IP address, or one with a port from 1 to 65535, such as 0.0.0.0:10256',
  },
  {
    name: 'a scheduler that is no name',
    input: of('mode: ipvs\nipvs: {scheduler: "r r"}'),
    message: '--config: ipvs.scheduler: r r: must begin with the name of a scheduler, such as rr or lc',
  },
  {
    name: 'a kind of content that is none',
    input: of('clientConnection: {contentType: text/plain}'),
    message:
      '--config: clientConnection.contentType: text/plain: must be application/vnd.kubernetes.protobuf or application/json',
  },
  {
    name: 'a score out of its range',
    input: of('oomScoreAdj: 2000'),
    message: '--config: oomScoreAdj: 2000: must be a whole number from -1000 to 1000',
  },
  {
    name: 'a flag beside the file',
    input: { ...of(''), flags: { v: 'much' } },
    message: '--v=much: must be a whole number from 0 to 2147483647',
  },
  {
    name: 'a field of Windows',
    input: of('winkernel: {networkName: a}'),
    message: '--config: winkernel.networkName has no effect: it is for Windows only',
  },
  {
    name: 'a server beside manifests',
    input: { ...of('mode: ipvs'), flags: { manifests: '/m', master: 'https://a' } },
    message: '--manifests=/m: cannot be combined with --master: both name a source of objects; give one of them',
  },
];
