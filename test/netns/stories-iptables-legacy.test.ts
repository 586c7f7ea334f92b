/** All conformance stories with real packets through the real kernel, with iptables-legacy, both families. */
import { IPTABLES } from '../conformance/iptables.ts';
import { iptablesStories } from './stories-suite.ts';
import { realStories } from './story-packets.ts';

iptablesStories('legacy', realStories(IPTABLES));
