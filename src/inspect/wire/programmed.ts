/**
 * The versions of objects that an agent has in its kernel: the answer of `/programmed`, and the events of the stream by which the
 * fleet follows it. resourceVersions of a kind can be compared (KEP-5504).
 *
 * A mark is a resourceVersion: all changes of a kind up to it are in the kernel, but for those of the Services that `behind` names.
 */

import * as z from 'zod';
import { MODE_NAMES } from '../../proxy/model/modes.ts';
import { answer, answeredBy, family, milliseconds, moment } from './schema-common.ts';

const version = z.string().describe('a resourceVersion; "" for none');

export const marksSchema = z.object({
  services: version.describe('all changes of Services up to this version are in the kernel; "" for none yet'),
  slices: version.describe('the same of EndpointSlices'),
});

const stuckSchema = z
  .object({ why: z.string(), since: moment })
  .nullable()
  .describe('why changes wait because nothing can be written; null when they do not');

const behindSchema = z.object({
  service: z.string(),
  why: z.string().describe("such as the kernel's words when it refused the Service"),
  since: moment,
});

const unservedSchema = z.object({ family, why: z.string() });

const versionSchema = z.object({
  name: z.string(),
  received: version.describe('the newest that the agent knows of'),
  programmed: version.describe('the one that is in the kernel'),
  at: moment
    .nullable()
    .describe('when at the latest it came into the kernel; null when that was before the agent remembers'),
});

/** `/programmed` */
export const programmedSchema = z.object({
  ...answer('Programmed'),
  by: answeredBy,
  marks: marksSchema,
  at: moment.nullable().describe('when the marks came into the kernel; null before that'),
  stuck: stuckSchema,
  behind: z.array(behindSchema).describe('Services of which older versions are in the kernel; at most 1,000'),
  unserved: z.array(unservedSchema).describe('families of which nothing is written'),
  reached: z
    .boolean()
    .nullable()
    .describe('with version=: whether the slice (or Service) has it in the kernel; null without'),
  why: z.string().describe('why it has not; "" otherwise'),
  service: versionSchema.nullable().describe('of service='),
  slices: z.array(versionSchema).describe('of service= or slice='),
});

export type Programmed = z.infer<typeof programmedSchema>;

/**
 * An event of the stream `/programmed/live`. The first one has every field; a later one only those that changed. Times are ages
 * (milliseconds before the event was sent), because clocks of nodes differ.
 */
export const programmedEventSchema = z.object({
  agent: z
    .object({
      node: z.string(),
      mode: z.enum(MODE_NAMES),
      version: z.string(),
      up: milliseconds.describe('since the agent started'),
    })
    .optional(),
  marks: z
    .array(z.tuple([version, version, milliseconds]))
    .optional()
    .describe(
      '[Services, EndpointSlices, age] of each sync since the last event, the latest last; the first event has one',
    ),
  stuck: z.object({ why: z.string(), age: milliseconds }).nullable().optional(),
  behind: z
    .object({
      set: z.array(z.object({ service: z.string(), why: z.string(), age: milliseconds })),
      gone: z.array(z.string()),
    })
    .optional()
    .describe('Services that came to be behind, and those that no longer are'),
  unserved: z.array(unservedSchema).optional(),
  health: z.object({ healthy: z.boolean(), reasons: z.array(z.string()) }).optional(),
  counts: z
    .object({
      faults: z.number().int().describe('of objects, now'),
      drift: z.number().int().describe('syncs that found changes by other programs, since the agent started'),
      suspects: z.array(z.string()).describe('Nodes whose endpoints --failover=confirm keeps out of new connections'),
    })
    .optional(),
});

export type ProgrammedEvent = z.infer<typeof programmedEventSchema>;
