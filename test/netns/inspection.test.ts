/** A mode reads a real kernel for questions, and names what real tools changed behind its back. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const INSIDE = fileURLToPath(new URL('./inspection-inside.ts', import.meta.url));

const STORIES = {
  nftables: 'nftables mode: views, elements, replaced rules, memories, and who wrote last',
  rules: 'nftables mode: the rules of every story are read as they were written',
  'iptables-nft': 'iptables mode, nft variant: views, a deleted rule, lists of clients, and who wrote last',
  'iptables-legacy': 'iptables mode, legacy variant: the same, but nobody knows who wrote last',
} as const;

describe('the inspection of a real kernel', () => {
  for (const [story, title] of Object.entries(STORIES)) {
    it(title, async () => {
      const args = ['--net', process.execPath, INSIDE, story];
      const { exitCode, stderr } = await shellCommands.run({ file: 'unshare', args }, NEVER);
      assert.equal(exitCode, 0, stderr);
    });
  }
});
