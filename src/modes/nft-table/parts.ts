/**
 * A first part of very many new elements, to be planned and written before the others: a plan of all would need as much memory as the
 * table, and would hold the event loop for as long as it takes. Pure.
 */
import type { ServiceKey } from '../../model/objects.ts';
import type { SetAside } from '../mode.ts';
import type { TableLayout } from './layout.ts';
import type { TableState } from './state.ts';

/** Elements of one set that are planned at once: some 20 ms. */
const MOST = 2500;

/**
 * Services whose elements are a part; undefined: all is planned at once. Only where all that is pending is new and has an owner: then no
 * Service takes over a frontend of another one, and each can be written without the others.
 */
export function firstPart(
  { elements }: TableState,
  { afterFrontend }: TableLayout,
  setAside: SetAside,
): ReadonlySet<ServiceKey> | undefined {
  const owned = [...elements].filter(([set]) => afterFrontend.has(set)).map(([, { pending }]) => pending);
  const [largest] = owned.toSorted((a, b) => b.count - a.count);
  if (largest === undefined || largest.count <= MOST || !owned.every(({ isOnlyNew }) => isOnlyNew)) return undefined;
  const part = new Set<ServiceKey>();
  let chosen = 0;
  for (const owner of largest.owners) {
    if (owner === undefined) return undefined;
    if (chosen >= MOST) break;
    if (setAside.has(owner)) continue;
    part.add(owner);
    chosen += 1;
  }
  return part.size > 0 ? part : undefined;
}
