/** The answers of `/services`, a window of the sorted list of Services that fit a search, and of `/service`, one of them in full. */
import * as z from 'zod';
import { sliceSchema } from './explanation.ts';
import { answer, answeredBy, family, faultSchema, protocol } from './schema-common.ts';

/** The state of a Service, the worst first. */
export const SERVICE_STATES = ['refused', 'fault', 'waiting', 'no endpoints', 'served', 'not proxied'] as const;

const serviceRowSchema = z.object({
  service: z.string().describe('namespace/name'),
  type: z.string().describe('ClusterIP, NodePort, LoadBalancer; "" when the Service is set aside'),
  addresses: z.array(z.string()).describe('cluster IPs, external IPs and load-balancer addresses; the first of them'),
  ports: z.array(z.string()).describe('such as "80/TCP" or "80:30080/TCP"; the first of them'),
  endpoints: z.number().int().describe('endpoints that this node uses for at least one port'),
  state: z
    .enum(SERVICE_STATES)
    .describe(
      'refused: the kernel refuses it; fault: an object of it is set aside; waiting: a change is not in the kernel yet; not proxied: without a cluster IP of a family that this node serves',
    ),
  why: z.string().describe('the reason of the state, as a sentence; "" for served'),
});

/** `/services` */
export const servicesSchema = z.object({
  ...answer('Services'),
  by: answeredBy,
  search: z.string().describe('as it was asked; "" for all'),
  total: z.number().int().describe('Services that fit the search'),
  offset: z.number().int().describe('the number of the first row among them'),
  rows: z.array(serviceRowSchema),
});

export type Services = z.infer<typeof servicesSchema>;
export type ServiceRow = z.infer<typeof serviceRowSchema>;
export type ServiceState = ServiceRow['state'];

const frontendSchema = z.object({
  port: z
    .string()
    .describe('the name of the port; its number when it has none; "" for a health check, which all ports share'),
  kind: z.enum(['cluster IP', 'external IP', 'load balancer', 'node port', 'health check']),
  address: z.string().describe('"" for a node port, which all addresses that serve node ports have'),
  number: z.number().int(),
  protocol,
  family,
  policy: z.enum(['Cluster', 'Local']).describe('which endpoints it uses'),
  sources: z
    .array(z.string())
    .describe('loadBalancerSourceRanges that restrict it; empty for everybody, "nobody" where none is of its family'),
  endpoints: z.number().int().describe('endpoints that it uses on this node'),
  connections: z
    .object({ total: z.number().int(), bytes: z.number().int().nullable() })
    .nullable()
    .describe('since the kernel has it; null where they are not counted, or not yet'),
});

/** `/service` */
export const serviceSchema = z.object({
  ...answer('Service'),
  by: answeredBy,
  row: serviceRowSchema,
  frontends: z.array(frontendSchema),
  slices: z.array(sliceSchema).describe('every endpoint, and why this node uses it or not'),
  affinitySeconds: z.number().int().nullable().describe('of session affinity by client address; null for none'),
  annotations: z.array(z.string()).describe('those of slicewire, such as `slicewire.dev/max-connections: 1000`'),
  rules: z
    .array(z.object({ where: z.string().describe('chain, map, set or server'), lines: z.array(z.string()) }))
    .describe('the first lines that the kernel has for it, as the agent believes'),
  rulesOmitted: z.number().int().describe('lines that are left out of `rules`'),
  faults: z.array(faultSchema),
});

export type ServiceAnswer = z.infer<typeof serviceSchema>;
export type FrontendAnswer = z.infer<typeof frontendSchema>;
export type KernelPlace = ServiceAnswer['rules'][number];
