/** Stories with real packets in nftables mode, both families, on this kernel: those that another kernel could fail. */
import { nftablesStories } from '../netns/stories-suite.ts';
import { EMULATED } from '../netns/story-packets.ts';
import { kernelStories } from './kernel-stories.ts';

nftablesStories(kernelStories(), EMULATED);
