/** What an agent said last of itself, put together from the events of its stream. Pure. */

import type { Family } from '../base/address.ts';
import type { ProgrammedEvent } from '../inspect/wire/programmed.ts';
import type { ServiceKey } from '../proxy/model/objects.ts';
import { hasReached } from '../proxy/model/resource-version.ts';
import type { FleetKind, Versions } from './types.ts';

/** What must be in a node's kernel. */
export interface Need {
  readonly versions: Versions;
  /** None of these may be behind. */
  readonly services: readonly ServiceKey[];
  /** No Service of this namespace may be behind, or none at all where it is ""; undefined: `services` are all. */
  readonly namespace?: string | undefined;
  /** None of these may be unserved. */
  readonly families: readonly Family[];
}

/** Why a node has not what is needed; `since` in milliseconds of the clock, undefined where that is not known. */
export interface Lack {
  readonly why: string;
  readonly since: number | undefined;
}

/** An agent names at most so many Services that are behind: where it names as many, there may be more. */
const MAX_BEHIND = 1000;

/** Services that an agent may name as behind: it names at most 1,000 of itself, and a broken one must not fill the memory. */
export const MAX_NAMED = 2000;

/** The stream is not one of an agent, or breaks its form. The message is a clause. */
export class NotAnEvent extends Error {}

const NOTHING: Versions = { services: '', slices: '' };

export class AgentState {
  marks = NOTHING;
  /** When the agent started, in milliseconds of the fleet's clock; undefined: not known. */
  startedAt: number | undefined;
  mode = '';
  version = '';
  stuck: Lack | undefined;
  readonly behind = new Map<ServiceKey, Lack>();
  unserved: readonly { readonly family: Family; readonly why: string }[] = [];
  health: NonNullable<ProgrammedEvent['health']> = { healthy: true, reasons: [] };
  counts: NonNullable<ProgrammedEvent['counts']> = { faults: 0, drift: 0, suspects: [] };

  /**
   * Takes an event that arrived at `now`. `isFirst`: it begins a stream, and what it does not name is not so. The marks are the caller's
   * to read one by one; here the last one counts. Throws NotAnEvent, and takes nothing, where too many
   * Services would be behind.
   */
  take(event: ProgrammedEvent, now: number, isFirst: boolean): void {
    this.#mustHaveRoom(event, isFirst);
    if (isFirst) {
      this.behind.clear();
      this.unserved = [];
      this.stuck = undefined;
    }
    const { agent, marks, stuck, behind, unserved, health, counts } = event;
    if (agent !== undefined) {
      this.startedAt = now - agent.up;
      this.mode = agent.mode;
      this.version = agent.version;
    }
    const last = marks?.at(-1);
    if (last !== undefined) this.marks = { services: last[0], slices: last[1] };
    if (stuck !== undefined) this.stuck = stuck === null ? undefined : { why: stuck.why, since: now - stuck.age };
    for (const service of behind?.gone ?? []) this.behind.delete(service);
    for (const { service, why, age } of behind?.set ?? []) this.behind.set(service, { why, since: now - age });
    if (unserved !== undefined) this.unserved = unserved;
    if (health !== undefined) this.health = health;
    if (counts !== undefined) this.counts = counts;
  }

  #mustHaveRoom({ behind }: ProgrammedEvent, isFirst: boolean): void {
    if (behind === undefined) return;
    const gone = new Set(behind.gone);
    const named = new Set(behind.set?.map(({ service }) => service));
    let size = named.size;
    if (!isFirst) for (const service of this.behind.keys()) if (!gone.has(service) && !named.has(service)) size += 1;
    if (size > MAX_NAMED) throw new NotAnEvent(`it names more than ${MAX_NAMED} Services behind`);
  }

  /** The API server's versions of a kind went back: a mark that was told before says nothing. */
  forget(kind: FleetKind): void {
    this.marks = { ...this.marks, [kind]: '' };
  }

  /** Whether the marks are as new as what is needed. Nothing is needed of a kind whose version is "". */
  hasMarks({ services, slices }: Versions): boolean {
    return isIn(services, this.marks.services) && isIn(slices, this.marks.slices);
  }

  /** What lies outside the marks: a Service that the kernel refuses, or a family of which nothing is written. */
  exception({ services, namespace, families }: Omit<Need, 'versions'>): Lack | undefined {
    for (const { family, why } of this.unserved) {
      if (families.includes(family)) return { why: `the agent writes no ${family}: ${why}`, since: undefined };
    }
    if (this.behind.size === 0) return undefined;
    for (const service of namespace === undefined ? services : this.behind.keys()) {
      const lack = this.behind.get(service);
      if (lack === undefined || !(namespace === undefined || isOf(service, namespace))) continue;
      return { why: `an older version of Service ${service} is in the kernel: ${lack.why}`, since: lack.since };
    }
    if (this.behind.size < MAX_BEHIND) return undefined;
    return {
      why: `older versions of ${MAX_BEHIND} Services or more are in the kernel, not all are named`,
      since: undefined,
    };
  }
}

function isIn(version: string, mark: string): boolean {
  return version === '' || hasReached(mark, version);
}

function isOf(service: ServiceKey, namespace: string): boolean {
  return namespace === '' || service.startsWith(`${namespace}/`);
}
