/** The answer of `slicewire history`. */
import * as z from 'zod';
import type { Drift } from '../../proxy/model/drift.ts';
import { answer, answeredBy, milliseconds, moment } from './schema-common.ts';

export const changeSchema = z.object({
  number: z.number().int().describe('grows by one with each change'),
  at: moment.describe('when the agent received it'),
  object: z.string().describe('kind and name, such as "EndpointSlice shop/web-x7k2p"'),
  service: z.string().describe('namespace/name of the Service that it touches; "" for none'),
  resourceVersion: z.string().describe('"" when the source has none'),
  what: z.array(z.string()).describe('the changes, as phrases'),
  sync: z
    .number()
    .int()
    .nullable()
    .describe(
      'the sync that wrote it; null while it is not written, and for what was in the kernel before a recording began',
    ),
  inKernelAt: moment.nullable().describe('when the kernel had it; null while it is not written'),
  milliseconds: milliseconds.nullable().describe('from received to in the kernel; null where no sync is named'),
});

const difference = z
  .discriminatedUnion('kind', [
    z.object({ kind: z.literal('changed') }),
    z.object({ kind: z.literal('gone') }),
    z.object({ kind: z.literal('foreign').describe('the agent did not write it') }),
    z.object({
      kind: z.literal('rules').describe('of a chain; both 0 when their order or number changed'),
      gone: z.number().int(),
      added: z.number().int(),
    }),
  ])
  .describe('how it differs from what the agent left');

/** A `Drift`. */
export const driftSchema = z.object({
  family: z.enum(['IPv4', 'IPv6', '']).describe('"" in a recording that has the text alone'),
  kind: z
    .enum(['chain', 'jump', 'order', 'element', 'server', 'destination', 'entry', 'address', 'text'])
    .describe(
      '"order" when the rules of a chain are in another order; "text" when a recording has the text alone, as the name',
    ),
  table: z.string().describe('the table of iptables, or the map or set of nftables; "" for other kinds'),
  name: z.string().describe('the chain, or the object as the tools of the kernel print it'),
  target: z.string().describe('the chain that a jump leads to; "" for other kinds'),
  difference,
}) satisfies z.ZodType<Drift>;

export const syncSchema = z.object({
  number: z.number().int(),
  at: moment.describe('when it began'),
  trigger: z
    .string()
    .describe('why it ran: "changes", "start", "resync", "another program wrote", "retry", "removals were waiting"'),
  by: z.string().describe('the program that wrote before, where that is the reason; "" when it is not known'),
  outcome: z.enum(['complete', 'partial', 'failed']),
  changes: z.number().int().describe('changes of objects that it took'),
  services: z.array(z.string()).describe('the first Services that it took'),
  steps: z.number().int().describe('writes to the kernel'),
  milliseconds: z.object({ all: milliseconds, reading: milliseconds, desiring: milliseconds, writing: milliseconds }),
  drift: z.array(driftSchema).describe('the first kernel objects that another program had changed'),
  failed: z.array(z.string()).describe('the first writes that failed, and why'),
});

export const historySchema = z.object({
  ...answer('History'),
  by: answeredBy,
  service: z.string().describe('the Service that was asked for; "" for all'),
  reachesBackTo: moment.describe('the moment where the record begins'),
  changes: z.array(changeSchema),
  syncs: z.array(syncSchema),
  omitted: z.number().int().describe('older changes that fit the query and are not listed'),
  stood: z
    .array(z.object({ object: z.string(), lines: z.array(z.string()) }))
    .describe('with a moment: the Service and its slices as they were in the kernel then'),
});

export type History = z.infer<typeof historySchema>;
export type RecordedChange = z.infer<typeof changeSchema>;
export type RecordedSync = z.infer<typeof syncSchema>;
