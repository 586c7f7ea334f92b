/** A third of the stories with real packets, in nftables mode, both families: `npm test` has them. */
import { NFTABLES } from '../conformance/nftables.ts';
import { chosenStories } from './chosen-stories.ts';
import { nftablesStories } from './stories-suite.ts';

nftablesStories(chosenStories(NFTABLES));
