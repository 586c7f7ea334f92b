/** The answer of `slicewire exposure`: what this node answers from outside the cluster, and to whom. */
import * as z from 'zod';
import { answer, answeredBy, family } from './schema-common.ts';

const exposedSchema = z.object({
  kind: z.enum(['node port', 'external IP', 'load balancer', 'health check port']),
  address: z.string().describe('an address, or "" for every address that serves node ports'),
  port: z.number().int(),
  protocol: z.enum(['TCP', 'UDP', 'SCTP']),
  family,
  service: z.string().describe('namespace/name[:port]'),
  to: z
    .array(z.string())
    .describe('the ranges that may use it; empty: everybody; "nobody" where no range is of its family'),
  answers: z.enum(['endpoints', 'refuses', 'drops', 'health']).describe('what a client outside gets now'),
  problems: z.array(z.string()).describe('what looks wrong, as sentences'),
});

export const exposureSchema = z.object({
  ...answer('Exposure'),
  by: answeredBy,
  nodePortAddresses: z.array(z.string()).describe('addresses of this node that serve node ports'),
  exposed: z.array(exposedSchema).describe('sorted: those with problems first'),
  omitted: z.number().int().describe('entries that are left out of a very long list, those without a problem first'),
  problems: z.array(z.string()).describe('problems of the node as a whole, as sentences'),
});

export type Exposure = z.infer<typeof exposureSchema>;
export type Exposed = z.infer<typeof exposedSchema>;
