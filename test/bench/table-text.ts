/** slicewire's nftables table as text, for `nft -f`. */
import type { Trial } from './trial.ts';

/** The table of IPv4 as the node's kernel has it. */
export async function tableText({ lab }: Trial): Promise<string> {
  return loadable(await lab.exec('node', 'nft', 'list', 'table', 'ip', 'slicewire'));
}

/** The types of keys as `nft` reads them: it does not take back what it prints of a number within a key. */
function loadable(listed: string): string {
  const data = 'numgen random mod 65536 : ip daddr . th dport';
  return listed
    .replace(
      'type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service',
      `typeof ip daddr . meta l4proto . th dport . ${data}`,
    )
    .replace(
      'type inet_proto . inet_service . mark : ipv4_addr . inet_service',
      `typeof meta l4proto . th dport . ${data}`,
    );
}
