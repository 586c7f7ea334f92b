/** Puts the parts of the fleet that do no I/O together. Pure. */
import type { Clock } from '../base/clock.ts';
import { FleetAnswers } from './answers.ts';
import { Drains } from './drains.ts';
import { FleetNodes } from './fleet-nodes.ts';
import { FleetObjects } from './fleet-objects.ts';
import { ProgrammingLatency } from './programming-latency.ts';

export interface FleetCoreOptions {
  readonly clock: Clock;
  /** Milliseconds for which a Node may be not ready before questions stop waiting for it. */
  readonly leaveOutAfter: number;
  readonly replica: string;
  readonly version: string;
  readonly source: string;
}

export interface FleetCore {
  readonly objects: FleetObjects;
  readonly nodes: FleetNodes;
  readonly drains: Drains;
  readonly programming: ProgrammingLatency;
  readonly answers: FleetAnswers;
}

/** The caller feeds objects and nodes, and asks drains and answers. */
export function fleetCore({ clock, leaveOutAfter, ...own }: FleetCoreOptions): FleetCore {
  const programming = new ProgrammingLatency(clock);
  const objects = new FleetObjects(clock, (kind, version, service) => programming.seen(kind, version, service));
  const nodes = new FleetNodes({ clock, programming, leaveOutAfter });
  const drains = new Drains({ clock, objects, nodes, programming });
  const answers = new FleetAnswers({ clock, objects, nodes, drains, programming, ...own });
  return { objects, nodes, drains, programming, answers };
}
