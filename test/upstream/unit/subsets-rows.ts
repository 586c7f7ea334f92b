/** The table of Kubernetes' test of RepackSubsets. */

/** A subset in words: ready addresses, those that are not ready, ports. `#` and the uid of its Pod may follow an address. */
export type SubsetWords = string;

export const SUBSETS: Readonly<
  Record<string, readonly [given: readonly SubsetWords[], wanted: readonly SubsetWords[]]>
> = {
  'empty everything': [['//'], []],
  'empty addresses': [['//111'], []],
  'empty ports': [['1.2.3.4//'], ['1.2.3.4//']],
  'empty ports, not ready': [['/1.2.3.4/'], ['/1.2.3.4/']],
  'one set, one ip, one port': [['1.2.3.4//111'], ['1.2.3.4//111']],
  'one set, one ip, one port (IPv6)': [['beef::1:2:3:4//111'], ['beef::1:2:3:4//111']],
  'one set, one notReady ip, one port': [['/1.2.3.4/111'], ['/1.2.3.4/111']],
  'one set, one ip, one UID, one port': [['1.2.3.4#1//111'], ['1.2.3.4#1//111']],
  'one set, one notReady ip, one UID, one port': [['/1.2.3.4#1/111'], ['/1.2.3.4#1/111']],
  'one set, one ip, empty UID, one port': [['1.2.3.4#//111'], ['1.2.3.4#//111']],
  'one set, one notReady ip, empty UID, one port': [['/1.2.3.4#/111'], ['/1.2.3.4#/111']],
  'one set, two ips, one port': [['1.2.3.4,5.6.7.8//111'], ['1.2.3.4,5.6.7.8//111']],
  'one set, two mixed ips, one port': [['1.2.3.4/5.6.7.8/111'], ['1.2.3.4/5.6.7.8/111']],
  'one set, two duplicate ips, one port, notReady is covered by ready': [['1.2.3.4/1.2.3.4/111'], ['/1.2.3.4/111']],
  'one set, one ip, two ports': [['1.2.3.4//111,222'], ['1.2.3.4//111,222']],
  'one set, dup ips, one port': [['1.2.3.4,1.2.3.4//111'], ['1.2.3.4//111']],
  'one set, dup ips, one port (IPv6)': [['beef::1,beef::1//111'], ['beef::1//111']],
  'one set, dup ips with target-refs, one port': [['1.2.3.4@foo,1.2.3.4@bar//111'], ['1.2.3.4@foo//111']],
  'one set, dup mixed ips with target-refs, one port': [['1.2.3.4@foo/1.2.3.4@bar/111'], ['/1.2.3.4@foo/111']],
  'one set, one ip, dup ports': [['1.2.3.4//111,111'], ['1.2.3.4//111']],
  'two sets, dup ip, dup port': [['1.2.3.4//111', '1.2.3.4//111'], ['1.2.3.4//111']],
  'two sets, dup mixed ip, dup port': [['1.2.3.4//111', '/1.2.3.4/111'], ['/1.2.3.4/111']],
  'two sets, dup ip, two ports': [['1.2.3.4//111', '1.2.3.4//222'], ['1.2.3.4//111,222']],
  'two sets, dup ip, dup uids, two ports': [['1.2.3.4#1//111', '1.2.3.4#1//222'], ['1.2.3.4#1//111,222']],
  'two sets, dup mixed ip, dup uids, two ports': [
    ['1.2.3.4#1//111', '/1.2.3.4#1/222'],
    ['1.2.3.4#1//111', '/1.2.3.4#1/222'],
  ],
  'two sets, two ips, dup port': [['1.2.3.4//111', '5.6.7.8//111'], ['1.2.3.4,5.6.7.8//111']],
  'two set, dup ip, two uids, dup ports': [['1.2.3.4#1//111', '1.2.3.4#2//111'], ['1.2.3.4#1,1.2.3.4#2//111']],
  'two set, dup ip, with and without uid, dup ports': [['1.2.3.4//111', '1.2.3.4#2//111'], ['1.2.3.4,1.2.3.4#2//111']],
  'two sets, two ips, two dup ip with uid, dup port, wrong order': [
    ['5.6.7.8//111', '5.6.7.8#1//111', '1.2.3.4#1//111', '1.2.3.4//111'],
    ['1.2.3.4,1.2.3.4#1,5.6.7.8,5.6.7.8#1//111'],
  ],
  'two sets, two mixed ips, two dup ip with uid, dup port, wrong order, ends up with split addresses': [
    ['5.6.7.8//111', '/5.6.7.8#1/111', '/1.2.3.4#1/111', '/1.2.3.4/111'],
    ['5.6.7.8/1.2.3.4,1.2.3.4#1,5.6.7.8#1/111'],
  ],
  'two sets, two ips, two ports': [
    ['1.2.3.4//111', '5.6.7.8//222'],
    ['1.2.3.4//111', '5.6.7.8//222'],
  ],
  'four sets, three ips, three ports, jumbled': [
    ['1.2.3.4//111', '1.2.3.5//222', '1.2.3.6//111', '1.2.3.5//333'],
    ['1.2.3.4,1.2.3.6//111', '1.2.3.5//222,333'],
  ],
  'four sets, three mixed ips, three ports, jumbled': [
    ['1.2.3.4//111', '/1.2.3.5/222', '1.2.3.6//111', '/1.2.3.5/333'],
    ['1.2.3.4,1.2.3.6//111', '/1.2.3.5/222,333'],
  ],
};
