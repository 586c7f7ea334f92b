/** The flows in the kernel's table of connections that rules do not reach any more: what sync and sweep tell each other of both kinds. Pure. */
import type { Family } from './address.ts';
import type { FlowEnds, Leftovers, NodeAddresses, Refusals, SweepMark, Verdict } from './flow-leftovers.ts';
import { type FrontendLookup, OpeningFlows } from './opening-flows.ts';
import type { ServicePort, ServicePortKey } from './service-port.ts';
import { UdpFlows, type UdpFrontend } from './udp-flows.ts';

/** UDP flows, whatever their state; and connections of other protocols that nobody answered. */
export const FLOW_KINDS = ['udp', 'opening'] as const;
export type FlowKind = (typeof FLOW_KINDS)[number];

export type SweepMarks = ReadonlyMap<FlowKind, SweepMark>;

/** Frontends that are no more and whose flows may be there still, by kind. */
export type FormerFrontends = Readonly<Record<FlowKind, readonly string[]>>;

export class Flows {
  readonly #of: { readonly udp: UdpFlows; readonly opening: OpeningFlows };

  /** `lookup`: the frontends that are there now. */
  constructor(lookup: FrontendLookup) {
    this.#of = { udp: new UdpFlows(), opening: new OpeningFlows(lookup) };
  }

  get isDirty(): boolean {
    return this.due.length > 0;
  }

  /** Kinds of which stale flows were left since the last sweep began. */
  get due(): readonly FlowKind[] {
    return FLOW_KINDS.filter((kind) => this.#left(kind).isDirty);
  }

  /** Not all rules are known to be written. */
  get isAllPending(): boolean {
    return FLOW_KINDS.some((kind) => this.#left(kind).isAllPending);
  }

  /** Take in ServicePorts that changed, with what they were before. */
  update(
    changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): void {
    this.#of.udp.update(changes);
    this.#of.opening.update(changes, before);
  }

  /** UDP frontends that a former run, or another service proxy, left in the kernel's rules. */
  found(frontends: readonly UdpFrontend[]): void {
    this.#of.udp.found(frontends);
  }

  written(refused: Refusals): void {
    for (const kind of FLOW_KINDS) this.#left(kind).written(refused);
  }

  writtenInPart(): void {
    for (const kind of FLOW_KINDS) this.#left(kind).writtenInPart();
  }

  distrust(): void {
    for (const kind of FLOW_KINDS) this.#left(kind).distrust();
  }

  /** A sweep of these begins. */
  begin(kinds: readonly FlowKind[] = FLOW_KINDS): SweepMarks {
    return new Map(kinds.map((kind) => [kind, this.#left(kind).begin()]));
  }

  /** It has seen every flow of theirs. */
  swept(marks: SweepMarks): void {
    for (const [kind, mark] of marks) this.#left(kind).swept(mark);
  }

  /** It has not. */
  notSwept(marks: SweepMarks): void {
    for (const kind of marks.keys()) this.#left(kind).notSwept();
  }

  judge(family: Family, flow: FlowEnds, nodes: NodeAddresses): Verdict {
    return (flow.protocol === 'UDP' ? this.#of.udp : this.#of.opening).judge(family, flow, nodes);
  }

  /** For who goes on instead of this, when other parts take over. */
  handOver(): FormerFrontends {
    return { udp: this.#of.udp.left.handOver(), opening: this.#of.opening.left.handOver() };
  }

  /** Flows to these are swept once the rules are written. */
  inherit({ udp, opening }: FormerFrontends): void {
    this.#of.udp.inherit(udp);
    this.#of.opening.inherit(opening);
  }

  #left(kind: FlowKind): Leftovers {
    return this.#of[kind].left;
  }
}
