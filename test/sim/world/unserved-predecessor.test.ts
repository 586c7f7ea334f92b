/** A mode that does not serve a family leaves the rules of its predecessor there: they are all that serves it. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { simScene } from './scene.ts';

it('a mode that takes over leaves the table of a family whose tools do not work', async () => {
  const scene = simScene({ mode: 'nftables', variant: 'nft' });
  const { kernel, lines } = scene;
  try {
    await scene.run(2000);
    assert.deepEqual(kernel.nft.tables('IPv6'), ['slicewire']);
    kernel.iptables.missing.add('ip6tables');
    scene.restartIn('iptables');
    await scene.run(5000);
    assert.deepEqual([kernel.nft.tables('IPv4'), kernel.nft.tables('IPv6')], [[], ['slicewire']], lines.join('\n'));
  } finally {
    scene.end();
  }
});
