/**
 * Node ports on 127.0.0.1 need the setting route_localnet. It lets neighbours on the network reach programs that listen on
 * 127.0.0.1 (CVE-2020-8558). The guard against that is exactly the kubelet's rule, in a chain shared with the kubelet.
 */
import { type Jump, jumpRule } from './jumps.ts';
import { FIREWALL } from './names.ts';
import { comment, jump, type Rule, rule } from './rules.ts';

/** Allows routing of packets with a loopback address. */
export const ROUTE_LOCALNET = 'net/ipv4/conf/all/route_localnet';

/** Into the chain shared with the kubelet; kept at cleanup. */
export const FIREWALL_JUMPS: readonly Jump[] = ['INPUT', 'OUTPUT'].map((chain) =>
  jumpRule({ table: 'filter', chain, target: FIREWALL }),
);

export function localnetGuard(): Rule {
  const match = '! -s 127.0.0.0/8 -d 127.0.0.0/8';
  const state = '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT';
  return rule([match, comment('block incoming localnet connections'), state, jump('DROP')]);
}
