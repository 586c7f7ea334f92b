/**
 * Whatever the objects are: what an explanation says of the objects agrees with what the kernel does. It is asked about every frontend,
 * from a Pod, the node and outside, in every mode.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { endpointText } from '../../../src/base/address.ts';
import { explain } from '../../../src/inspect/explain/explain.ts';
import type { ExplainFacts } from '../../../src/inspect/explain/facts.ts';
import { takesNodePorts } from '../../../src/inspect/explain/packet-query.ts';
import { type Explanation, explanationText } from '../../../src/inspect/wire/explanation.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { ServicePort } from '../../../src/proxy/model/service-port.ts';
import { aStep } from '../../helpers/cluster/histories.ts';
import { type AskedNode, askedNode, MODES, type NodeOptions } from '../../helpers/inspect/explain/asking.ts';
import { follow } from '../../helpers/proxy/rig.ts';

const SENDERS: Readonly<Record<ServicePort['family'], readonly string[]>> = {
  IPv4: ['10.244.1.2', '10.244.1.99', 'node', 'outside', '192.168.77.9'],
  IPv6: ['fd00:244:1::2', 'fd00:244:1::99', 'node', 'outside'],
};
/** Words of last resort: the reason is not known from the objects. */
const GUESSES =
  /a rule (of|in) the kernel|no rule in the kernel|the kernel says so|although Service|the policy is Local/;

const OPTIONS: readonly NodeOptions[] = [
  {},
  { localDetector: { kind: 'none' } },
  { localDetector: { kind: 'interface', name: 'veth+' } },
  { masqueradeAll: true },
];

/** The client's address alone decides about the endpoint, which the answer names (docs/traffic.md). */
function isDecided({ hashes }: ServicePort, mode: ModeName): boolean {
  return mode === 'nftables' && hashes === 'address';
}

async function check(node: AskedNode, mode: ModeName): Promise<number> {
  const facts = node.facts();
  let asked = 0;
  for (const port of node.rig.model.ports.values()) {
    for (const { address, port: number } of port.frontends) {
      const family = facts.families.get(port.family) ?? assert.fail();
      const to = address ?? family.nodePortAddresses[0] ?? assert.fail();
      assert.ok(address !== undefined || takesNodePorts(to, family));
      for (const from of SENDERS[port.family]) {
        const target = `${endpointText(to, number)}/${port.protocol.toLowerCase()}`;
        await checkOne({ from, to: target, facts, isDecided: isDecided(port, mode) });
        asked += 1;
      }
    }
  }
  return asked;
}

interface Question {
  readonly from: string;
  readonly to: string;
  readonly facts: ExplainFacts;
  readonly isDecided: boolean;
}

async function checkOne({ from, to, facts, isDecided }: Question): Promise<void> {
  const answer = await explain({ from, to, rules: true }, facts);
  const text = explanationText(answer);
  assert.deepEqual(answer.differs, [], text);
  assert.doesNotMatch(text, GUESSES);
  const { kind, endpoints, service } = answer.verdict;
  assert.notEqual(service, '', text);
  const used = usedIn(answer);
  const targets = endpoints.map(({ endpoint }) => endpoint);
  if (kind === 'balanced' && isDecided) {
    assert.equal(targets.length, 1, text);
    assert.ok(used.includes(targets[0] ?? ''), text);
  } else if (kind === 'balanced') assert.deepEqual(targets, used, text);
  else if (!/range/.test(answer.verdict.sentence)) assert.deepEqual(used, [], text);
}

/** Sorted, as the endpoints of a verdict are. */
function usedIn({ slices }: Explanation): string[] {
  return slices.flatMap(({ endpoints }) => endpoints.filter(({ used }) => used).map(({ endpoint }) => endpoint)).sort();
}

describe('an explanation', () => {
  for (const mode of MODES) {
    it(`agrees with the kernel of ${mode} mode, for random objects`, async () => {
      let asked = 0;
      const property = fc.asyncProperty(
        fc.array(aStep, { minLength: 6, maxLength: 24 }),
        fc.constantFrom(...OPTIONS),
        async (steps, options) => {
          const node = askedNode(mode, options);
          await follow(node.rig, steps);
          asked += await check(node, mode);
        },
      );
      await fc.assert(property, { numRuns: 40 });
      assert.ok(asked > 500, `${asked} questions`);
    });
  }
});
