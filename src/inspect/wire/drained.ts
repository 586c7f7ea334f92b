/** The fleet's answer to `/drained`: whether any node still sends new connections to an endpoint. */

import * as z from 'zod';
import { firstLine } from '../../base/cause.ts';
import { countText, listText, millisecondsText } from './format.ts';
import { answer, milliseconds, moment } from './schema-common.ts';

export const nodeBehindSchema = z.object({
  node: z.string(),
  since: moment.nullable().describe('when it came to be behind; null when that is not known'),
  why: z.string(),
});

export const drainedSchema = z.object({
  ...answer('Drained'),
  drained: z.boolean(),
  of: z.string().describe('"Pod shop/web-1", "10.1.2.3", or "endpoints of Service shop/web on Node n1"'),
  services: z.array(z.string()).describe('Services that have it, or had it until a moment ago'),
  why: z.string().describe('why it is not drained, as a sentence; "" otherwise'),
  nodes: z.object({
    programmed: z.number().int().describe('nodes that send nothing new to it'),
    behind: z.array(nodeBehindSchema).describe('the first 20 of the others'),
    behindCount: z.number().int(),
    leftOut: z.array(nodeBehindSchema).describe('the first 20 of the nodes that were not waited for'),
    leftOutCount: z.number().int(),
  }),
  waited: milliseconds,
});

export type Drained = z.infer<typeof drainedSchema>;
export type NodeBehind = z.infer<typeof nodeBehindSchema>;

/** Nodes that the text lists; the others are counted. `-o json` has all that the fleet names. */
const MAX_NODES = 5;

export function drainedText({ drained, of, services, why, nodes, waited }: Drained): string {
  const ofServices = services.length === 0 ? '' : `, of ${listText(services)}`;
  const time = `after ${millisecondsText(waited)}`;
  const head = drained
    ? `${of}${ofServices}: drained ${time}. ${countText(nodes.programmed, 'node')} ${nodes.programmed === 1 ? 'sends' : 'send'} nothing new to it.`
    : `${of}${ofServices}: not drained ${time}: ${why}`;
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
