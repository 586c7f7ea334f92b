/** --reset-gone in the modes that need no IPVS in the kernel. */
import { describeGoneEndpoints } from './gone-endpoints-suite.ts';

/** Milliseconds. */
const PERIODS = { hangs: 2000, patience: 60_000 };

for (const mode of ['iptables', 'nftables'] as const) describeGoneEndpoints({ mode, ...PERIODS });
