/** Which nodes are shown. The address of the page has it, so that a link shows the same. Pure. */
import type { FleetNode } from '../../inspect/wire/fleet.ts';
import { NODE_STATES, type NodeState } from './fleet-text.ts';

export interface Filter {
  /** Empty: all of them. */
  readonly states: readonly NodeState[];
  /** A part of the name; letters of any case. */
  readonly name: string;
  /** The node of which everything is shown; "": none. */
  readonly node: string;
}

/** `#/?state=behind&state=no+answer&name=node-1&node=node-17`; what is unknown in it is left out. */
export function filterOf(fragment: string): Filter {
  const of = new URLSearchParams(fragment.replace(/^[^?]*\??/, ''));
  const states = of.getAll('state');
  return {
    states: NODE_STATES.filter((state) => states.includes(state)),
    name: of.get('name') ?? '',
    node: of.get('node') ?? '',
  };
}

/** The fragment of a filter. */
export function linkTo({ states, name, node }: Filter): string {
  const given = [...states.map((state) => ['state', state]), ['name', name], ['node', node]];
  const query = new URLSearchParams(given.filter(([, value]) => value !== '')).toString();
  return query === '' ? '#/' : `#/?${query}`;
}

/** The nodes that it shows, in their order. */
export function shownBy({ states, name }: Filter, nodes: readonly FleetNode[]): readonly FleetNode[] {
  const wanted = name.trim().toLowerCase();
  if (wanted === '' && states.length === 0) return nodes;
  return nodes.filter(
    (node) =>
      (states.length === 0 || states.includes(node.state)) &&
      (wanted === '' || node.name.toLowerCase().includes(wanted)),
  );
}

/** With the state, or without it where it has it. */
export function toggled(filter: Filter, state: NodeState): Filter {
  const { states } = filter;
  return { ...filter, states: states.includes(state) ? states.filter((each) => each !== state) : [...states, state] };
}
