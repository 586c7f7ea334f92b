/** Every story with real packets through IPVS, both families (`npm run test:stories`). */
import { IPVS } from '../conformance/ipvs.ts';
import { realStories } from '../netns/story-packets.ts';
import { ipvsStories } from './ipvs-stories.ts';

ipvsStories(realStories(IPVS));
