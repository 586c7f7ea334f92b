/** The answers to what operators ask, word by word, in all modes. After a wanted change: `node test/inspect/explain/situations.ts`. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { Cidr } from '../../../src/base/address.ts';
import { explanationSchema } from '../../../src/inspect/wire/explanation.ts';
import { nodeOf, service, slice } from '../../helpers/cluster/objects.ts';
import { askedNode, MODES } from '../../helpers/inspect/explain/asking.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';
import { fileOf, SITUATIONS, told } from './situations.ts';

describe('answers', () => {
  for (const situation of SITUATIONS) {
    it(`about ${situation.name}`, async () => {
      assert.equal(await told(situation), readFileSync(fileOf(situation), 'utf8'));
    });
  }

  it('have the form that programs read', async () => {
    let read = 0;
    for (const mode of MODES) {
      for (const { modes = MODES, options, objects, questions, known } of SITUATIONS) {
        if (!modes.includes(mode)) continue;
        const node = askedNode(mode, options);
        node.rig.put(nodeOf('zone-a'), ...objects);
        await node.sync();
        for (const [from, to] of questions) {
          const answer = await node.ask(from, to, { ...known, rules: true });
          assert.deepEqual(explanationSchema.strict().parse(answer), answer);
          read += 1;
        }
      }
    }
    assert.ok(read > 50, `${read} answers`);
  });

  it('say that no rule masquerades what a Pod sends to itself, where the kernel has lost the element', async () => {
    const objects = [
      service({
        name: 'web',
        spec: {
          ...{ type: 'NodePort', externalTrafficPolicy: 'Local', clusterIP: '10.96.0.10' },
          ports: [{ port: 80, nodePort: 30_080 }],
        },
      }),
      slice({ name: 'web-1', service: 'web', endpoints: [{ addresses: ['10.244.2.12'], nodeName: 'other' }] }),
    ];
    const localDetector = { kind: 'cidr', cidr: '10.244.0.0/16' as Cidr } as const;
    const { kernel, rig } = nftRig({ families: ['IPv4'], settings: () => ({ localDetector }) });
    await rig.put(...objects).sync();
    kernel.tables.get('IPv4')?.sets.get('hairpin')?.elements.clear();
    const [read] = await rig.mode.inspection.read(NEVER);
    const node = askedNode('nftables', { localDetector });
    node.rig.put(...objects);
    await node.sync();
    const answer = await node.ask('10.244.2.12', 'nodeport:30080', { stands: () => read ?? assert.fail() });
    const [endpoint] = answer.verdict.endpoints;
    assert.deepEqual([endpoint?.masqueraded, endpoint?.why], [false, 'no rule in the kernel masquerades it']);
  });
});
