/** The answer of `/drained` as text for people. Pure. */
import { firstLine } from '../../base/cause.ts';
import type { Drained, NodeBehind } from './drained.ts';
import { countText, listText, millisecondsText } from './format.ts';

/** Nodes that the text lists; the others are counted. `-o json` has all that the fleet names. */
const MAX_NODES = 5;

export function drainedText({ drained, of, services, why, nodes, waited }: Drained): string {
  const from = services.length === 0 ? '' : `, of ${listText(services)}`;
  const time = `after ${millisecondsText(waited)}`;
  const head = drained
    ? `${of}${from}: drained ${time}. ${countText(nodes.programmed, 'node')} ${nodes.programmed === 1 ? 'sends' : 'send'} nothing new to it.`
    : `${of}${from}: not drained ${time}: ${why}`;
  return [
    head,
    ...nodeLines('behind', nodes.behind, nodes.behindCount),
    ...nodeLines('not waited for', nodes.leftOut, nodes.leftOutCount),
  ].join('\n');
}

function nodeLines(title: string, nodes: readonly NodeBehind[], count: number): string[] {
  const lines = nodes.slice(0, MAX_NODES).map(({ node, why }) => `  ${node}: ${firstLine(why)}`);
  const more = count - lines.length;
  if (count === 0) return [];
  return [`${countText(count, 'node')} ${title}:`, ...lines, ...(more > 0 ? [`  and ${more} more`] : [])];
}
