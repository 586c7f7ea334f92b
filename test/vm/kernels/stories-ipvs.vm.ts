/** Stories with real packets in IPVS mode, both families: those that another kernel could fail. */
import { IPVS } from '../../conformance/ipvs.ts';
import { ipvsStories } from '../ipvs-stories.ts';
import { kernelStories } from '../kernel-stories.ts';

ipvsStories(kernelStories(IPVS));
