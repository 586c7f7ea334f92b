/** Rules of nftables mode as the kernel lists them: what was encoded is what is decoded, and nothing else is mistaken for it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BodyWriter } from '../../native/body-writer.ts';
import { findAttribute, type NetlinkRequest, valueLength } from '../../native/netlink.ts';
import { NFGENMSG } from '../../native/nfnetlink.ts';
import {
  NF_ACCEPT,
  NF_QUEUE,
  NFTA_DATA_VERDICT,
  NFTA_EXPR_DATA,
  NFTA_EXPR_NAME,
  NFTA_IMMEDIATE_DATA,
  NFTA_IMMEDIATE_DREG,
  NFTA_LIST_ELEM,
  NFTA_LOOKUP_FLAGS,
  NFTA_LOOKUP_SET,
  NFTA_LOOKUP_SREG,
  NFTA_RULE_EXPRESSIONS,
  NFTA_VERDICT_CODE,
} from '../../native/nft/constants.ts';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import { encode } from '../../src/kernel/nftables-encoding.ts';
import type { NftRule } from '../../src/kernel/nftables-kernel.ts';
import { elementOf, ruleOf } from '../../src/kernel/nftables-reading.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { cluster } from '../conformance/cluster.ts';
import { nftablesSettingsOf } from '../conformance/nftables.ts';
import { STORIES } from '../conformance/stories/index.ts';
import { isTestedIn } from '../conformance/suite.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { FakeNft } from '../helpers/kernel/fake-nft.ts';
import { Rig } from '../helpers/proxy/rig.ts';

/** The content of NFTA_RULE_EXPRESSIONS. */
function expressionsIn({ body: [bytes] }: NetlinkRequest): string {
  const buffer = Buffer.from(bytes ?? assert.fail());
  const list = findAttribute(buffer, NFGENMSG, buffer.length, NFTA_RULE_EXPRESSIONS);
  return buffer.toString('latin1', list, list + valueLength(buffer, list));
}

function roundTrip(rule: NftRule, family: Family) {
  const { requests } = encode({ family, table: 'slicewire' }, [{ kind: 'add-rule', chain: 'any', rule }]);
  return ruleOf(rule.text, expressionsIn(requests[0] ?? assert.fail()), family);
}

/** The rules that a story leads to. */
async function rulesOf(story: (typeof STORIES)[number], family: Family): Promise<NftRule[]> {
  const first = story.tell(cluster(family));
  const kernel = new FakeNft();
  const families = [nftablesSettingsOf(family, first.settings ?? {})];
  const rig = new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel }) });
  await rig.become(first).sync();
  return [...(kernel.tables.get(family)?.chains.values() ?? [])].flatMap(({ rules }) => rules);
}

/** An expression of another program. */
function foreign(name: string, write: (data: BodyWriter) => void): string {
  const body = new BodyWriter().begin(Buffer.alloc(0));
  body.nest(NFTA_LIST_ELEM, (one) => one.text(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, write));
  return body.end().toString('latin1');
}

describe('rules of nftables as they are listed', () => {
  for (const family of FAMILIES) {
    it(`${family}: every rule of every story comes back`, async () => {
      const seen = new Map<string, NftRule>();
      for (const story of STORIES.filter((one) => isTestedIn(one, family))) {
        for (const rule of await rulesOf(story, family)) seen.set(JSON.stringify(rule), rule);
      }
      assert.ok(seen.size > 60, String(seen.size));
      for (const rule of seen.values()) {
        const { text, expressions } = roundTrip(rule, family);
        assert.deepEqual({ text, expressions }, rule);
      }
      const kinds = new Set([...seen.values()].flatMap(({ expressions }) => expressions.map((one) => one.do)));
      assert.equal(kinds.size, 16, [...kinds].join());
    });
  }

  it('does not mistake an expression of another program for one of ours', () => {
    const only = (bytes: string) => ruleOf('', bytes, 'IPv4').expressions;
    assert.deepEqual(only(foreign('counter', () => {})), [{ do: 'count' }]);
    const inverted = (flags: number) =>
      foreign('lookup', (data) =>
        data.text(NFTA_LOOKUP_SET, 'any').u32be(NFTA_LOOKUP_SREG, 1).u32be(NFTA_LOOKUP_FLAGS, flags),
      );
    assert.deepEqual(only(inverted(0)), [{ do: 'lookup', set: 'any', from: 0 }]);
    assert.deepEqual(only(inverted(1)), [{ do: 'lookup-absence', set: 'any', from: 0 }]);
    assert.deepEqual(only(inverted(2)), [{ do: 'unknown', name: 'lookup' }]);
    const accept = (code: number) =>
      foreign('immediate', (data) =>
        data
          .u32be(NFTA_IMMEDIATE_DREG, 0)
          .nest(NFTA_IMMEDIATE_DATA, (inner) =>
            inner.nest(NFTA_DATA_VERDICT, (verdict) => verdict.u32be(NFTA_VERDICT_CODE, code)),
          ),
      );
    assert.deepEqual(only(accept(NF_ACCEPT)), [{ do: 'verdict', verdict: { kind: 'accept' } }]);
    assert.deepEqual(only(accept(NF_QUEUE)), [{ do: 'unknown', name: 'immediate' }]);
    assert.deepEqual(only(''), []);
  });

  it('reads a rule of the other family as another one', () => {
    const rule: NftRule = { text: '', expressions: [{ do: 'load', what: 'destination address', to: 0 }] };
    const { requests } = encode({ family: 'IPv4', table: 'slicewire' }, [{ kind: 'add-rule', chain: 'any', rule }]);
    const { expressions } = ruleOf('', expressionsIn(requests[0] ?? assert.fail()), 'IPv6');
    assert.deepEqual(expressions, [{ do: 'unknown', name: 'payload' }]);
  });

  it('keeps the verdicts of elements apart', () => {
    const data = (verdict: Parameters<typeof elementOf>[0]['data']) =>
      elementOf({ key: '', end: '', ...(verdict === undefined ? {} : { data: verdict }) }).data;
    assert.deepEqual(
      [
        data({ kind: 'goto', chain: 'a' }),
        data({ kind: 'jump', chain: 'a' }),
        data({ kind: 'drop' }),
        data({ kind: 'accept' }),
        data('bytes'),
        data(undefined),
      ],
      ['goto a', 'jump a', 'drop', 'accept', 'bytes', ''],
    );
  });
});
