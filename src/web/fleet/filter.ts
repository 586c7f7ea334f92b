/** The filter of the nodes. It is in the address of the page, so that a link shows the same. */
import { useMemo } from 'preact/hooks';
import type { FleetNode } from '../../inspect/wire/fleet.ts';
import { replaceFragment, useFragment } from '../routes.ts';
import { NODE_STATES, type NodeState } from './fleet-text.ts';

export interface Filter {
  /** Empty for all states. */
  readonly states: readonly NodeState[];
  /** A part of the name, in letters of any case. */
  readonly name: string;
  /** The chosen node, of which everything is shown; "" for none. */
  readonly node: string;
}

/** `#/?state=behind&state=no+answer&name=node-1&node=node-17`; unknown fields and states are ignored. */
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

/** The nodes that the filter shows, in their order. */
export function shownBy({ states, name }: Filter, nodes: readonly FleetNode[]): readonly FleetNode[] {
  const wanted = name.trim().toLowerCase();
  if (wanted === '' && states.length === 0) return nodes;
  return nodes.filter(
    (node) =>
      (states.length === 0 || states.includes(node.state)) &&
      (wanted === '' || node.name.toLowerCase().includes(wanted)),
  );
}

/** Adds the state, or removes it when the filter has it. */
export function toggled(filter: Filter, state: NodeState): Filter {
  const { states } = filter;
  return { ...filter, states: states.includes(state) ? states.filter((each) => each !== state) : [...states, state] };
}

/** The filter of the address, and a function that changes both. */
export function useFilter(): readonly [Filter, (filter: Filter) => void] {
  const fragment = useFragment();
  const filter = useMemo(() => filterOf(fragment), [fragment]);
  return [filter, (next) => replaceFragment(linkTo(next))];
}
