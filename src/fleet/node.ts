/** One node of the fleet: its Node object, the place of its agent, the connection to it, and what the agent said. Pure. */
import type { nodeStates } from '../answers/fleet.ts';
import type { Address, Cidr } from '../model/address.ts';
import { AgentState, type Lack, type Need } from './agent-state.ts';
import type { Tracked } from './programming.ts';

export type NodeState = (typeof nodeStates)[number];

/** The used part of a Node object. */
export interface NodeFacts {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
  /** Its condition Ready is True. */
  readonly isReady: boolean;
  /** Time of the last change of that condition, in milliseconds since 1970; 0 when it is not known. */
  readonly readySince: number;
}

/** Where an agent answers. */
export interface AgentPlace {
  readonly address: Address;
  readonly port: number;
}

/** The connection to an agent. `why` is a sentence without its end, such as an error. */
export type Link =
  | { readonly state: 'connecting' }
  | { readonly state: 'open' }
  | { readonly state: 'failed'; readonly why: string }
  /** It answered 404 at /programmed/live. */
  | { readonly state: 'too old' };

export class FleetNode {
  readonly name: string;
  /** Grows from one node that begins to count to the next; 0 while it does not count. */
  serial = 0;
  readonly agent = new AgentState();
  facts: NodeFacts | undefined;
  place: AgentPlace | undefined;
  /** It has an agent's endpoint, or had one. */
  hadPlace = false;
  link: Link = { state: 'connecting' };
  /** Since when, in milliseconds of the clock, the connection is in that state, and the agent has no endpoint. */
  linkSince: number;
  placelessSince: number;
  /** The next event begins a stream. */
  isFirst = true;
  /** When the last stream ended. */
  lostAt: number | undefined;
  /** Since when the Node's condition Ready is not True; undefined: it is. */
  notReadySince: number | undefined;
  isLeftOut = false;
  /** undefined while it does not count for latencies. */
  tracked: Tracked | undefined;
  /** Ends the wait until it is left out. */
  cancel: () => void = () => undefined;

  /** `now`: milliseconds of the clock. */
  constructor(name: string, now: number) {
    this.name = name;
    this.linkSince = now;
    this.placelessSince = now;
  }

  /** Whether its kernel counts: an agent served it, and its Node exists. */
  get counts(): boolean {
    return this.facts !== undefined && this.hadPlace;
  }

  /** Why it has not what is needed; undefined: it has. `since`: when the fleet saw the first change that it lacks. */
  lack(need: Need, since: () => number | undefined): Lack | undefined {
    if (!this.agent.hasMarks(need.versions)) return { why: this.obstacle() ?? this.#slowness(), since: since() };
    return this.agent.exception(need);
  }

  /** Why nothing newer comes from it; undefined: it is connected and writes. */
  obstacle(): string | undefined {
    if (this.place === undefined) return 'its agent is gone, and the rules that it wrote still stand';
    switch (this.link.state) {
      case 'connecting':
        return 'the fleet has no connection to its agent yet';
      case 'failed':
        return `no connection to its agent: ${this.link.why}`;
      case 'too old':
        return 'its agent is too old: it has no /programmed/live';
      case 'open':
        return this.agent.stuck === undefined ? undefined : `its agent cannot write: ${this.agent.stuck.why}`;
    }
  }

  #slowness(): string {
    const { services, slices } = this.agent.marks;
    if (services === '' || slices === '') return 'its agent has written nothing since it started';
    return 'its agent has not written the change yet';
  }
}
