/** The fleet's answer to `/drained`: whether any node still sends new connections to an endpoint. */
import * as z from 'zod';
import { answer, milliseconds, moment } from './schema-common.ts';

export const nodeBehindSchema = z.object({
  node: z.string(),
  since: moment.nullable().describe('since when it is behind; null: not known'),
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
