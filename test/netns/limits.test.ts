/** Limits of connections in iptables and nftables mode. */
import { describeConnectionLimits, describeRates } from './limits-suite.ts';

describeRates({ mode: 'nftables' });
describeConnectionLimits({ mode: 'nftables' });
describeRates({ mode: 'iptables', backend: 'nft' });
describeRates({ mode: 'iptables', backend: 'legacy' });
