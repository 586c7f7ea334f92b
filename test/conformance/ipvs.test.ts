import { IPVS } from './ipvs.ts';
import { conformanceSuite } from './suite.ts';

conformanceSuite(IPVS);
