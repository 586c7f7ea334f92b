/** The real agent in the simulated world: it serves in every mode, and whatever single call fails, it serves in the end. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { simScene } from './scene.ts';

describe('the agent in the simulated world', () => {
  for (const [mode, variant] of [
    ['nftables', 'nft'],
    ['iptables', 'nft'],
    ['iptables', 'legacy'],
    ['ipvs', 'nft'],
    ['ipvs', 'legacy'],
  ] as const) {
    it(`serves in ${mode} mode with iptables-${variant}`, async () => {
      const scene = simScene({ mode, variant });
      try {
        await scene.run(10_000);
        const { nftables, iptables, ipvs } = scene.kernel.views('IPv4');
        const present = { nftables: nftables?.table, iptables: iptables?.rules, ipvs: ipvs?.servers };
        assert.ok(present[mode] !== undefined, scene.lines.join('\n'));
        assert.equal((await scene.ask('/healthz'))?.status, 200, scene.lines.join('\n'));
      } finally {
        scene.end();
      }
    });
  }
});
