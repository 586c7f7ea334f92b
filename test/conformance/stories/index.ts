/** All stories. */
import type { Story } from '../story.ts';
import { clusterIPStories } from './cluster-ip.ts';
import { externalStories } from './external.ts';
import { nodePortStories } from './node-port.ts';

export const STORIES: readonly Story[] = [...clusterIPStories, ...nodePortStories, ...externalStories];
