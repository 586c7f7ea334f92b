/** The answer of a shadow: what it has found of the proxy that it watches, and what a switch to slicewire would change. */
import * as z from 'zod';
import { answer, answeredBy, milliseconds, moment } from './schema-common.ts';
import { statusSchema } from './status.ts';
import { verificationSchema } from './verification.ts';

const latencySchema = z
  .object({ changes: z.number().int(), p50: milliseconds, p99: milliseconds, most: milliseconds, since: moment })
  .nullable()
  .describe('in the last hour; null when there was no change');

const lastingSchema = z.object({
  service: z.string().describe('namespace/name; "" for an address that no Service has'),
  kind: verificationSchema.shape.differences.element.shape.kind,
  since: moment.describe('when the change was received that the rules do not follow, or when the difference was seen'),
  connections: z.number().int().describe('connections that go elsewhere, of those that are followed'),
  example: verificationSchema.shape.differences.element,
});

export const shadowSchema = z.object({
  ...answer('Shadow'),
  by: answeredBy,
  pid: z.number().int(),
  startedAt: moment,
  source: statusSchema.shape.source,
  heard: statusSchema.shape.heard,
  objects: statusSchema.shape.objects,
  problem: z.string().describe('why the rules cannot be compared now; "" when they can'),
  compared: z
    .object({ at: moment, connections: z.number().int(), milliseconds })
    .nullable()
    .describe('the last comparison of all Services; null before the first'),
  differences: z.array(lastingSchema).describe('the first 1000, the oldest first'),
  count: z.number().int().describe('number of all differences by Service and kind'),
  onPurpose: z
    .array(verificationSchema.shape.differences.element)
    .describe('connections that the other proxy leads elsewhere on purpose: a switch would change them; the first 100'),
  onPurposeCount: z.number().int(),
  waiting: z.object({
    services: z.number().int().describe('Services with a change that no commit of the other proxy can have'),
    oldest: moment.nullable(),
  }),
  latency: z.object({
    theirs: latencySchema.describe(
      'of the other proxy: from a change received to the commit of its rules in the kernel',
    ),
    plan: latencySchema.describe(
      'of slicewire: the time that it took to make its rules for the changes that came together, of each change',
    ),
    sight: z
      .enum(['rules compared', 'chains named', 'servers polled', 'not told'])
      .describe(
        'how a commit is known to have a change: the rules then do what the objects ask for; it named the chains of the Service; the virtual servers, which are asked every 100 ms, have its endpoints; it is not known, so that no time is measured',
      ),
    unmeasured: z
      .number()
      .int()
      .describe(
        'changes whose time was not measured: the Service changed again before, or is gone; several commits may have had the change; the rules had it before; or too many came at once',
      ),
  }),
  change: z
    .object({
      at: moment,
      create: z.number().int(),
      update: z.number().int(),
      remove: z.number().int(),
      connections: z
        .number()
        .int()
        .nullable()
        .describe(
          "flows to Services in the kernel's table of connections; null where they cannot be told, as in IPVS mode",
        ),
    })
    .nullable()
    .describe('the plan of a switch: kernel objects that slicewire would write; null before it is made'),
  cost: z.object({
    processor: z.number().nonnegative().describe('seconds of processor time since the start'),
    memory: z.number().int().describe('bytes that are resident'),
  }),
});

export type Shadow = z.infer<typeof shadowSchema>;
export type LastingDifference = z.infer<typeof lastingSchema>;
