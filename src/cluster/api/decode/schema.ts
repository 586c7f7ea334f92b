/** Shapes of the API objects that the proxy reads: required fields, and the type of each. The decoders beside this file read the values. */
import * as z from 'zod/mini';

/** Each schema of zod takes some kilobytes, so fields of one type share one; those of zod/mini take a tenth of zod's own. */
export const text = z.nullish(z.string());
export const texts = z.nullish(z.array(z.string()));
export const number = z.nullish(z.number());
export const flag = z.nullish(z.boolean());

export const metadata = z.object({
  name: z.string().check(z.minLength(1)),
  namespace: z.optional(z.string()),
  uid: z.optional(z.string()),
  resourceVersion: z.optional(z.string()),
  creationTimestamp: text,
  deletionTimestamp: text,
  labels: z.nullish(z.record(z.string(), z.string())),
  annotations: z.nullish(z.record(z.string(), z.string())),
});

/** Fields of a Service's spec that the proxy and the producers of slices both read. */
export const serviceAddresses = {
  type: text,
  clusterIP: text,
  clusterIPs: texts,
  ipFamilies: texts,
};

/** Fields of a Service's port that both read. */
export const servicePort = { name: text, protocol: text, port: z.number() };

/** v1 Service, as far as the proxy reads it. */
export const serviceSchema = z.object({
  metadata,
  spec: z.prefault(
    z.object({
      ...serviceAddresses,
      externalIPs: texts,
      loadBalancerSourceRanges: texts,
      sessionAffinity: text,
      sessionAffinityConfig: z.nullish(z.object({ clientIP: z.nullish(z.object({ timeoutSeconds: number })) })),
      internalTrafficPolicy: text,
      externalTrafficPolicy: text,
      healthCheckNodePort: number,
      ports: z.nullish(z.array(z.object({ ...servicePort, nodePort: number }))),
    }),
    {},
  ),
  status: z.nullish(
    z.object({
      loadBalancer: z.nullish(
        z.object({
          ingress: z.nullish(z.array(z.object({ ip: text, hostname: text, ipMode: text }))),
        }),
      ),
    }),
  ),
});
export type ApiService = z.infer<typeof serviceSchema>;

const hints = z.object({
  forZones: z.nullish(z.array(z.object({ name: z.string() }))),
  forNodes: z.nullish(z.array(z.object({ name: z.string() }))),
});

/** discovery.k8s.io/v1 EndpointSlice, as far as it is used. */
export const sliceSchema = z.object({
  metadata,
  addressType: z.string(),
  ports: z.nullish(
    z.array(
      z.object({
        name: text,
        protocol: text,
        port: number,
      }),
    ),
  ),
  endpoints: z.nullish(
    z.array(
      z.object({
        addresses: texts,
        conditions: z.nullish(
          z.object({
            ready: flag,
            serving: flag,
            terminating: flag,
          }),
        ),
        nodeName: text,
        zone: text,
        hints: z.nullish(hints),
      }),
    ),
  ),
});
export type ApiSlice = z.infer<typeof sliceSchema>;

/** v1 Node, as far as it is used. */
export const nodeSchema = z.object({
  metadata,
  spec: z.nullish(
    z.object({
      podCIDR: z.optional(z.string()),
      podCIDRs: texts,
      taints: z.nullish(z.array(z.object({ key: text }))),
    }),
  ),
  status: z.nullish(z.object({ addresses: z.nullish(z.array(z.object({ type: z.string(), address: z.string() }))) })),
});

/** v1 Node, as far as the fleet uses it. */
export const fleetNodeSchema = z.object({
  metadata,
  spec: z.nullish(z.object({ podCIDR: z.optional(z.string()), podCIDRs: texts })),
  status: z.nullish(
    z.object({
      addresses: z.nullish(z.array(z.object({ type: z.string(), address: z.string() }))),
      conditions: z.nullish(z.array(z.object({ type: z.string(), status: z.string(), lastTransitionTime: text }))),
    }),
  ),
});

export const serviceCidrSchema = z.object({
  metadata,
  spec: z.nullish(z.object({ cidrs: texts })),
});

export type ApiNode = z.infer<typeof nodeSchema>;
