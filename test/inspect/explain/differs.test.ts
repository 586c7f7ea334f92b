/** Where the kernel does other than it should, the answer begins with that. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ExplainFacts } from '../../../src/inspect/explain/facts.ts';
import { explanationText } from '../../../src/inspect/wire/explanation.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { FamilyView, RulesView, TableView } from '../../../src/proxy/modes/view.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { type AskedNode, askedNode } from '../../helpers/inspect/explain/asking.ts';

const spec = { clusterIP: '10.96.0.10', ports: [{ port: 80 }] };
const OBJECTS = [
  service({ name: 'web', namespace: 'shop', spec }),
  slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: ['10.244.1.11', '10.244.2.12'] }),
];

async function aNode(mode: ModeName = 'iptables'): Promise<AskedNode> {
  const node = askedNode(mode);
  node.rig.put(...OBJECTS);
  await node.rig.sync();
  return node;
}

/** The rules without those of chains whose name begins so. */
function flushed({ family, rules }: FamilyView, prefix: string): FamilyView {
  const without: RulesView | undefined = rules && {
    policy: (chain) => rules.policy(chain),
    chain: (table, name) => (name.startsWith(prefix) ? [] : rules.chain(table, name)),
  };
  return { family, rules: without };
}

async function differs(more: Partial<ExplainFacts> = {}): Promise<readonly string[]> {
  const node = await aNode();
  const stands = (family: 'IPv4' | 'IPv6') => flushed(node.view(family), 'KUBE-SVC');
  const answer = await node.ask('10.244.1.99', 'svc/shop/web', { stands, more });
  assert.ok(explanationText(answer).startsWith('The kernel differs from the desired state'));
  assert.equal(
    answer.verdict.sentence,
    'The connection is left alone, although Service shop/web has 10.96.0.10:80 (TCP).',
  );
  assert.equal(answer.verdict.kind, 'not a Service');
  return answer.differs;
}

describe('an answer about a kernel that differs', () => {
  it('names what is missing, and the program that wrote last', async () => {
    const found = await differs({ lastWriter: { pid: 4711, name: 'iptables', isUs: false } });
    assert.deepEqual(found, [
      'The kernel differs from the desired state: the packet is left alone, and should be sent to 10.244.1.11:8080 and 10.244.2.12:8080.',
      'The kernel lacks this in nat KUBE-SVC-E3PXEPMWAWIUT6ZV: -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.1.11:8080',
      'Another program changed the kernel; the last one that wrote is iptables (process 4711). The next sync that reads the kernel repairs it; "slicewire verify" lists all that differs.',
    ]);
  });

  it('names a missing element of nftables, behind those that are there', async () => {
    const node = await aNode('nftables');
    const lacking = async (set: string) => {
      const stands = (family: 'IPv4' | 'IPv6'): FamilyView => {
        const { table } = node.view(family);
        const isLacking = (name: string) => name === set;
        const element: TableView['element'] = (name, key) => (isLacking(name) ? undefined : table?.element(name, key));
        return { family, table: table && { ...table, element } };
      };
      const { differs: found } = await node.ask('10.244.1.99', 'svc/shop/web', { stands });
      return found[1];
    };
    assert.equal(
      await lacking('services'),
      'The kernel lacks this in ip slicewire services: 10.96.0.10 . tcp . 80 : goto cluster-ip-of-2',
    );
    assert.equal(
      await lacking('backends'),
      'The kernel lacks this in ip slicewire backends: 10.96.0.10 . tcp . 80 . 0 : 10.244.1.11 . 8080',
    );
  });

  it('does not name ourselves, nor a program that is not known', async () => {
    for (const lastWriter of [undefined, { pid: 1, name: 'slicewire', isUs: true }]) {
      assert.match((await differs({ lastWriter })).at(-1) ?? '', /^Another program changed the kernel\. /);
    }
  });

  it('says that a change is not written yet, or that the kernel refuses it', async () => {
    assert.equal(
      (await differs({ isPending: () => true })).at(-1),
      'A change of Service shop/web is not written yet; the next sync writes it.',
    );
    assert.equal(
      (await differs({ refused: new Map([['shop/web', 'No such file or directory.\n-A KUBE-SVC']]) })).at(-1),
      'The kernel refuses the rules of Service shop/web: No such file or directory.',
    );
  });

  it('says nothing where both agree', async () => {
    const answer = await (await aNode()).ask('10.244.1.99', 'svc/shop/web');
    assert.deepEqual(answer.differs, []);
  });

  it('explains what stands, not what is desired', async () => {
    const node = await aNode();
    const rest = node.view('IPv4');
    const { rules } = rest;
    const heavy: RulesView | undefined = rules && {
      policy: (chain) => rules.policy(chain),
      chain: (table, name) => rules.chain(table, name)?.filter(({ text }) => !text.includes('10.244.1.11:8080')),
    };
    const answer = await node.ask('10.244.1.99', 'svc/shop/web', { stands: (family) => ({ family, rules: heavy }) });
    assert.deepEqual(
      answer.verdict.endpoints.map(({ endpoint, share }) => `${endpoint} ${share}`),
      ['10.244.2.12:8080 1'],
    );
    assert.equal(
      answer.differs[0],
      'The kernel differs from the desired state: the packet is sent to 10.244.2.12:8080, and should be sent to 10.244.1.11:8080 and 10.244.2.12:8080.',
    );
  });
});
