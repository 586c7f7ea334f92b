/** Stories with real packets in nftables mode, both families, on this kernel: those that another kernel could fail. */
import { NFTABLES } from '../conformance/nftables.ts';
import { nftablesStories } from '../netns/stories-suite.ts';
import { EMULATED, realStories } from '../netns/story-packets.ts';

nftablesStories(realStories(NFTABLES), EMULATED);
