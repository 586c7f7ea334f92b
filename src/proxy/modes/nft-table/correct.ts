/** Corrects what is believed of a table by a reading of some of its objects. */
import type { NftPart } from '../../../kernel/nftables-kernel.ts';
import type { Drift } from '../../model/drift.ts';
import { chainDrift, elementDrift, type TableState } from './state.ts';

/** Believe what was read. Returns the changes of other programs. The state must be known. */
export function correctTable(state: TableState, { chains, elements }: NftPart): readonly Drift[] {
  const { family } = state;
  const drift = [...state.chains.correct(chains).keys()].map((name) => chainDrift(family, name));
  for (const [set, table] of state.elements) {
    const found = elements.get(set.name);
    if (found === undefined) continue;
    for (const [key, former] of table.correct(found)) {
      const entry = found.get(key) ?? former;
      drift.push(elementDrift(family, set, entry));
    }
  }
  return drift;
}
