/**
 * The chains of a ServicePort with limits (docs/traffic.md). A connection beyond a limit is accepted as it is, without a translation, because
 * a chain of nat cannot refuse. The filter meets it then as one to a frontend without endpoints, and refuses it. Pure.
 */
import type { Expression, NftRule } from '../../../kernel/nftables-kernel.ts';
import type { Limit } from '../../model/limits.ts';
import type { NftChain } from '../nft-table/layout.ts';
import { goTo, isTranslated, jumpTo, load, marked, refusal } from './chains.ts';
import { limitChain, tallySet } from './table-layout.ts';

/** One rule for each limit. The kernel keeps a rule's count as long as the rule stays, whatever endpoints come and go. */
export function limitRules(id: string, limits: readonly Limit[]): NftChain {
  const leave: Expression[] = [{ do: 'count' }, { do: 'verdict', verdict: { kind: 'accept' } }];
  return {
    rules: marked(
      limits.map((limit) => ({ text: `over ${limit.name}`, expressions: [...beyond(id, limit), ...leave] })),
    ),
  };
}

function beyond(id: string, { name, most, burst }: Limit): Expression[] {
  switch (name) {
    case 'new-connections':
      return [{ do: 'over-rate', perSecond: most, burst }];
    case 'max-connections-per-client':
      return [
        load('source address', 0),
        { do: 'over-connections', most, per: { set: tallySet(id, most).name, key: 0 } },
      ];
    case 'max-connections':
      return [{ do: 'over-connections', most }];
  }
}

/**
 * The chain that refuses what is beyond a limit. It lets go what was translated: an endpoint may have the address and port of a frontend.
 * TCP gets a reset: the kernel sends "port unreachable" to one client once a second, and others would wait (icmp_ratelimit,
 * icmp_msgs_per_sec).
 */
export function overLimitRules(): NftChain {
  const translated: NftRule = {
    text: 'what was translated',
    expressions: [...isTranslated(), { do: 'verdict', verdict: { kind: 'return' } }],
  };
  return { rules: marked([translated, ...refusal(true)]) };
}

/** The chain that comes before one that many Services share. */
export function limitedEntry(id: string, chain: string): NftChain {
  return {
    rules: marked([
      { text: 'within the limits', expressions: [jumpTo(limitChain(id))] },
      { text: 'choose', expressions: [goTo(chain)] },
    ]),
  };
}
