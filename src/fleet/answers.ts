/** What the fleet answers to `/programmed` and `/live`. Pure. */
import type { FleetLive, FleetProgrammed } from '../answers/fleet.ts';
import { API_VERSION } from '../answers/head.ts';
import type { Clock } from '../host/clock.ts';
import type { Drains } from './drains.ts';
import type { NodeState } from './node.ts';
import type { FleetNodes } from './nodes.ts';
import type { FleetObjects } from './objects.ts';
import type { Programming } from './programming.ts';

export interface FleetAnswersOptions {
  readonly clock: Clock;
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
  readonly drains: Drains;
  readonly programming: Programming;
  /** Name of this replica, the version of the program, and the API server. */
  readonly replica: string;
  readonly version: string;
  readonly source: string;
}

export class FleetAnswers {
  constructor(_options: FleetAnswersOptions) {}

  /**
   * How far the nodes are with one Service (`NS/NAME`), or with all; undefined: of the whole cluster. Throws WrongQuestion where there is
   * no such Service, NoAnswer before the lists are complete.
   */
  programmed(_service: string | undefined): FleetProgrammed {
    throw new Error(API_VERSION);
  }

  /** All that the page shows. */
  live(): FleetLive {
    throw new Error(API_VERSION);
  }

  /** Nodes by state. */
  states(): Readonly<Record<NodeState, number>> {
    throw new Error(API_VERSION);
  }
}

/** What changed from one message of `/live` to the next; each field that it has replaces the one before, but for nodes and minutes. */
export function fleetDelta(_before: FleetLive, _now: FleetLive): Partial<FleetLive> {
  return {};
}
