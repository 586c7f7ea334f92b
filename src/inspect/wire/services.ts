/** The answer of `/services`: a window of the sorted list of Services that fit a search. */
import * as z from 'zod';
import { answer, answeredBy } from './schema-common.ts';

/** The state of a Service, the worst first. */
export const SERVICE_STATES = ['refused', 'fault', 'waiting', 'no endpoints', 'served', 'not proxied'] as const;

export const serviceRowSchema = z.object({
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
