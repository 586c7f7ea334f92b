/** What other programs do to the kernel of a simulated node. */
import { FAMILIES } from '../../../src/model/address.ts';
import type { Table } from '../../../src/modes/netfilter/rules.ts';
import type { ForeignWrite } from '../history/actions.ts';
import { addForeignChain, deleteRule, editAs, flushChain, flushTable, ourChains } from '../kernel/iptables/others.ts';
import type { SimKernel } from '../kernel/kernel.ts';

const TABLES: readonly Table[] = ['nat', 'filter', 'mangle'];
/** Milliseconds that another program holds the xtables lock. */
const LOCK = 7000;

/** `variant` chooses the object. Nothing happens where there is no such object. */
export function writeAsOther(kernel: SimKernel, what: ForeignWrite, variant: number): void {
  const family = FAMILIES[variant % 2] ?? 'IPv4';
  const { iptables, ipvs } = kernel;
  const writer = { pid: 4711, name: 'iptables' };
  const chains = TABLES.flatMap((table) => ourChains(iptables, family, table).map((chain) => ({ table, chain })));
  const chosen = chains[variant % Math.max(1, chains.length)];
  switch (what) {
    case 'flush-chain':
      if (chosen !== undefined) flushChain(iptables, chosen.chain, { family, table: chosen.table, writer });
      break;
    case 'delete-rule':
      if (chosen !== undefined)
        deleteRule(iptables, { chain: chosen.chain, number: 1 }, { family, table: chosen.table, writer });
      break;
    case 'flush-nat':
    case 'delete-table':
      flushTable(iptables, { family, table: 'nat', writer });
      break;
    case 'delete-chain':
      if (chosen !== undefined) deleteChain(kernel, { family, ...chosen });
      break;
    case 'own-rule':
      addForeignChain(
        iptables,
        {
          name: `OTHER-${variant % 3}`,
          rules: [`-s 203.0.113.${variant % 250} -j RETURN`],
          from: 'PREROUTING',
          isFirst: variant % 2 === 0,
        },
        { family, table: 'nat', writer },
      );
      break;
    case 'hold-lock':
      iptables.lock.holdFor(LOCK);
      break;
    case 'remove-address':
      removeAddress(kernel, variant);
      break;
    case 'remove-server': {
      const servers = [...ipvs.state.servers.values()];
      const server = servers[variant % Math.max(1, servers.length)]?.server;
      if (server !== undefined) ipvs.write({ kind: 'remove-server', server });
      break;
    }
    case 'delete-element':
      break;
  }
}

/** With the jumps to it, as `iptables -D` and `-X`. */
function deleteChain(
  { iptables }: SimKernel,
  { family, table, chain }: { readonly family: 'IPv4' | 'IPv6'; readonly table: Table; readonly chain: string },
): void {
  editAs(iptables, {
    ...{ family, table, writer: { pid: 4711, name: 'iptables' } },
    edit: (chains) => {
      chains.delete(chain);
      for (const [name, rules] of chains) {
        chains.set(
          name,
          rules.filter((rule) => !rule.split(' ').includes(chain)),
        );
      }
    },
  });
}

function removeAddress({ ipvs }: SimKernel, variant: number): void {
  const addresses = [...ipvs.state.addresses];
  const address = addresses[variant % Math.max(1, addresses.length)];
  if (address !== undefined) ipvs.write({ kind: 'remove-address', address });
}
