/** The table of the test of kube-controller-manager's ReconcileHints. */

/** An endpoint in words: `a`: its zone, `1`: its node, `unready`, `>a`: a hint for zone a, `>1`: a hint for node 1. */
export type HintWords = string;

export type Three = readonly [
  create: readonly HintWords[][],
  update: readonly HintWords[][],
  unchanged: readonly HintWords[][],
];

interface Row {
  readonly value: string | undefined;
  readonly given: Three;
  readonly wanted: Three;
}

/** Two slices to create and two to update; the zones go when `isZoned` is false. `hints` are words for each. */
function four(isZoned: boolean, hints: (zone: string, node: string) => string): Three {
  const one = (zone: string, node: string) => `${isZoned ? `${zone} ` : ''}${node}${hints(zone, node)}`;
  const create = [
    [one('a', '1'), one('b', '2')],
    [one('a', '3'), one('b', '4')],
  ];
  const update = [
    [one('a', '5'), one('a', '6')],
    [one('b', '7'), one('c', '8')],
  ];
  return [create, update, []];
}

const none = () => '';
const zone = (of: string) => ` >${of}`;

export const HINTS: Readonly<Record<string, Row>> = {
  'should set zone hints with PreferClose': {
    ...{ value: 'PreferClose', given: four(true, none), wanted: four(true, zone) },
  },
  'should set zone hints with PreferSameZone': {
    ...{ value: 'PreferSameZone', given: four(true, none), wanted: four(true, zone) },
  },
  'should set zone and node hints with PreferSameNode': {
    ...{ value: 'PreferSameNode', given: four(true, none), wanted: four(true, (a, node) => ` >${a} >${node}`) },
  },
  'should correct incorrect hints with PreferClose': {
    value: 'PreferClose',
    given: [[], [['a 5 >b']], [['b 6 >c'], ['c 7']]],
    wanted: [[], [['a 5 >a'], ['b 6 >b'], ['c 7 >c']], []],
  },
  'should not create hints with PreferClose if there are no zones': {
    ...{ value: 'PreferClose', given: four(false, none), wanted: four(false, none) },
  },
  'should create only node hints with PreferSameNode if there are no zones': {
    ...{ value: 'PreferSameNode', given: four(false, none), wanted: four(false, (_, node) => ` >${node}`) },
  },
  'unready endpoints should not trigger updates': {
    value: 'PreferClose',
    given: [[], [], [['b 2 unready']]],
    wanted: [[], [], [['b 2 unready']]],
  },
  'should remove hints when trafficDistribution is unrecognized': {
    value: 'Unknown',
    given: [[['a 1 >a', 'b 2 >b'], ['a 3 >a']], [['a 5 >a']], []],
    wanted: [[['a 1', 'b 2'], ['a 3']], [['a 5']], []],
  },
  'should remove hints when trafficDistribution is unset': {
    value: undefined,
    given: [[], [['a 5 >a']], [['b 6 >b']]],
    wanted: [[], [['a 5'], ['b 6']], []],
  },
};
