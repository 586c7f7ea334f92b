import { NFTABLES } from './nftables.ts';
import { conformanceSuite } from './suite.ts';

conformanceSuite(NFTABLES);
