/**
 * The messages of `/live`, a stream of server-sent events for the live page. The first message has everything; each later one has only
 * the fields that changed, with `syncs` and `latency` reduced to entries that are new or changed.
 */
import * as z from 'zod';
import { syncSchema } from './history.ts';
import { answeredBy, milliseconds, moment } from './schema-common.ts';
import { statusSchema } from './status.ts';

/** Latency of the changes that came into the kernel in one slot of time. */
const latencySlotSchema = z.object({
  at: moment.describe('the beginning of the slot'),
  changes: z.number().int(),
  p50: milliseconds,
  p99: milliseconds,
  most: milliseconds,
});

export const liveSchema = z.object({
  by: answeredBy,
  startedAt: moment.nullable(),
  source: z.string(),
  health: statusSchema.shape.health,
  sentence: z
    .string()
    .describe('the health of the agent in one sentence, without its end: the page adds the last change'),
  objects: statusSchema.shape.objects,
  lastChange: z
    .object({ at: moment, milliseconds, object: z.string().describe('"Service shop/web", or "Node"') })
    .nullable()
    .describe('the last change that came into the kernel, and how long it took'),
  latency: z
    .array(latencySlotSchema)
    .describe('of the last 15 minutes, by slots of 15 s; slots without a change are left out'),
  syncs: z.array(syncSchema).describe('of the last 15 minutes, at most 200, the latest last'),
  heard: statusSchema.shape.heard,
  faults: statusSchema.shape.faults.describe('the first 100'),
  refused: statusSchema.shape.refused.describe('the first 100'),
  drift: statusSchema.shape.drift,
  revision: z.number().int().describe('grows whenever the list of Services, or the state of one, may have changed'),
});

export type Live = z.infer<typeof liveSchema>;
export type LiveDelta = Partial<Live>;
export type LatencySlot = z.infer<typeof latencySlotSchema>;
