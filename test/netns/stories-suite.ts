/** Declares the tests of stories with real packets in namespaces, for the files that each run them in one mode. */
import { after, before, describe, it } from 'node:test';
import type { Lab } from '../../src/cli/lab/lab.ts';
import { iptablesUnderTest } from './iptables-under-test.ts';
import { nftablesUnderTest } from './nftables-under-test.ts';
import { type Patience, type RealStory, sendStory, storyLab, type TestedMode } from './story-packets.ts';

/**
 * Milliseconds. Between namespaces of one machine a refusal may come while connect() still holds the socket; the kernel
 * then drops it (tcp_v6_err), and the client is refused at its second try, a second later.
 */
const PATIENCE: Patience = { silence: 400, answer: 2500 };

/** With the patience of an emulated machine where it is one. */
export function iptablesStories(
  backend: 'nft' | 'legacy',
  stories: readonly RealStory[],
  patience: Patience = PATIENCE,
): void {
  describe(`stories with real packets, iptables-${backend}`, () => {
    let lab: Lab;
    let mode: TestedMode;
    before(async () => {
      lab = await storyLab();
      mode = iptablesUnderTest(lab, backend, patience);
    });
    after(() => lab.remove());
    for (const { name, story, family } of stories) it(name, () => sendStory(lab, mode, { story, family }));
  });
}

/** The same. */
export function nftablesStories(stories: readonly RealStory[], patience: Patience = PATIENCE): void {
  describe('stories with real packets, nftables', () => {
    let lab: Lab;
    let mode: ReturnType<typeof nftablesUnderTest>;
    before(async () => {
      lab = await storyLab();
      mode = nftablesUnderTest(lab, patience);
    });
    after(async () => {
      mode.close();
      await lab.remove();
    });
    for (const { name, story, family } of stories) it(name, () => sendStory(lab, mode, { story, family }));
  });
}
