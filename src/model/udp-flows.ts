/**
 * Which UDP flows of the kernel's connection table may go on.
 *
 * A flow that is in the table is not looked at by rules any more: without a connection that ends, it goes to its old
 * endpoint, or nowhere, for as long as its client sends (reference 8.2, k8s#139628). So flows are judged by what they were
 * sent to and who answers them:
 *
 * - to a frontend that exists: live when an endpoint answers that is ready or serves (under internal policy Local: one on
 *   this node, k8s#126934); otherwise stale. So is a flow from before the rules, which nobody translated (a black hole);
 * - to a frontend that existed: stale when it was translated;
 * - all others are foreign, and stay. A node port is a frontend only on the addresses that take node ports.
 *
 * Pure: it holds state, and does no I/O.
 */
import { type Address, type Family, portBytes, socketBytes } from './address.ts';
import type { ServiceKey } from './objects.ts';
import type { ServicePort, ServicePortKey } from './service-port.ts';

/** A flow as bytes: where its first packet was sent, and who answers it (`socketBytes`). */
export interface FlowEnds {
  readonly destination: string;
  readonly replySource: string;
}

/** A frontend that was found in the kernel's rules; no address: a node port. */
export interface UdpFrontend {
  readonly family: Family;
  readonly address: Address | undefined;
  readonly port: number;
}

/** What became of a flow, and of which ServicePort it is. */
export type Verdict =
  | { readonly kind: 'live' | 'foreign' }
  | { readonly kind: 'stale'; readonly owner: ServicePortKey | undefined };

/** Whether an address, as bytes, takes node ports. */
export type IsNodeAddress = (address: string) => boolean;

interface Frontend {
  readonly owner: ServicePortKey;
  readonly service: ServiceKey;
  /** Who may answer, as `socketBytes`. */
  readonly targets: ReadonlySet<string>;
}

const LIVE: Verdict = { kind: 'live' };
const FOREIGN: Verdict = { kind: 'foreign' };
const FORMER: Verdict = { kind: 'stale', owner: undefined };

/** A frontend that is no more; flows to it may be left. */
interface Former {
  /** Whose it was; undefined: it was found in the rules of a former run. */
  readonly service: ServiceKey | undefined;
  /** The rules are written without it: no new flow to it is translated. */
  isWritten: boolean;
}

/** Services that the kernel refused, among other keys. */
export type Refusals = { has(key: string): boolean };

/** What a sweep was to see the last of. */
export type SweepMark = readonly (readonly [at: string, former: Former])[];

export class UdpFlows {
  /** Frontends by `frontendKey`; and those of each ServicePort. */
  readonly #frontends = new Map<string, Frontend>();
  readonly #keys = new Map<ServicePortKey, readonly string[]>();
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

  /** Take in ServicePorts that changed. The cost follows their number. */
  update(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    const before = new Map<string, Frontend>();
    for (const key of changes.keys()) {
      for (const at of this.#keys.get(key) ?? []) {
        const frontend = this.#frontends.get(at);
        if (frontend?.owner !== key) continue;
        before.set(at, frontend);
        this.#frontends.delete(at);
        this.#former.set(at, { service: frontend.service, isWritten: false });
      }
      this.#keys.delete(key);
    }
    const added = new Set<string>();
    for (const port of changes.values()) if (port !== undefined) for (const at of this.#add(port)) added.add(at);
    for (const at of new Set([...before.keys(), ...added])) {
      const [was, is] = [before.get(at), this.#frontends.get(at)];
      if (!mayLeaveStale(was, is)) continue;
      for (const frontend of [was, is]) if (frontend !== undefined) this.#pending.add(frontend.service);
    }
  }

  /** Frontends that a former run, or another service proxy, left in the kernel's rules. */
  found(frontends: readonly UdpFrontend[]): void {
    for (const { family, address, port } of frontends) {
      const at = frontendKey(family, address, port);
      if (this.#frontends.has(at) || this.#former.has(at)) continue;
      this.#former.set(at, { service: undefined, isWritten: false });
      this.#isAllPending = true;
    }
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

  judge(family: Family, { destination, replySource }: FlowEnds, isNodeAddress: IsNodeAddress): Verdict {
    const addressLength = family === 'IPv4' ? 4 : 16;
    const nodePort = nodePortKey(family, destination.slice(addressLength));
    const isNodePort = () => isNodeAddress(destination.slice(0, addressLength));
    const frontend =
      this.#frontends.get(destination) ??
      (this.#frontends.has(nodePort) && isNodePort() ? this.#frontends.get(nodePort) : undefined);
    if (frontend !== undefined) {
      return frontend.targets.has(replySource) ? LIVE : { kind: 'stale', owner: frontend.owner };
    }
    const wasTranslated = replySource !== destination;
    const isFormer = this.#former.has(destination) || (this.#former.has(nodePort) && isNodePort());
    return wasTranslated && isFormer ? FORMER : FOREIGN;
  }

  #add(port: ServicePort): readonly string[] {
    if (port.flowTargets === undefined) return [];
    const all = new Set(port.flowTargets.all);
    const here = port.internalPolicy === 'Local' ? new Set(port.flowTargets.here) : all;
    const keys: string[] = [];
    for (const { role, address, port: number } of port.frontends) {
      const at = frontendKey(port.family, address, number);
      this.#frontends.set(at, { owner: port.key, service: port.service, targets: role === 'cluster-ip' ? here : all });
      this.#former.delete(at);
      keys.push(at);
    }
    if (keys.length > 0) this.#keys.set(port.key, keys);
    return keys;
  }
}

/** A flow that was right before may be stale now: a target left, or there was no frontend or no target to translate to. */
function mayLeaveStale(before: Frontend | undefined, now: Frontend | undefined): boolean {
  if (before === undefined || now === undefined || before.targets.size === 0) return true;
  for (const target of before.targets) if (!now.targets.has(target)) return true;
  return false;
}

/** `socketBytes`, or `nodePortKey` where there is no address. */
function frontendKey(family: Family, address: Address | undefined, port: number): string {
  return address === undefined ? nodePortKey(family, portBytes(port)) : socketBytes(address, port);
}

function nodePortKey(family: Family, port: string): string {
  return `node-port ${family} ${port}`;
}
