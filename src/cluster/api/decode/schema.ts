/** Shapes of the API objects that are read: required fields, and the type of each. The decoders beside this file check the values. */
import * as z from 'zod/mini';

/** Each schema of zod takes some kilobytes, so fields of one type share one; those of zod/mini take a tenth of zod's own. */
const text = z.nullish(z.string());
const texts = z.nullish(z.array(z.string()));
const number = z.nullish(z.number());
const flag = z.nullish(z.boolean());

const metadata = z.object({
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
const serviceAddresses = {
  type: text,
  clusterIP: text,
  clusterIPs: texts,
  ipFamilies: texts,
};

/** Fields of a Service's port that both read. */
const servicePort = { name: text, protocol: text, port: z.number() };

/** v1 Service: the fields that the proxy reads. */
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

/** discovery.k8s.io/v1 EndpointSlice: the fields that the proxy reads. */
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

/** v1 Node: the fields that the proxy reads. */
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

/** v1 Node: the fields that the fleet reads. */
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

// Objects that the producers of slices read. Slices and Endpoints keep unknown fields, which other programs wrote.

const containers = z.nullish(
  z.array(
    z.object({
      restartPolicy: text,
      ports: z.nullish(z.array(z.object({ name: text, protocol: text, containerPort: z.number() }))),
    }),
  ),
);

/** v1 Pod: the fields that the producers read. */
export const podSchema = z.object({
  metadata,
  spec: z.prefault(
    z.object({
      nodeName: text,
      hostname: text,
      subdomain: text,
      containers,
      initContainers: containers,
    }),
    {},
  ),
  status: z.nullish(
    z.object({
      phase: text,
      podIP: text,
      podIPs: z.nullish(z.array(z.object({ ip: text }))),
      conditions: z.nullish(z.array(z.object({ type: z.string(), status: z.string(), lastTransitionTime: text }))),
    }),
  ),
});
export type ApiPod = z.infer<typeof podSchema>;

/** v1 Service: the fields that its endpoints depend on. */
export const selectingServiceSchema = z.object({
  metadata,
  spec: z.prefault(
    z.object({
      ...serviceAddresses,
      selector: z.nullish(z.record(z.string(), z.string())),
      publishNotReadyAddresses: flag,
      trafficDistribution: text,
      ports: z.nullish(
        z.array(
          z.object({
            ...servicePort,
            targetPort: z.nullish(z.union([z.number(), z.string()])),
            appProtocol: text,
          }),
        ),
      ),
    }),
    {},
  ),
});
export type ApiSelectingService = z.infer<typeof selectingServiceSchema>;

/** v1 Node: the fields that the shares of the zones depend on. */
export const zonedNodeSchema = z.object({
  metadata,
  status: z.nullish(
    z.object({
      allocatable: z.nullish(z.object({ cpu: z.nullish(z.union([z.string(), z.number()])) })),
      conditions: z.nullish(z.array(z.object({ type: z.string(), status: z.string() }))),
    }),
  ),
});
export type ApiZonedNode = z.infer<typeof zonedNodeSchema>;

const writtenMetadata = z.looseObject({
  ...metadata.shape,
  uid: z.exactOptional(z.string()),
  resourceVersion: z.exactOptional(z.string()),
  managedFields: z.optional(z.unknown()),
  ownerReferences: z.exactOptional(
    z.nullable(z.array(z.looseObject({ apiVersion: z.string(), kind: z.string(), name: z.string(), uid: z.string() }))),
  ),
});

const reference = z.looseObject({
  kind: z.exactOptional(z.string()),
  namespace: z.exactOptional(z.string()),
  name: z.exactOptional(z.string()),
  uid: z.exactOptional(z.string()),
});
const names = z.array(z.looseObject({ name: z.string() }));

/** discovery.k8s.io/v1 EndpointSlice, whole. */
export const sliceObjectSchema = z.looseObject({
  metadata: writtenMetadata,
  addressType: z.string(),
  endpoints: z.exactOptional(
    z.nullable(
      z.array(
        z.looseObject({
          addresses: z.array(z.string()),
          conditions: z.exactOptional(
            z.looseObject({
              ready: z.exactOptional(z.nullable(z.boolean())),
              serving: z.exactOptional(z.nullable(z.boolean())),
              terminating: z.exactOptional(z.nullable(z.boolean())),
            }),
          ),
          hostname: z.exactOptional(z.nullable(z.string())),
          targetRef: z.exactOptional(z.nullable(reference)),
          nodeName: z.exactOptional(z.nullable(z.string())),
          zone: z.exactOptional(z.nullable(z.string())),
          hints: z.exactOptional(
            z.nullable(z.looseObject({ forZones: z.exactOptional(names), forNodes: z.exactOptional(names) })),
          ),
        }),
      ),
    ),
  ),
  ports: z.exactOptional(
    z.nullable(
      z.array(
        z.looseObject({
          name: z.exactOptional(z.nullable(z.string())),
          protocol: z.exactOptional(z.nullable(z.string())),
          port: z.exactOptional(z.nullable(z.number())),
          appProtocol: z.exactOptional(z.nullable(z.string())),
        }),
      ),
    ),
  ),
});

/** A manifest may have `key:` without a value. The API treats it like an absent key. */
function handWritten<S extends z.core.$ZodType>(schema: S) {
  return z.pipe(z.transform(withoutNulls), schema);
}

function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}

const addresses = z.exactOptional(
  z.array(
    handWritten(
      z.looseObject({
        ip: z.string(),
        hostname: z.exactOptional(z.string()),
        nodeName: z.exactOptional(z.string()),
        targetRef: z.exactOptional(handWritten(reference)),
      }),
    ),
  ),
);

/** v1 Endpoints, whole. */
export const endpointsSchema = z.looseObject({
  metadata: writtenMetadata,
  subsets: z.exactOptional(
    z.nullable(
      z.array(
        handWritten(
          z.looseObject({
            addresses,
            notReadyAddresses: addresses,
            ports: z.exactOptional(
              z.array(
                handWritten(
                  z.looseObject({
                    name: z.exactOptional(z.string()),
                    port: z.number(),
                    protocol: z.exactOptional(z.string()),
                    appProtocol: z.exactOptional(z.string()),
                  }),
                ),
              ),
            ),
          }),
        ),
      ),
    ),
  ),
});
