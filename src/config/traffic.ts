/** Which traffic is meant: that of local pods, and that to node ports. */
import { familyOf } from '../base/address.ts';
import type { Config, DetectLocal, NodePortAddresses } from './config.ts';
import { type Reader, readCidrs } from './readers.ts';

export function readDetectLocal(read: Reader): DetectLocal {
  const mode = read.text('detect-local-mode') ?? 'ClusterCIDR';
  if (mode === 'NodeCIDR') return { kind: 'node-cidr' };
  if (mode === 'BridgeInterface' || mode === 'InterfaceNamePrefix') {
    const flag = mode === 'BridgeInterface' ? 'pod-bridge-interface' : 'pod-interface-name-prefix';
    const name = read.text(flag) ?? '';
    // The name goes into rules unchanged: it must be valid for the kernel (dev_valid_name), without iptables' wildcard.
    const isName = /^[A-Za-z0-9_.-]+$/.test(name) && name.length <= (mode === 'BridgeInterface' ? 15 : 14);
    const what =
      mode === 'BridgeInterface'
        ? 'must be the name of the pod bridge, at most 15 characters'
        : 'must be the prefix of pod interface names, at most 14 characters';
    if (!isName) read.fault(flag, `${what}, because ${read.name('detect-local-mode')} is ${mode}`);
    return { kind: 'interface', name: mode === 'BridgeInterface' ? name : `${name}+` };
  }
  if (mode !== 'ClusterCIDR') {
    read.fault('detect-local-mode', 'must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix');
  }
  const cidrs = readCidrs(read, 'cluster-cidr');
  const families = new Set(cidrs.map(familyOf));
  if (families.size < cidrs.length) read.fault('cluster-cidr', 'must be one CIDR, or one IPv4 CIDR and one IPv6 CIDR');
  return { kind: 'cluster-cidr', cidrs };
}

/** Keywords of kube-proxy 1.37; they mix with CIDRs. */
const KEYWORDS: ReadonlyMap<string, string> = new Map([
  ['localhost', '127.0.0.0/8,::1/128'],
  ['all', '0.0.0.0/0,::/0'],
]);

/** By default nftables mode serves node ports on the Node's first address only, as kube-proxy does in that mode. */
export function readNodePortAddresses(read: Reader, mode: Config['mode']): NodePortAddresses {
  if (mode === 'nftables' && !read.text('nodeport-addresses')) return { primary: 'known', cidrs: [] };
  const words = (read.text('nodeport-addresses') ?? '').split(',').map((word) => word.trim());
  const texts = words.filter((word) => word !== 'primary').map((word) => KEYWORDS.get(word) ?? word);
  const flag = 'nodeport-addresses';
  const reader: Reader = { ...read, text: () => texts.join(','), fault: (_, problem) => read.fault(flag, problem) };
  const what = 'primary, localhost, all or a CIDR such as 10.0.0.0/8';
  return { primary: words.includes('primary'), cidrs: readCidrs(reader, flag, what) };
}
