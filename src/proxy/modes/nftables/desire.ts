/**
 * The desired table of one family, kept up to date by changes. Pure: it holds state, and does no I/O.
 *
 * Only changed ServicePorts are rendered. A chain exists as long as an element leads to it, and all Services with the same
 * number of endpoints share it. The result does not depend on the history (invariant 12).
 */

import { addressBytes } from '../../../base/address.ts';
import type { NftElement } from '../../../kernel/nftables-kernel.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import { countHolder } from '../../reconcile/shared.ts';
import { numberWord, rangeOf, widest } from '../nft-table/element-bytes.ts';
import type { DesiredSink, NftChain } from '../nft-table/layout.ts';
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
    const rendered = Array.from(ports, ([key, port]) => {
      const former = before.get(key);
      return {
        former: former === undefined ? NOTHING : renderPort(former, this.#settings),
        now: port === undefined ? NOTHING : renderPort(port, this.#settings),
      };
    });
    // Removals first: an element that moves from one ServicePort to another must not be deleted after it was added.
    for (const { former, now } of rendered) this.#removeOld(former.elements, now.elements);
    let count = 0;
    for (const { now } of rendered) {
      for (const [set, entries] of now.elements) {
        count += entries.length;
        for (const entry of entries) this.#sink.element(SETS[set], entry.key, entry);
      }
    }
    // The new versions hold their objects first, so that an object of both versions is never removed.
    for (const { now } of rendered) this.#hold(now, 1);
    for (const { former } of rendered) this.#hold(former, -1);
    return count;
  }

  /** Removes the elements that a ServicePort has no more. Those whose keys stay are put again. */
  #removeOld(before: RenderedElements['elements'], after: RenderedElements['elements']): void {
    for (const [set, entries] of before) {
      const stay = new Set(after.get(set)?.map(({ key }) => key));
      for (const { key } of entries) if (!stay.has(key)) this.#sink.element(SETS[set], key, undefined);
    }
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

const NOTHING: RenderedElements = {
  elements: new Map(),
  ...{ balancers: [], localPolicies: [], chains: new Map(), memories: [], shared: [] },
};

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
