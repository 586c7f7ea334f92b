/**
 * Groups of changes for one transaction: all changes of a Service, and of all Services that change the same frontend, so that no packet
 * meets a half-written state. The changed rules of existing chains are among them: elements may lead there already. Pure.
 */

import type { Family } from '../../../base/address.ts';
import type { Latin1Bytes, NftSet, ReadChain } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { SkippedStep, Step } from '../../reconcile/step.ts';
import type { Delta } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import type { NftChain, OwnedElement, TableLayout } from './layout.ts';
import { entryText } from './print.ts';

/** The change of one element. */
export interface ElementChange {
  readonly key: Latin1Bytes;
  readonly set: NftSet;
  readonly from: OwnedElement | undefined;
  readonly to: OwnedElement | undefined;
}

/** A chain that gets other rules. */
export interface ChainChange {
  readonly name: string;
  readonly from: ReadChain;
  readonly to: NftChain;
}

export interface ChangeGroups {
  /** In the order of writing. */
  readonly groups: readonly ChangeGroup[];
  /** Changes that are left out together with those of a Service that is set aside: both change the same frontend. */
  readonly waiting: readonly SkippedStep[];
}

export interface ChangeGroup {
  readonly steps: readonly Step[];
  readonly chains: readonly ChainChange[];
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
  readonly chains: Pick<Delta<string, NftChain, ReadChain>, 'update'>;
  readonly elements: PendingElements;
}

/** Limit of the shared elements of one group. They do not depend on each other. */
const MAX_SHARED = 1000;

export function changeGroups({ family, layout, chains, elements }: PendingGroups, setAside: SetAside): ChangeGroups {
  const first: ElementChange[] = [];
  const last: ElementChange[] = [];
  const own: ElementChange[] = [];
  for (const change of changesIn(elements)) {
    if (layout.afterFrontend.has(change.set)) own.push(change);
    else if (setAside.size > 0 && setAside.has(sharedKey(family, change))) continue;
    else (change.to !== undefined && layout.neededFirst.includes(change.set) ? first : last).push(change);
  }
  const rewritten = [...chains.update].map(([name, { from, to }]): ChainChange => ({ name, from, to }));
  const ofAll = rewritten.filter(({ to }) => to.owner === undefined);
  const ofOne = rewritten.filter(({ to }) => to.owner !== undefined);
  const { groups, waiting } = together({ family, layout }, { changes: own, chains: ofOne }, setAside);
  return {
    groups: [
      ...ofAll.map((chain) => ({ steps: [chainStep(family, chain)], chains: [chain], changes: [] })),
      ...shared(family, 'needed first', first),
      ...groups,
      ...shared(family, 'shared', last),
    ],
    waiting,
  };
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

function shared(family: Family, what: string, changes: readonly ElementChange[]): ChangeGroup[] {
  const groups: ChangeGroup[] = [];
  for (let i = 0; i < changes.length; i += MAX_SHARED) {
    const key = `${family} elements, ${what}${i === 0 ? '' : `, from the ${i + 1}th on`}`;
    groups.push(groupOf(family, { key, owner: undefined }, changes.slice(i, i + MAX_SHARED)));
  }
  return groups;
}

interface OwnChanges {
  readonly changes: readonly ElementChange[];
  readonly chains: readonly ChainChange[];
}

/** The changes of one group, and all Services that have a part in it. */
interface Joined {
  readonly changes: ElementChange[];
  readonly chains: ChainChange[];
  readonly owners: Set<string>;
}

/** The Services of a group that wait for one that is set aside. */
function waitingIn(family: Family, { owners }: Joined, setAside: SetAside): SkippedStep[] {
  const [blockedBy = ''] = owners.intersection(setAside);
  return [...owners.difference(setAside)].map((owner) => ({ key: ownKey(family, owner), family, owner, blockedBy }));
}

/** Groups by Service and by frontend: an element that was read has no owner, and another Service may take over a frontend. */
function together(of: TableOf, { changes, chains }: OwnChanges, setAside: SetAside): ChangeGroups {
  const { family } = of;
  const { ofElement, ofOwner } = namesOf(of, changes);
  const groups = new Map<string, Joined>();
  const groupNamed = (name: string) => {
    const known = groups.get(name);
    if (known !== undefined) return known;
    const group: Joined = { changes: [], chains: [], owners: new Set<string>() };
    groups.set(name, group);
    return group;
  };
  for (const change of changes) {
    const group = groupNamed(ofElement(change));
    group.changes.push(change);
    for (const owner of [change.to?.owner, change.from?.owner]) if (owner !== undefined) group.owners.add(owner);
  }
  for (const chain of chains) {
    const { owner = '' } = chain.to;
    const group = groupNamed(ofOwner(owner));
    group.chains.push(chain);
    group.owners.add(owner);
  }
  const isWritten = ({ owners }: Joined) => setAside.size === 0 || owners.isDisjointFrom(setAside);
  const all = [...groups.values()];
  return {
    waiting: all.filter((one) => !isWritten(one)).flatMap((one) => waitingIn(family, one, setAside)),
    groups: all.filter(isWritten).map(({ changes: ofGroup, chains: rewritten, owners: [owner] }) => {
      const [change] = ofGroup;
      const ofChains = rewritten.map((chain) => chainStep(family, chain));
      if (change === undefined) return { steps: ofChains, chains: rewritten, changes: [] };
      const key = owner === undefined ? sharedKey(family, change) : ownKey(family, owner);
      const { steps } = groupOf(family, { key, owner }, ofGroup);
      return { steps: [...ofChains, ...steps], chains: rewritten, changes: ofGroup };
    }),
  };
}

interface GroupNames {
  readonly ofElement: (change: ElementChange) => string;
  readonly ofOwner: (owner: ServiceKey) => string;
}

/** The names of the groups of changes. */
function namesOf(of: TableOf, changes: readonly ElementChange[]): GroupNames {
  // If all elements are new, no Service takes over a frontend.
  if (changes.every(({ from }) => from === undefined)) {
    return { ofElement: ({ to }) => to?.owner ?? '', ofOwner: (owner) => owner };
  }
  const unions = new Unions();
  for (const change of changes) {
    const owners = [change.to?.owner, change.from?.owner].filter((owner) => owner !== undefined);
    unions.join([...owners, frontendOf(of, change)]);
  }
  return { ofElement: (change) => unions.find(frontendOf(of, change)), ofOwner: (owner) => unions.find(owner) };
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
): ChangeGroup {
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
  return { steps: [step], chains: [], changes };
}

/** The step of a table, a set or a chain; `concerned` is the Service whose rules a chain gets. */
export function objectStep(
  family: Family,
  what: string,
  action: Step['action'],
  lines: Step['lines'],
  concerned?: ServiceKey,
): Step {
  return {
    ...{ key: `${family} ${what}`, family, kind: 'rules', action, owner: undefined, lines },
    phase: action === 'remove' ? 'remove sets, chains and addresses' : 'create addresses and sets',
    concerns: () => (concerned === undefined ? [] : [concerned]),
  };
}

function chainStep(family: Family, { name, from, to }: ChainChange): Step {
  const lines = () => [...rulesText('-', from), ...rulesText('+', to)];
  return objectStep(family, `chain ${name}`, 'update', lines, to.owner);
}

/** The rules of a chain as lines with a sign. */
export function rulesText(sign: '+' | '-', { rules }: ReadChain): string[] {
  return rules.map(({ text }) => `${sign} ${text}`);
}
