/** Shapes of the API objects that the proxy reads: required fields, and the type of each. The decoders beside this file read the values. */
import { z } from 'zod';

export const metadata = z.object({
  name: z.string().min(1),
  namespace: z.string().optional(),
  uid: z.string().optional(),
  resourceVersion: z.string().optional(),
  creationTimestamp: z.string().nullish(),
  deletionTimestamp: z.string().nullish(),
  labels: z.record(z.string(), z.string()).nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
});

/** Fields of a Service's spec that the proxy and the producers of slices both read. */
export const serviceAddresses = {
  type: z.string().nullish(),
  clusterIP: z.string().nullish(),
  clusterIPs: z.array(z.string()).nullish(),
  ipFamilies: z.array(z.string()).nullish(),
};

/** Fields of a Service's port that both read. */
export const servicePort = { name: z.string().nullish(), protocol: z.string().nullish(), port: z.number() };

/** v1 Service, as far as the proxy reads it. */
export const serviceSchema = z.object({
  metadata,
  spec: z
    .object({
      ...serviceAddresses,
      externalIPs: z.array(z.string()).nullish(),
      loadBalancerSourceRanges: z.array(z.string()).nullish(),
      sessionAffinity: z.string().nullish(),
      sessionAffinityConfig: z
        .object({ clientIP: z.object({ timeoutSeconds: z.number().nullish() }).nullish() })
        .nullish(),
      internalTrafficPolicy: z.string().nullish(),
      externalTrafficPolicy: z.string().nullish(),
      healthCheckNodePort: z.number().nullish(),
      ports: z.array(z.object({ ...servicePort, nodePort: z.number().nullish() })).nullish(),
    })
    .prefault({}),
  status: z
    .object({
      loadBalancer: z
        .object({
          ingress: z
            .array(z.object({ ip: z.string().nullish(), hostname: z.string().nullish(), ipMode: z.string().nullish() }))
            .nullish(),
        })
        .nullish(),
    })
    .nullish(),
});
export type ApiService = z.infer<typeof serviceSchema>;

const hints = z.object({
  forZones: z.array(z.object({ name: z.string() })).nullish(),
  forNodes: z.array(z.object({ name: z.string() })).nullish(),
});

/** discovery.k8s.io/v1 EndpointSlice, as far as it is used. */
export const sliceSchema = z.object({
  metadata,
  addressType: z.string(),
  ports: z
    .array(
      z.object({
        name: z.string().nullish(),
        protocol: z.string().nullish(),
        port: z.number().nullish(),
      }),
    )
    .nullish(),
  endpoints: z
    .array(
      z.object({
        addresses: z.array(z.string()).nullish(),
        conditions: z
          .object({
            ready: z.boolean().nullish(),
            serving: z.boolean().nullish(),
            terminating: z.boolean().nullish(),
          })
          .nullish(),
        nodeName: z.string().nullish(),
        zone: z.string().nullish(),
        hints: hints.nullish(),
      }),
    )
    .nullish(),
});
export type ApiSlice = z.infer<typeof sliceSchema>;

/** v1 Node, as far as it is used. */
export const nodeSchema = z.object({
  metadata,
  spec: z
    .object({
      podCIDR: z.string().optional(),
      podCIDRs: z.array(z.string()).nullish(),
      taints: z.array(z.object({ key: z.string().nullish() })).nullish(),
    })
    .nullish(),
  status: z.object({ addresses: z.array(z.object({ type: z.string(), address: z.string() })).nullish() }).nullish(),
});
export const serviceCidrSchema = z.object({
  metadata,
  spec: z.object({ cidrs: z.array(z.string()).nullish() }).nullish(),
});

export type ApiNode = z.infer<typeof nodeSchema>;
