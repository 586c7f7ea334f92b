/** The stories in iptables mode. */
import { IPTABLES } from './iptables.ts';
import { conformanceSuite } from './suite.ts';

conformanceSuite(IPTABLES);
