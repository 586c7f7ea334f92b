/** The line that says why the agent adapts: each fact with its value before and now. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { changedFacts, changedFactText } from '../../src/agent/mode-settings.ts';
import type { Address, Cidr } from '../../src/base/address.ts';
import type { NftablesSettings } from '../../src/proxy/modes/nftables/chains.ts';

const BEFORE: NftablesSettings = {
  family: 'IPv4',
  masqueradeBit: 14,
  masqueradeAll: false,
  localDetector: { kind: 'none' },
  nodeAddresses: ['192.0.2.1' as Address],
  nodePortAddresses: 'all',
  dropInvalid: true,
  serviceCidrs: undefined,
  countsConnections: false,
};

const texts = (now: Partial<NftablesSettings>) => changedFacts(BEFORE, { ...BEFORE, ...now }).map(changedFactText);

describe('changed facts', () => {
  it('are none where all is as before', () => {
    assert.deepEqual(texts({ nodeAddresses: ['192.0.2.1' as Address] }), []);
  });

  it('have their values before and now, in words', () => {
    const many = Array.from({ length: 7 }, (_, n) => `198.51.100.${n}` as Address);
    assert.deepEqual(
      texts({
        localDetector: { kind: 'cidr', cidr: '10.244.1.0/24' as Cidr },
        nodeAddresses: ['192.0.2.2', '192.0.2.3'] as Address[],
        nodePortAddresses: many,
        dropInvalid: false,
        serviceCidrs: ['10.96.0.0/12', '10.112.0.0/16'] as Cidr[],
      }),
      [
        'IPv4 source of traffic from local pods: from unknown to 10.244.1.0/24',
        'IPv4 addresses of the Node: from 192.0.2.1 to 192.0.2.2, 192.0.2.3',
        'IPv4 addresses that take node ports: from all to 198.51.100.0, 198.51.100.1, 198.51.100.2, 198.51.100.3, 198.51.100.4 and 2 more',
        'IPv4 drop of packets that conntrack calls invalid: from on to off',
        'IPv4 ranges of cluster IPs: from unknown to 10.96.0.0/12, 10.112.0.0/16',
      ],
    );
    assert.deepEqual(texts({ nodeAddresses: [] }), ['IPv4 addresses of the Node: from 192.0.2.1 to none']);
  });

  it('are data too, for who reads the log by a program', () => {
    assert.deepEqual(changedFacts(BEFORE, { ...BEFORE, nodeAddresses: ['192.0.2.2' as Address] }), [
      { family: 'IPv4', fact: 'nodeAddresses', from: ['192.0.2.1'], to: ['192.0.2.2'] },
    ]);
  });

  it('of tools that work again have what was wrong with them', () => {
    const from = 'ip6tables cannot be started';
    assert.equal(
      changedFactText({ family: 'IPv6', fact: 'tools', from, to: 'usable' }),
      'IPv6 tools of iptables: from ip6tables cannot be started to usable',
    );
  });
});
