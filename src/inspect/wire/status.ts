/** The answer of `slicewire status`. */
import * as z from 'zod';
import { driftSchema, syncSchema } from './history.ts';
import { marksSchema } from './programmed.ts';
import { answer, answeredBy, faultSchema, milliseconds, moment } from './schema-common.ts';

export const statusSchema = z.object({
  ...answer('Status'),
  by: answeredBy,
  pid: z.number().int(),
  startedAt: moment.nullable(),
  families: z.array(z.string()),
  source: z.string().describe('the API server, or the folder of manifests'),
  health: z.object({
    live: z.boolean(),
    ready: z.boolean(),
    healthy: z.boolean(),
    reasons: z.array(z.string()).describe('why it is not healthy, ready or live; notes when it is'),
  }),
  heard: z
    .array(
      z.object({
        of: z.string(),
        at: moment.nullable().describe('null before the first message'),
        lost: z
          .object({ since: moment, cause: z.string() })
          .nullable()
          .describe('why it cannot be followed; null when it is followed'),
      }),
    )
    .describe('the last message of the source, for each kind that is followed'),
  programmed: marksSchema.nullable().optional().describe('null when versions are not known, as with manifests'),
  objects: z.object({ services: z.number().int(), slices: z.number().int() }),
  syncs: z.array(syncSchema).describe('the last ten, the latest first'),
  latency: z
    .object({ changes: z.number().int(), p50: milliseconds, p99: milliseconds, most: milliseconds, since: moment })
    .nullable()
    .describe('from a change received to the kernel, in the last hour; null when there was none'),
  faults: z.array(faultSchema),
  refused: z
    .array(z.object({ service: z.string(), cause: z.string().describe('"" when it is not known') }))
    .describe('Services that the kernel refuses'),
  drift: z
    .array(driftSchema.extend({ at: moment, by: z.string().describe('the program; "" when it is not known') }))
    .describe('the last changes by other programs'),
  history: z.object({ reachesBackTo: moment, bytes: z.number().int(), folder: z.string() }).nullable(),
});

export type Status = z.infer<typeof statusSchema>;
