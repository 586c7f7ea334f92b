/** The table of the test of kube-controller-manager's mirroring. */

/** A subset in words: ready addresses, those that are not ready, ports by name. */
export type MirrorWords = string;

export interface MirrorRow {
  readonly subsets: readonly MirrorWords[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly isPending?: true;
  readonly most?: number;
  /** The slice that is there: its subset in words, with what else it has. */
  readonly existing?: {
    readonly content: MirrorWords;
    readonly annotations?: Readonly<Record<string, string>>;
    /** Of other Endpoints of the same name. */
    readonly isOfOthers?: true;
  };
  /** Slices in the end, and writes until then. */
  readonly slices: number;
  readonly writes: number;
}

const LAST = {
  'kubectl.kubernetes.io/last-applied-configuration': '{"apiVersion":"v1","kind":"Endpoints","subsets":[]}',
};
const ONE = '10.0.0.1//http:80';
const FIRST = '10.0.0.1,10.0.0.2//http:80,https:443';
const SECOND = '10.0.1.1,10.0.1.2,10.0.1.3//http:3000,https:3001';
const DONE = { slices: 1, writes: 1 };
const BOTH = { slices: 2, writes: 2 };

export const MIRRORED: Readonly<Record<string, MirrorRow>> = {
  'Endpoints with no subsets': { subsets: [], slices: 0, writes: 0 },
  'Endpoints with no addresses': { subsets: ['//http:80'], slices: 0, writes: 0 },
  'Endpoints with 1 subset, port, and address': { subsets: [ONE], ...DONE },
  'Endpoints with 2 subset, different port and address': { subsets: [ONE, '10.0.0.2//https:443'], ...BOTH },
  'Endpoints with 2 subset, different port and same address': { subsets: [ONE, '10.0.0.1//https:443'], ...DONE },
  'Endpoints with 2 subset, different address and same port': { subsets: [ONE, '10.0.0.2//http:80'], ...DONE },
  'Endpoints with 1 subset, port, and address, pending deletion': {
    ...{ subsets: [ONE], isPending: true, slices: 0, writes: 0 },
  },
  'Endpoints with 1 subset, port, and address and existing slice with same fields': {
    ...{ subsets: [ONE], existing: { content: ONE }, slices: 1, writes: 0 },
  },
  'Endpoints with 1 subset, port, and address and existing slice with same fields but different OwnerReferences': {
    ...{ subsets: [ONE], existing: { content: ONE, isOfOthers: true }, ...DONE },
  },
  'Endpoints with 1 subset, port, and address and existing slice with an additional annotation': {
    ...{ subsets: [ONE], existing: { content: ONE, annotations: { foo: 'bar' } }, ...DONE },
  },
  'Endpoints with 1 subset, port, label and address and existing slice with same fields but the label': {
    ...{ subsets: [ONE], labels: { foo: 'bar' }, existing: { content: ONE, annotations: { foo: 'bar' } }, ...DONE },
  },
  'Endpoints with 1 subset, 2 ports, and 2 addresses': { subsets: [FIRST], ...DONE },
  'Endpoints with 1 subset, 2 ports, and 2 not ready addresses': {
    ...{ subsets: ['/10.0.0.1,10.0.0.2/http:80,https:443'], ...DONE },
  },
  'Endpoints with 1 subset, 2 ports, and 2 ready and 2 not ready addresses': {
    ...{ subsets: ['10.1.1.1,10.1.1.2/10.0.0.1,10.0.0.2/http:80,https:443'], ...DONE },
  },
  'Endpoints with 2 subsets, multiple ports and addresses': { subsets: [FIRST, SECOND], ...BOTH },
  'Endpoints with 2 subsets, multiple ports and addresses, existing empty EndpointSlice': {
    ...{ subsets: [FIRST, SECOND], existing: { content: '//http:80,https:443' }, ...BOTH },
  },
  'Endpoints with 2 subsets, multiple ports and addresses, existing EndpointSlice with some addresses': {
    ...{ subsets: [FIRST, SECOND], existing: { content: '10.0.0.2,10.0.0.3//http:80,https:443' }, ...BOTH },
  },
  'Endpoints with 2 subsets, multiple ports and addresses, existing EndpointSlice identical to subset': {
    ...{ subsets: [FIRST, SECOND], existing: { content: FIRST }, slices: 2, writes: 1 },
  },
  'Endpoints with 2 subsets, multiple ports, and dual stack addresses': {
    subsets: ['2001:db8:2::7,10.0.0.2//http:80,https:443', '10.0.1.1,10.0.1.2,2001:db8:3::8//http:3000,https:3001'],
    ...{ slices: 4, writes: 4 },
  },
  'Endpoints with 2 subsets, multiple ports, ipv6 only addresses': {
    subsets: ['2001:db8:1::7,2001:db8:2::7//http:80,https:443', '2001:db8:3::7,2001:db8:4::7//http:3000,https:3001'],
    ...BOTH,
  },
  'Endpoints with 2 subsets, multiple ports, some invalid addresses': {
    subsets: ['2001:db8:1::7,no-ip//http:80,https:443', 'no-ip-either,2001:db8:4::7//http:3000,https:3001'],
    ...BOTH,
  },
  'Endpoints with 2 subsets, multiple ports, all invalid addresses': {
    ...{ subsets: ['no-ip-1,no-ip-2//http:80', 'no-ip-3//http:3000'], slices: 0, writes: 0 },
  },
  'Endpoints with 2 subsets, 1 exceeding maxEndpointsPerSubset': { subsets: [FIRST, SECOND], most: 2, ...BOTH },
  'The last-applied-configuration annotation should not get mirrored to created or updated endpoint slices': {
    ...{ subsets: [ONE], annotations: LAST, ...DONE },
  },
  "The last-applied-configuration annotation shouldn't get added to created endpoint slices": {
    ...{ subsets: [ONE], ...DONE },
  },
  "The last-applied-configuration shouldn't get mirrored to endpoint slices when it's value is empty": {
    ...{ subsets: [ONE], annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '' }, ...DONE },
  },
  'Annotations other than last-applied-configuration should get correctly mirrored': {
    ...{ subsets: [ONE], annotations: { ...LAST, foo: 'bar' }, ...DONE },
  },
  'Annotation mirroring should remove the last-applied-configuration annotation from existing endpoint slices': {
    ...{ subsets: [ONE], existing: { content: ONE, annotations: LAST }, ...DONE },
  },
};
