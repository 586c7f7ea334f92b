/** A third of the stories with real packets, in iptables mode, both families: `npm test` has them. */
import { IPTABLES } from '../conformance/iptables.ts';
import { chosenStories } from './chosen-stories.ts';
import { iptablesStories } from './stories-suite.ts';

iptablesStories('nft', chosenStories(IPTABLES));
