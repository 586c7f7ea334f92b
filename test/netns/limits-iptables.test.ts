/** Limits of new connections in iptables mode, with both variants of the tool. */
import { describeRates } from './limits-suite.ts';

describeRates({ mode: 'iptables', backend: 'nft' });
describeRates({ mode: 'iptables', backend: 'legacy' });
