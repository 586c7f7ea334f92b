/** The loopback addresses at which the relay of nftables and IPVS mode serves node ports (docs/semantics.md 6.17); agent/relay/node-ports.ts has the protocols. Pure. */

import { type Address, type Cidr, cidrContains, isLoopback } from '../base/address.ts';
import { MODES } from '../proxy/model/modes.ts';
import type { Config } from './config.ts';
import { LOCALHOST_GATE } from './feature-gates.ts';

/** kube-proxy's addresses (KEP-6032). */
const ADDRESSES = ['127.0.0.1', '::1'] as Address[];

/**
 * The addresses that a loopback range in --nodeport-addresses contains. A range that is larger than loopback, such as that of `all`, adds
 * none. There are none in iptables mode, where the kernel serves 127.0.0.0/8, and none where the feature gate is false.
 */
export function relayAddresses({
  mode,
  nodePortAddresses,
  featureGates,
}: Pick<Config, 'mode' | 'featureGates'> & { readonly nodePortAddresses: Pick<Config['nodePortAddresses'], 'cidrs'> }) {
  if (MODES[mode].loopbackBy === 'rules' || featureGates[LOCALHOST_GATE] === false) return [];
  const named = nodePortAddresses.cidrs.filter(isOfLoopback);
  return ADDRESSES.filter((address) => named.some((cidr) => cidrContains(cidr, address)));
}

/** For each loopback range without effect the reason, as the rest of a sentence about --nodeport-addresses. */
export function relayProblems({ mode, nodePortAddresses, featureGates }: Config): string[] {
  const named = nodePortAddresses.cidrs.filter(isOfLoopback);
  if (MODES[mode].loopbackBy === 'rules' || named.length === 0) return [];
  if (featureGates[LOCALHOST_GATE] === false) {
    return [
      `${named.join(', ')}: node ports are not served on loopback, because the feature gate ${LOCALHOST_GATE} is false`,
    ];
  }
  const idle = named.filter((cidr) => !ADDRESSES.some((address) => cidrContains(cidr, address)));
  const only = `in ${mode} mode node ports on loopback are served at ${ADDRESSES.join(' and ')} alone; write localhost for both`;
  return idle.map((cidr) => `${cidr} has no effect: ${only}`);
}

/** A range inside 127.0.0.0/8 or ::1/128. */
function isOfLoopback(cidr: Cidr): boolean {
  const [base = '', length = ''] = cidr.split('/');
  return isLoopback(base as Address) && Number(length) >= (base.includes(':') ? 128 : 8);
}
