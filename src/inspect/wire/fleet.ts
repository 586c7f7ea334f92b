/**
 * The fleet's answers beside `/drained`: `/programmed` for one Service or all, and the page's stream `/live`, whose first event has
 * everything and each later one only what changed.
 */
import * as z from 'zod';
import { nodeBehindSchema } from './drained.ts';
import { answer, milliseconds, moment } from './schema-common.ts';

const latencySchema = z
  .object({
    count: z.number().int().describe('changes, each counted once for each node'),
    p50: milliseconds,
    p99: milliseconds,
    most: milliseconds,
    since: moment,
  })
  .nullable()
  .describe(
    'from the moment that the fleet saw a change to the moment that a node had it in its kernel, in the last hour',
  );

/** `/programmed?service=NS/NAME` of the fleet; without service= of the whole cluster. */
export const fleetProgrammedSchema = z.object({
  ...answer('FleetProgrammed'),
  service: z.string().nullable(),
  versions: z.object({ services: z.string(), slices: z.string() }).describe('the newest that the fleet has seen of it'),
  programmed: z.number().int().describe('nodes that have them'),
  behind: z.array(nodeBehindSchema).describe('the first 100 of the others'),
  behindCount: z.number().int(),
  leftOut: z.array(nodeBehindSchema),
  latency: latencySchema,
});

/** `current`: has everything that the fleet has seen for longer than a moment; `left out`: its Node is not ready, and a drain does not wait for it. */
export const nodeStates = ['current', 'behind', 'no answer', 'no agent', 'too old', 'left out'] as const;

const fleetNodeSchema = z.object({
  name: z.string(),
  state: z.enum(nodeStates),
  lag: milliseconds.describe('milliseconds behind; 0 when current'),
  why: z.string(),
  mode: z.string().describe('"" when it is not known'),
  version: z.string(),
  healthy: z.boolean(),
  reasons: z.array(z.string()),
  drift: z.number().int(),
  faults: z.number().int(),
  behind: z.number().int().describe('Services that it refuses or cannot write'),
});

export const fleetLiveSchema = z.object({
  replica: z.string(),
  version: z.string(),
  at: moment,
  startedAt: moment,
  source: z.string().describe('the API server'),
  sentence: z.string().describe('the state of the fleet in one sentence'),
  nodes: z.array(fleetNodeSchema).describe('by name; in a later event those that changed'),
  gone: z.array(z.string()).describe('nodes that are gone; in later events'),
  latency: latencySchema,
  minutes: z
    .array(z.object({ at: moment, count: z.number().int(), p50: milliseconds, p99: milliseconds, most: milliseconds }))
    .describe('of the last hour, by minutes; in later events those that are new or changed'),
  slowest: z
    .array(z.object({ service: z.string(), milliseconds, at: moment, node: z.string().describe('the last node') }))
    .describe('Services whose changes took longest to the last node, in the last hour; at most 20'),
  waiting: z.number().int().describe('queries of /drained that wait'),
  drained: z.object({ yes: z.number().int(), late: z.number().int() }).describe('answers since the start'),
});

export type FleetProgrammed = z.infer<typeof fleetProgrammedSchema>;
export type FleetLive = z.infer<typeof fleetLiveSchema>;
export type FleetNode = z.infer<typeof fleetNodeSchema>;
