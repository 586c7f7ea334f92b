/**
 * The desired table of one family, kept up to date by changes. Pure: it holds state, and does no I/O.
 *
 * Only changed ServicePorts are rendered. A chain exists as long as an element leads to it, and all Services with the same
 * number of endpoints share it. The result does not depend on the history (invariant 12).
 */

import { addressBytes } from '../../../base/address.ts';
import type { Latin1Bytes, NftElement } from '../../../kernel/nftables-kernel.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import { countHolder } from '../../reconcile/shared.ts';
import { numberWord, rangeOf, widest } from '../nft-table/element-bytes.ts';
import { sameEntry } from '../nft-table/element-table.ts';
import type { DesiredSink, NftChain, OwnedElement } from '../nft-table/layout.ts';
import { balancerChain, localPolicyChain, localPolicyTargets } from './balancers.ts';
import { type NftablesSettings, skeleton } from './chains.ts';
import { type RenderedElements, renderPort } from './render.ts';
import {
  type BalancerSpec,
  balancerName,
  localPolicyName,
  permanentSets,
  SETS,
  type SetName,
  setNamed,
} from './table-layout.ts';

export class NftablesDesired {
  readonly #settings: NftablesSettings;
  readonly #sink: DesiredSink;
  /** Number of holders of each element that several ServicePorts share. Nearly all have one holder and are not listed. */
  readonly #shared = new Map<string, number>();
  /** Number of holders of each chain and memory. */
  readonly #chains = new Map<string, number>();
  readonly #memories = new Map<string, number>();

  constructor(settings: NftablesSettings, sink: DesiredSink) {
    this.#settings = settings;
    this.#sink = sink;
    for (const set of permanentSets(settings.countsConnections)) sink.set(set.name, set);
    for (const [name, chain] of skeleton(settings)) sink.chain(name, chain);
    for (const [set, element] of elementsOfNode(settings)) this.#putShared(set, element, element.key);
  }

  /**
   * Accept changed ServicePorts of this family, with their values before; a deleted one is undefined. The values before are rendered once
   * more, because keeping the rendered elements of each would take more memory than all else. Returns the number of rendered elements.
   */
  update(
    ports: Iterable<readonly [ServicePortKey, ServicePort | undefined]>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): number {
    const after: RenderedElements[] = [];
    const former: RenderedElements[] = [];
    const changes: ElementChanges[] = [];
    let count = 0;
    for (const [key, port] of ports) {
      const [was, is] = [before.get(key), port].map((one) => one && renderPort(one, this.#settings));
      if (was !== undefined) former.push(was);
      if (is !== undefined) after.push(is);
      for (const entries of is?.elements.values() ?? []) count += entries.length;
      changes.push(...changesBetween(was?.elements ?? NO_ELEMENTS, is?.elements ?? NO_ELEMENTS));
    }
    // Removals first: an element that moves from one ServicePort to another must not be deleted after it was added.
    for (const { set, removed } of changes) for (const key of removed) this.#sink.element(SETS[set], key, undefined);
    for (const { set, put } of changes) for (const entry of put) this.#sink.element(SETS[set], entry.key, entry);
    // The new versions hold their objects first, so that an object of both versions is never removed.
    for (const rendered of after) this.#hold(rendered, 1);
    for (const rendered of former) this.#hold(rendered, -1);
    return count;
  }

  #hold({ balancers, localPolicies, chains, memories, shared }: RenderedElements, by: 1 | -1): void {
    for (const spec of balancers) this.#holdBalancer(spec, by);
    for (const spec of localPolicies) {
      this.#holdChain(localPolicyName(spec), () => localPolicyChain(spec, this.#settings), by);
      for (const target of localPolicyTargets(spec)) if (target !== undefined) this.#holdBalancer(target, by);
    }
    for (const name of memories) {
      const held = countHolder(this.#memories, name, by);
      if (held !== undefined) this.#sink.set(name, held ? setNamed(name) : undefined);
    }
    for (const [name, chain] of chains) {
      // A chain of the same name may have other rules now.
      if (by === 1) this.#sink.chain(name, chain);
      this.#holdChain(name, () => chain, by);
    }
    for (const [set, element] of shared) {
      const [name, isHeld] = [`${set} ${element.key}`, this.#sink.isDesired(SETS[set], element.key)];
      const holders = (this.#shared.get(name) ?? (isHeld ? 1 : 0)) + by;
      if (holders > 1) this.#shared.set(name, holders);
      else this.#shared.delete(name);
      if (isHeld !== holders > 0) this.#putShared(set, holders > 0 ? element : undefined, element.key);
    }
  }

  #putShared(set: SetName, element: NftElement | undefined, key: string): void {
    this.#sink.element(SETS[set], key, element && { ...element, owner: undefined });
  }

  #holdBalancer(spec: BalancerSpec, by: 1 | -1): void {
    this.#holdChain(balancerName(spec), () => balancerChain(spec, this.#settings), by);
  }

  #holdChain(name: string, make: () => NftChain, by: 1 | -1): void {
    const held = countHolder(this.#chains, name, by);
    if (held !== undefined) this.#sink.chain(name, held ? make() : undefined);
  }
}

const NO_ELEMENTS: RenderedElements['elements'] = new Map();

/** The changes of one set by one ServicePort. An element with another value is put, and not removed before. */
interface ElementChanges {
  readonly set: SetName;
  readonly removed: Iterable<Latin1Bytes>;
  readonly put: readonly OwnedElement[];
}

/** The differences alone: most elements of a changed ServicePort stay as they are. */
function* changesBetween(
  before: RenderedElements['elements'],
  after: RenderedElements['elements'],
): Generator<ElementChanges> {
  for (const [set, entries] of before) {
    if (!after.has(set)) yield { set, removed: entries.map(({ key }) => key), put: [] };
  }
  for (const [set, entries] of after) {
    const left = new Map(before.get(set)?.map((entry) => [entry.key, entry]));
    const put = entries.filter((entry) => {
      const former = left.get(entry.key);
      left.delete(entry.key);
      return former === undefined || !sameEntry(former, entry);
    });
    yield { set, removed: left.keys(), put };
  }
}

/** The elements that do not depend on Services. */
function elementsOfNode({ nodePortAddresses, serviceCidrs }: NftablesSettings): [SetName, NftElement][] {
  const addresses = nodePortAddresses === 'all' ? [] : nodePortAddresses.map(addressBytes);
  const [none, all] = [numberWord(0), numberWord(255)];
  return [
    ...addresses.map((key): [SetName, NftElement] => ['nodePortAddresses', { key, end: '', data: '' }]),
    ...widest(serviceCidrs ?? [])
      .map(rangeOf)
      .map(({ first, last }): [SetName, NftElement] => [
        'serviceCidrs',
        { key: none + first, end: all + last, data: '' },
      ]),
  ];
}
