/** Weights over 20,000 real connections (docs/traffic.md, k8s#94191), in the modes that need no IPVS in the kernel. */
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { iptablesUnderTest } from './iptables-under-test.ts';
import { nftablesUnderTest } from './nftables-under-test.ts';
import { storyLab } from './story-packets.ts';
import { assertWeightedShares } from './weighted-shares.ts';

const CONNECTIONS = 20_000;
const PATIENCE = { silence: 400, answer: 2500 };

describe('shares of connections by weights', () => {
  let lab: Lab;
  before(async () => {
    lab = await storyLab();
  });
  after(() => lab.remove());

  it('are right in nftables mode', async (t) => {
    const mode = nftablesUnderTest(lab, PATIENCE);
    t.after(() => mode.close());
    t.diagnostic(await assertWeightedShares(lab, mode, CONNECTIONS));
    await lab.exec('node', 'nft', 'delete', 'table', 'ip', 'slicewire');
  });

  for (const backend of ['nft', 'legacy'] as const) {
    it(`are right in iptables mode, ${backend}`, async (t) => {
      t.diagnostic(await assertWeightedShares(lab, iptablesUnderTest(lab, backend, PATIENCE), CONNECTIONS));
      for (const tool of ['iptables', 'ip6tables']) await lab.exec('node', `${tool}-${backend}`, '-t', 'nat', '-F');
    });
  }
});
