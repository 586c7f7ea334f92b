/** The answer of `slicewire explain`. */
import * as z from 'zod';
import { answer, answeredBy, family, moment, protocol } from './schema-common.ts';

/** A step of a packet's way through the kernel. */
export const stepSchema = z.object({
  table: z.string().describe('table of iptables, the table of nftables, "ipvs", or "kernel"'),
  chain: z.string().describe('chain, set, map or virtual server'),
  rule: z.string().describe('the rule as the kernel lists it, the element, or the destination'),
  does: z.string().describe('the effect on the packet in a few words'),
  object: z.string().describe('the Service that the rule stands for; "" when Services share it'),
});

export const endpointSchema = z.object({
  endpoint: z.string().describe('address:port'),
  share: z.number().min(0).max(1).describe('the share of new connections'),
  masqueraded: z.boolean().describe('the endpoint sees an address of this node instead of the sender'),
  why: z.string().describe('why it is masqueraded, or why not'),
  steps: z.array(stepSchema).describe('the steps of this endpoint alone; only when asked for'),
});

export const reasonSchema = z.object({
  object: z.string().describe('kind and name, such as "Service shop/web"'),
  field: z.string().describe('path of the field; "" for the whole object'),
  value: z.string(),
  says: z.string().describe('what follows from it, as a sentence'),
});

export const sliceSchema = z.object({
  slice: z.string().describe('namespace/name of the EndpointSlice'),
  endpoints: z.array(
    z.object({
      endpoint: z.string(),
      node: z.string(),
      used: z.boolean(),
      use: z
        .enum([
          ...(['ready', 'draining', 'replaced by ready ones', 'terminating', 'not ready'] as const),
          ...(['hinted for other nodes', 'hinted for other zones', 'node does not answer'] as const),
          ...(['not on this node', 'duplicate', 'no such port', 'set aside'] as const),
        ])
        .describe('the reason in short, for programs'),
      why: z.string().describe('why it is used, or why not'),
    }),
  ),
});

export const explanationSchema = z.object({
  ...answer('Explanation'),
  by: answeredBy,
  from: z.object({
    text: z.string().describe('as it was asked'),
    what: z.enum(['pod', 'node', 'outside']),
    address: z.string(),
  }),
  to: z.object({
    text: z.string().describe('as it was asked'),
    address: z.string(),
    port: z.number().int(),
    protocol,
    family,
  }),
  differs: z.array(z.string()).describe('where the kernel differs from the desired state, as sentences; usually empty'),
  verdict: z.object({
    kind: z.enum(['balanced', 'refused', 'dropped', 'not a Service', 'local']),
    sentence: z.string(),
    service: z.string().describe('namespace/name[:port]; "" when no Service has the destination'),
    endpoints: z.array(endpointSchema),
    sticky: z
      .object({ endpoint: z.string(), seconds: z.number().describe('for how long, when nothing more is sent') })
      .nullable(),
  }),
  reasons: z.array(reasonSchema),
  slices: z.array(sliceSchema),
  notes: z.array(z.string()).describe('near misses, and what was not looked at'),
  steps: z.array(stepSchema).describe('the steps that all packets share; only when asked for'),
  seen: z
    .object({
      packets: z.array(z.object({ at: moment, steps: z.array(stepSchema) })),
      connections: z.array(z.string()),
      sentence: z.string(),
    })
    .nullable()
    .describe('packets traced with --live'),
});

export type Explanation = z.infer<typeof explanationSchema>;
export type ExplainedStep = z.infer<typeof stepSchema>;
export type ExplainedEndpoint = z.infer<typeof endpointSchema>;
export type Reason = z.infer<typeof reasonSchema>;
export type ExplainedSlice = z.infer<typeof sliceSchema>;
