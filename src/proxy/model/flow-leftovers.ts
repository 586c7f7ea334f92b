/**
 * Changes of Services leave stale flows in conntrack. `Leftovers` has the removed frontends, and the Services whose change must be written
 * before a sweep. Pure: it holds state, and does no I/O.
 */

import { type Address, type Family, type Protocol, portBytes, socketBytes } from '../../base/address.ts';
import type { ServiceKey } from './objects.ts';
import type { ServicePort, ServicePortKey } from './service-port.ts';

/** A flow as bytes (`socketBytes`): the destination of its first packet, and the source of the answers. */
export interface FlowEnds {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly destination: string;
  readonly replySource: string;
}

/** Whether a flow may go on. A stale flow has the ServicePort that owns its frontend; undefined for a removed frontend. */
export type FlowJudgement =
  | { readonly kind: 'live' | 'foreign' }
  | { readonly kind: 'stale'; readonly owner: ServicePortKey | undefined };

export const LIVE: FlowJudgement = { kind: 'live' };
export const FOREIGN: FlowJudgement = { kind: 'foreign' };
export const FORMER: FlowJudgement = { kind: 'stale', owner: undefined };

/** Whether node ports are served on an address, given as bytes. */
export type IsNodeAddress = (address: string) => boolean;

/** The addresses with node ports now, and at the last complete sweep. */
export interface NodeAddresses {
  readonly now: IsNodeAddress;
  readonly before: IsNodeAddress;
}

/** A removed frontend; flows to it may remain. */
interface Former {
  /** Its Service; undefined when it comes from the rules of an earlier run, or from a predecessor. */
  readonly service: ServiceKey | undefined;
  /** The rules were written without it, so the kernel translates no new flow to it. */
  isWritten: boolean;
}

/** Keys that the kernel refused, Services among them. */
export type Refusals = { has(key: string): boolean };

/** The removed frontends at the start of a sweep. */
export type SweepMark = readonly (readonly [at: string, former: Former])[];

/** Removed frontends and pending changes of one kind of flows. */
export class Leftovers {
  /** By `frontendKey`. */
  readonly #former = new Map<string, Former>();
  /** Services whose change leaves stale flows. A sweep before the write is useless: the old rules would create the flows again. */
  readonly #pending = new Set<ServiceKey>();
  /** The next write leaves stale flows in any case. */
  #isAllPending: boolean;
  #isDirty = false;

  /** `isAllPending`: the first write leaves stale flows in any case, those from before it. */
  constructor(isAllPending = true) {
    this.#isAllPending = isAllPending;
  }

  /** A write left stale flows, and no sweep has begun since. */
  get isDirty(): boolean {
    return this.#isDirty;
  }

  /** Some rules may not be written yet. */
  get isAllPending(): boolean {
    return this.#isAllPending;
  }

  /** The number of removed frontends. */
  get count(): number {
    return this.#former.size;
  }

  /** Whether this is a removed frontend. */
  has(at: string): boolean {
    return this.#former.has(at);
  }

  /** A frontend was removed. */
  markRemoved(at: string, service: ServiceKey): void {
    this.#former.set(at, { service, isWritten: false });
  }

  /** The frontend exists. */
  markPresent(at: string): void {
    this.#former.delete(at);
  }

  /** A frontend in the kernel that an earlier run or a predecessor wrote. */
  markFound(at: string): void {
    if (this.#former.has(at)) return;
    this.#former.set(at, { service: undefined, isWritten: false });
    this.#isAllPending = true;
  }

  /** The change of a Service leaves stale flows. */
  markPending(service: ServiceKey): void {
    this.#pending.add(service);
  }

  /** A sync wrote all changes so far, except for the refused Services. */
  written(refused: Refusals): void {
    if (this.#isAllPending) this.#isDirty = true;
    this.#isAllPending = false;
    for (const service of this.#pending) {
      if (refused.has(service)) continue;
      this.#pending.delete(service);
      this.#isDirty = true;
    }
    for (const former of this.#former.values()) {
      if (former.service === undefined || !refused.has(former.service)) former.isWritten = true;
    }
  }

  /** A sync wrote an unknown part of the changes: sweep now, and again after the next write. */
  writtenInPart(): void {
    if (this.#isAllPending || this.#pending.size > 0) this.#isDirty = true;
  }

  /** Another program changed the rules for a while: after the next write a sweep must check every flow. */
  distrust(): void {
    this.#isAllPending = true;
  }

  /** A sweep begins. Later writes need another one. */
  begin(): SweepMark {
    this.#isDirty = false;
    return [...this.#former].filter(([, former]) => former.isWritten);
  }

  /** The sweep has checked every flow. A frontend that was removed again meanwhile stays. */
  swept(mark: SweepMark): void {
    for (const [at, former] of mark) if (this.#former.get(at) === former) this.#former.delete(at);
  }

  /** The sweep did not check every flow. */
  notSwept(): void {
    this.#isDirty = true;
  }

  /** No change is ever written, so that no flow is left over. */
  forget(): void {
    this.#former.clear();
    this.#pending.clear();
  }

  /** The removed frontends, for a successor. */
  handOver(): readonly string[] {
    return [...this.#former.keys()];
  }
}

/** `socketBytes`, or `nodePortKey` without an address. */
export function frontendKey(family: Family, address: Address | undefined, port: number): string {
  return address === undefined ? nodePortKey(family, portBytes(port)) : socketBytes(address, port);
}

/** The keys of a ServicePort's frontends, with its protocol. */
export function protocolKeysOf({
  protocol,
  family,
  frontends,
}: Pick<ServicePort, 'protocol' | 'family' | 'frontends'>): readonly string[] {
  return frontends.map(({ address, port }) => protocolKey(protocol, frontendKey(family, address, port)));
}

/** `key`: a `frontendKey`. */
export function protocolKey(protocol: Protocol, key: string): string {
  return `${protocol} ${key}`;
}

/** The key of a node port. `port` is two bytes. */
export function nodePortKey(family: Family, port: string): string {
  return `node-port ${family} ${port}`;
}
