/** Limits of connections in nftables mode. */
import { describeConnectionLimits, describeRates } from './limits-suite.ts';

describeRates({ mode: 'nftables' });
describeConnectionLimits({ mode: 'nftables' });
