/** Stale flows in conntrack, which rules no longer reach: the state that sync and sweep share, for all kinds of flows. Pure. */
import type { FlowEnds, FlowJudgement, Leftovers, NodeAddresses, Refusals, SweepMark } from './flow-leftovers.ts';
import type { GoneEndpoint } from './gone-endpoints.ts';
import { GoneFlows } from './gone-flows.ts';
import { type FrontendLookup, OpeningFlows } from './opening-flows.ts';
import type { ServicePort, ServicePortKey } from './service-port.ts';
import { UdpFlows, type UdpFrontend } from './udp-flows.ts';

/** UDP flows in any state, connections of other protocols without an answer, and connections of TCP to endpoints that are gone. */
export const FLOW_KINDS = ['udp', 'opening', 'gone'] as const;
export type FlowKind = (typeof FLOW_KINDS)[number];
/** Those that each write of rules may leave behind. */
export const USUAL_KINDS = ['udp', 'opening'] as const;

export type SweepMarks = ReadonlyMap<FlowKind, SweepMark>;

/** Removed frontends, or endpoints that are gone, whose flows may remain, by kind. */
export type FormerFrontends = Readonly<Record<FlowKind, readonly string[]>>;

/** The stale flows of all kinds. */
export class Flows {
  readonly #of: { readonly udp: UdpFlows; readonly opening: OpeningFlows; readonly gone: GoneFlows };

  /** `lookup` finds the current frontends. */
  constructor(lookup: FrontendLookup) {
    const opening = new OpeningFlows(lookup);
    this.#of = { udp: new UdpFlows(), opening, gone: new GoneFlows(opening) };
  }

  get isDirty(): boolean {
    return this.due.length > 0;
  }

  /** Kinds with stale flows since the last sweep began. */
  get due(): readonly FlowKind[] {
    return FLOW_KINDS.filter((kind) => this.#left(kind).isDirty);
  }

  /** Some rules may not be written yet. */
  get isAllPending(): boolean {
    return FLOW_KINDS.some((kind) => this.#left(kind).isAllPending);
  }

  /** Takes changed ServicePorts, with their earlier values. */
  update(
    changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): void {
    this.#of.udp.update(changes);
    this.#of.opening.update(changes, before);
  }

  /** Takes endpoints that are gone: connections to them end. */
  end(gone: readonly GoneEndpoint[]): void {
    this.#of.gone.add(gone);
  }

  /** UDP frontends that an earlier run, or another service proxy, left in the kernel's rules. */
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
    for (const kind of USUAL_KINDS) this.#left(kind).distrust();
  }

  /** A sweep of these kinds begins. */
  begin(kinds: readonly FlowKind[] = USUAL_KINDS): SweepMarks {
    return new Map(kinds.map((kind) => [kind, this.#left(kind).begin()]));
  }

  /** The sweep has checked every flow of these kinds. */
  swept(marks: SweepMarks): void {
    for (const [kind, mark] of marks) this.#left(kind).swept(mark);
  }

  /** The sweep did not check every flow. */
  notSwept(marks: SweepMarks): void {
    for (const kind of marks.keys()) this.#left(kind).notSwept();
  }

  /** Whether a flow may go on, by its protocol or as one of a kind. */
  judge(flow: FlowEnds, nodes: NodeAddresses, kind?: FlowKind): FlowJudgement {
    return this.#of[kind ?? (flow.protocol === 'UDP' ? 'udp' : 'opening')].judge(flow, nodes);
  }

  /** The removed frontends, for a successor. */
  handOver(): FormerFrontends {
    return {
      udp: this.#of.udp.left.handOver(),
      opening: this.#of.opening.left.handOver(),
      gone: this.#of.gone.left.handOver(),
    };
  }

  /** Takes a predecessor's removed frontends: flows to them are swept once the rules are written. */
  inherit({ udp, opening, gone }: FormerFrontends): void {
    this.#of.udp.inherit(udp);
    this.#of.opening.inherit(opening);
    this.#of.gone.inherit(gone);
  }

  /** `Leftovers.forget` */
  forget(): void {
    for (const kind of FLOW_KINDS) this.#left(kind).forget();
  }

  #left(kind: FlowKind): Leftovers {
    return this.#of[kind].left;
  }
}
