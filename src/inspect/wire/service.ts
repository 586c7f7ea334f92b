/** The answer of `/service`: all that the agent knows of one Service. */

import * as z from 'zod';
import { sliceSchema } from './explanation.ts';
import { faultSchema } from './fault.ts';
import { answer, answeredBy, family, protocol } from './schema-common.ts';
import { serviceRowSchema } from './services.ts';

const frontendSchema = z.object({
  port: z
    .string()
    .describe('the name of the port; its number when it has none; "" for a health check, which all ports share'),
  kind: z.enum(['cluster IP', 'external IP', 'load balancer', 'node port', 'health check']),
  address: z.string().describe('"" for a node port: all addresses that serve node ports'),
  number: z.number().int(),
  protocol,
  family,
  policy: z.enum(['Cluster', 'Local']).describe('which endpoints it uses'),
  sources: z
    .array(z.string())
    .describe('loadBalancerSourceRanges that restrict it; empty: everybody; "nobody" where none is of its family'),
  endpoints: z.number().int().describe('endpoints that it uses on this node'),
  connections: z
    .object({ total: z.number().int(), bytes: z.number().int().nullable() })
    .nullable()
    .describe('since the kernel has it; null where they are not counted, or not yet'),
});

export const serviceSchema = z.object({
  ...answer('Service'),
  by: answeredBy,
  row: serviceRowSchema,
  frontends: z.array(frontendSchema),
  slices: z.array(sliceSchema).describe('every endpoint, and why this node uses it or not'),
  affinitySeconds: z.number().int().nullable().describe('of session affinity by client address; null: none'),
  rules: z
    .array(z.object({ where: z.string().describe('chain, map, set or server'), lines: z.array(z.string()) }))
    .describe('what the kernel has for it, as the agent believes; the first of them'),
  rulesOmitted: z.number().int().describe('lines that are left out of `rules`'),
  faults: z.array(faultSchema),
});

export type ServiceAnswer = z.infer<typeof serviceSchema>;
export type FrontendAnswer = z.infer<typeof frontendSchema>;
export type KernelPlace = ServiceAnswer['rules'][number];
