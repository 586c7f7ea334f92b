/**
 * Tells stories by a real kube-proxy in one mode, here or in the virtual machine, and prints each result:
 * `inside.ts KUBE_PROXY MODE all|chosen|ID,ID… FAMILY…`.
 */
import type { Family } from '../../src/base/address.ts';
import type { ModeName } from '../../src/proxy/model/modes.ts';
import { chosenStories } from '../netns/chosen-stories.ts';
import { EMULATED, type RealStory } from '../netns/story-packets.ts';
import { MODES_UNDER_TEST, rivalStories, StoryNode, type StoryResult } from './kube-proxy-stories.ts';
import { MARK } from './report.ts';

const [file = '', mode = 'iptables', which = 'all', ...families] = process.argv.slice(2) as [
  string?,
  ModeName?,
  string?,
  ...Family[],
];
const isEmulated = mode === 'ipvs';
const chosen = new Set(chosenStories(MODES_UNDER_TEST[mode]).map(({ name }) => name));
const ids = which.split(',');
const isMeant = ({ story, name, family }: RealStory) =>
  families.includes(family) && (which === 'all' || (which === 'chosen' ? chosen.has(name) : ids.includes(story.id)));
const stories = rivalStories(mode).filter(isMeant);
if (stories.length === 0) throw new Error(`no story that ${mode} mode can tell has one of these ids: ${which}`);
const node = await StoryNode.create({
  ...{ file, mode, patience: isEmulated ? EMULATED : { silence: 400, answer: 2500 } },
  ...(isEmulated ? { sync: 20_000, requests: 6 } : { sync: 1500, requests: 20 }),
});
// An early end leaves no namespaces behind.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void node.remove().then(() => process.exit(1)));
try {
  for (const story of stories) {
    const result: StoryResult = await node.tell(story);
    process.stdout.write(`${MARK}${JSON.stringify(result)}\n`);
  }
} finally {
  await node.remove();
}
