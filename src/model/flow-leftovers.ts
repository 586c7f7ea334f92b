/**
 * What changes of Services leave in the kernel's table of connections, and when it may be swept: frontends that are no more, and
 * Services whose change is to be written first. Pure: it holds state, and does no I/O.
 */
import { type Address, type Family, portBytes, socketBytes } from './address.ts';
import type { Protocol, ServiceKey } from './objects.ts';
import type { ServicePortKey } from './service-port.ts';

/** A flow as bytes: where its first packet was sent, and who answers it (`socketBytes`). */
export interface FlowEnds {
  readonly protocol: Protocol;
  readonly destination: string;
  readonly replySource: string;
}

/** What became of a flow, and of which ServicePort it is. */
export type Verdict =
  | { readonly kind: 'live' | 'foreign' }
  | { readonly kind: 'stale'; readonly owner: ServicePortKey | undefined };

export const LIVE: Verdict = { kind: 'live' };
export const FOREIGN: Verdict = { kind: 'foreign' };
export const FORMER: Verdict = { kind: 'stale', owner: undefined };

/** Whether an address, as bytes, takes node ports. */
export type IsNodeAddress = (address: string) => boolean;

/** Which addresses take node ports now, and which did when all flows were seen the last time. */
export interface NodeAddresses {
  readonly now: IsNodeAddress;
  readonly before: IsNodeAddress;
}

/** A frontend that is no more; flows to it may be left. */
interface Former {
  /** Whose it was; undefined: it was found in the rules of a former run, or handed over. */
  readonly service: ServiceKey | undefined;
  /** The rules are written without it: no new flow to it is translated. */
  isWritten: boolean;
}

/** Services that the kernel refused, among other keys. */
export type Refusals = { has(key: string): boolean };

/** What a sweep was to see the last of. */
export type SweepMark = readonly (readonly [at: string, former: Former])[];

export class Leftovers {
  /** By `frontendKey`. */
  readonly #former = new Map<string, Former>();
  /** Services whose change leaves stale flows once it is written; before, the old rules would make them anew. */
  readonly #pending = new Set<ServiceKey>();
  /** So does the next write, whatever it is of. */
  #isAllPending = true;
  #isDirty = false;

  /** Rules were written that left stale flows, and no sweep began since. */
  get isDirty(): boolean {
    return this.#isDirty;
  }

  /** Not all rules are known to be written. */
  get isAllPending(): boolean {
    return this.#isAllPending;
  }

  /** Whether the frontend is one that is no more. */
  has(at: string): boolean {
    return this.#former.has(at);
  }

  /** A frontend is no more. */
  went(at: string, service: ServiceKey): void {
    this.#former.set(at, { service, isWritten: false });
  }

  /** There is such a frontend. */
  stands(at: string): void {
    this.#former.delete(at);
  }

  /** A frontend that others left in the kernel. */
  found(at: string): void {
    if (this.#former.has(at)) return;
    this.#former.set(at, { service: undefined, isWritten: false });
    this.#isAllPending = true;
  }

  /** The change of a Service leaves stale flows. */
  pend(service: ServiceKey): void {
    this.#pending.add(service);
  }

  /** A sync wrote what changed so far, but for the Services that were refused: those are still to come. */
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

  /** A sync wrote something, and what is not known: sweep, and again after the next. */
  writtenInPart(): void {
    if (this.#isAllPending || this.#pending.size > 0) this.#isDirty = true;
  }

  /** The rules were not ours for a while: after the next write every flow is to be looked at. */
  distrust(): void {
    this.#isAllPending = true;
  }

  /** A sweep begins: what is written from now on needs another. */
  begin(): SweepMark {
    this.#isDirty = false;
    return [...this.#former].filter(([, former]) => former.isWritten);
  }

  /** The sweep has seen every flow. A frontend that went again meanwhile is another one. */
  swept(mark: SweepMark): void {
    for (const [at, former] of mark) if (this.#former.get(at) === former) this.#former.delete(at);
  }

  /** The sweep did not see every flow. */
  notSwept(): void {
    this.#isDirty = true;
  }

  /** Frontends that are no more, for who goes on instead of this. */
  handOver(): readonly string[] {
    return [...this.#former.keys()];
  }
}

/** `socketBytes`, or `nodePortKey` where there is no address. */
export function frontendKey(family: Family, address: Address | undefined, port: number): string {
  return address === undefined ? nodePortKey(family, portBytes(port)) : socketBytes(address, port);
}

/** `port`: as bytes. */
export function nodePortKey(family: Family, port: string): string {
  return `node-port ${family} ${port}`;
}
