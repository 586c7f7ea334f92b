/** All conformance stories with real packets through the real kernel, in nftables mode, both families. */
import { NFTABLES } from '../conformance/nftables.ts';
import { nftablesStories } from './stories-suite.ts';
import { realStories } from './story-packets.ts';

nftablesStories(realStories(NFTABLES));
