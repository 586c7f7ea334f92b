/** A third of the stories with real packets through IPVS, both families: together they cover every row that all of them cover. */
import { IPVS } from '../conformance/ipvs.ts';
import { chosenStories } from '../netns/chosen-stories.ts';
import { ipvsStories } from './ipvs-stories.ts';

ipvsStories(chosenStories(IPVS));
