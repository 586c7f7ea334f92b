/** Stories with real packets in iptables mode, both families: those that another kernel could fail. */
import { IPTABLES } from '../../conformance/iptables.ts';
import { iptablesStories } from '../../netns/stories-suite.ts';
import { EMULATED } from '../../netns/story-packets.ts';
import { kernelStories } from '../kernel-stories.ts';

iptablesStories('nft', kernelStories(IPTABLES), EMULATED);
