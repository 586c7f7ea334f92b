/** --reset-gone in IPVS mode, whose own table of connections answers for endpoints that are gone (`net.ipv4.vs.expire_nodest_conn`). */
import { describeGoneEndpoints } from '../netns/gone-endpoints-suite.ts';

/** Milliseconds: the machine may be emulated. */
describeGoneEndpoints({ mode: 'ipvs', hangs: 20_000, patience: 300_000 });
