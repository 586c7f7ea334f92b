/**
 * Groups of element changes for one transaction: all changes of a Service, and of all Services that change the same frontend,
 * so that no packet meets a half-written state. Pure.
 */

import type { Family } from '../../../base/address.ts';
import type { Latin1Bytes, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { Step } from '../../reconcile/step.ts';
import type { Delta } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import type { OwnedElement, TableLayout } from './layout.ts';
import { entryText } from './print.ts';

/** The change of one element. */
export interface ElementChange {
  readonly key: Latin1Bytes;
  readonly set: NftSet;
  readonly from: OwnedElement | undefined;
  readonly to: OwnedElement | undefined;
}

export interface ElementGroup {
  readonly step: Step;
  readonly changes: readonly ElementChange[];
}

/** The differences of the elements of each set, by key. */
export type PendingElements = readonly (readonly [NftSet, Delta<Latin1Bytes, OwnedElement>])[];

/** The table of the elements. */
interface TableOf {
  readonly family: Family;
  readonly layout: TableLayout;
}

export interface PendingGroups extends TableOf {
  readonly elements: PendingElements;
}

/** Limit of the shared elements of one group. They do not depend on each other. */
const MAX_SHARED = 1000;

/** The groups in the order of writing. */
export function elementGroups({ family, layout, elements }: PendingGroups, setAside: SetAside): ElementGroup[] {
  const first: ElementChange[] = [];
  const last: ElementChange[] = [];
  const own: ElementChange[] = [];
  for (const change of changesIn(elements)) {
    if (layout.afterFrontend.has(change.set)) own.push(change);
    else if (setAside.size > 0 && setAside.has(sharedKey(family, change))) continue;
    else (change.to !== undefined && layout.neededFirst.includes(change.set) ? first : last).push(change);
  }
  return [
    ...shared(family, 'needed first', first),
    ...together({ family, layout }, own, setAside),
    ...shared(family, 'shared', last),
  ];
}

function* changesIn(elements: PendingElements): Generator<ElementChange> {
  for (const [set, { create, update, remove }] of elements) {
    for (const [key, to] of create) yield { key, set, from: undefined, to };
    for (const [key, { from, to }] of update) yield { key, set, from, to };
    for (const [key, from] of remove) yield { key, set, from, to: undefined };
  }
}

/** The key of a shared element in reports and among the refused keys. */
export function sharedKey(family: Family, { set, from, to }: Omit<ElementChange, 'key'>): string {
  const entry = to ?? from;
  return `${family} ${set.name} ${entry === undefined ? '' : entryText(set, entry, family)}`;
}

/** The key of a Service's elements in reports. */
export function ownKey(family: Family, owner: string): string {
  return `${family} elements of ${owner}`;
}

function shared(family: Family, what: string, changes: readonly ElementChange[]): ElementGroup[] {
  const groups: ElementGroup[] = [];
  for (let i = 0; i < changes.length; i += MAX_SHARED) {
    const key = `${family} elements, ${what}${i === 0 ? '' : `, from the ${i + 1}th on`}`;
    groups.push(groupOf(family, { key, owner: undefined }, changes.slice(i, i + MAX_SHARED)));
  }
  return groups;
}

/** Groups by Service and by frontend: an element that was read has no owner, and another Service may take over a frontend. */
function together(of: TableOf, changes: readonly ElementChange[], setAside: SetAside): ElementGroup[] {
  const { family } = of;
  const nameOf = namesOf(of, changes);
  const groups = new Map<string, { changes: ElementChange[]; owners: Set<string> }>();
  for (const change of changes) {
    const name = nameOf(change);
    const group = groups.get(name) ?? { changes: [], owners: new Set<string>() };
    group.changes.push(change);
    for (const owner of [change.to?.owner, change.from?.owner]) if (owner !== undefined) group.owners.add(owner);
    groups.set(name, group);
  }
  return [...groups.values()]
    .filter(({ owners }) => setAside.size === 0 || owners.isDisjointFrom(setAside))
    .map(({ changes: all, owners: [owner] }) => {
      const [change] = all;
      const key = owner === undefined && change !== undefined ? sharedKey(family, change) : ownKey(family, owner ?? '');
      return groupOf(family, { key, owner }, all);
    });
}

/** The name of the group of each change. */
function namesOf(of: TableOf, changes: readonly ElementChange[]): (change: ElementChange) => string {
  // If all elements are new, no Service takes over a frontend.
  if (changes.every(({ from }) => from === undefined)) return ({ to }) => to?.owner ?? '';
  const unions = new Unions();
  for (const change of changes) {
    const owners = [change.to?.owner, change.from?.owner].filter((owner) => owner !== undefined);
    unions.join([...owners, frontendOf(of, change)]);
  }
  return (change) => unions.find(frontendOf(of, change));
}

/** A name for the frontend at the start of a key. No Service has such a name. */
function frontendOf({ family, layout }: TableOf, { set, key }: ElementChange): string {
  const after = layout.afterFrontend.get(set)?.(family) ?? 0;
  return `\0${after === 0 ? key : key.slice(0, -after)}`;
}

/** Joins names into groups (union-find). */
class Unions {
  readonly #parents = new Map<string, string>();

  find(name: string): string {
    let top = name;
    for (let parent = this.#parents.get(top); parent !== undefined; parent = this.#parents.get(top)) top = parent;
    if (top !== name) this.#parents.set(name, top);
    return top;
  }

  join([first, ...others]: readonly string[]): void {
    if (first === undefined) return;
    for (const other of others) {
      const [a, b] = [this.find(first), this.find(other)];
      if (a !== b) this.#parents.set(b, a);
    }
  }
}

function groupOf(
  family: Family,
  { key, owner }: Pick<Step, 'key' | 'owner'>,
  changes: readonly ElementChange[],
): ElementGroup {
  const isNew = changes.every(({ from }) => from === undefined);
  const isGone = changes.every(({ to }) => to === undefined);
  const step: Step = {
    key,
    family,
    kind: 'rules',
    action: isNew ? 'create' : isGone ? 'remove' : 'update',
    phase: isGone ? 'remove rules' : 'create servers, destinations, chains and rules',
    owner,
    concerns: () => new Set(changes.map(({ to }) => to?.owner).filter((one) => one !== undefined)),
    lines: () =>
      changes.flatMap(({ set, from, to }) => [
        ...(from ? [`- ${set.name} ${entryText(set, from, family)}`] : []),
        ...(to ? [`+ ${set.name} ${entryText(set, to, family)}`] : []),
      ]),
  };
  return { step, changes };
}
