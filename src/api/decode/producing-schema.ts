/** Shapes of the API objects that producers of slices read. Slices and Endpoints keep unknown fields: other programs wrote them. */
import { z } from 'zod';
import { metadata, serviceAddresses, servicePort } from './schema.ts';

const containers = z
  .array(
    z.object({
      restartPolicy: z.string().nullish(),
      ports: z
        .array(z.object({ name: z.string().nullish(), protocol: z.string().nullish(), containerPort: z.number() }))
        .nullish(),
    }),
  )
  .nullish();

/** v1 Pod, as far as it is used. */
export const podSchema = z.object({
  metadata,
  spec: z
    .object({
      nodeName: z.string().nullish(),
      hostname: z.string().nullish(),
      subdomain: z.string().nullish(),
      containers,
      initContainers: containers,
    })
    .prefault({}),
  status: z
    .object({
      phase: z.string().nullish(),
      podIP: z.string().nullish(),
      podIPs: z.array(z.object({ ip: z.string().nullish() })).nullish(),
      conditions: z
        .array(z.object({ type: z.string(), status: z.string(), lastTransitionTime: z.string().nullish() }))
        .nullish(),
    })
    .nullish(),
});
export type ApiPod = z.infer<typeof podSchema>;

/** v1 Service, as far as its endpoints are concerned. */
export const selectingServiceSchema = z.object({
  metadata,
  spec: z
    .object({
      ...serviceAddresses,
      selector: z.record(z.string(), z.string()).nullish(),
      publishNotReadyAddresses: z.boolean().nullish(),
      trafficDistribution: z.string().nullish(),
      ports: z
        .array(
          z.object({
            ...servicePort,
            targetPort: z.union([z.number(), z.string()]).nullish(),
            appProtocol: z.string().nullish(),
          }),
        )
        .nullish(),
    })
    .prefault({}),
});
export type ApiSelectingService = z.infer<typeof selectingServiceSchema>;

/** v1 Node, as far as its zone is concerned. */
export const zonedNodeSchema = z.object({
  metadata,
  status: z
    .object({
      allocatable: z.object({ cpu: z.union([z.string(), z.number()]).nullish() }).nullish(),
      conditions: z.array(z.object({ type: z.string(), status: z.string() })).nullish(),
    })
    .nullish(),
});
export type ApiZonedNode = z.infer<typeof zonedNodeSchema>;

const writtenMetadata = metadata.loose().extend({
  uid: z.string().exactOptional(),
  resourceVersion: z.string().exactOptional(),
  managedFields: z.unknown().optional(),
  ownerReferences: z
    .array(z.looseObject({ apiVersion: z.string(), kind: z.string(), name: z.string(), uid: z.string() }))
    .nullable()
    .exactOptional(),
});

const reference = z.looseObject({
  kind: z.string().exactOptional(),
  namespace: z.string().exactOptional(),
  name: z.string().exactOptional(),
  uid: z.string().exactOptional(),
});
const names = z.array(z.looseObject({ name: z.string() }));

/** discovery.k8s.io/v1 EndpointSlice, whole. */
export const sliceObjectSchema = z.looseObject({
  metadata: writtenMetadata,
  addressType: z.string(),
  endpoints: z
    .array(
      z.looseObject({
        addresses: z.array(z.string()),
        conditions: z
          .looseObject({
            ready: z.boolean().nullable().exactOptional(),
            serving: z.boolean().nullable().exactOptional(),
            terminating: z.boolean().nullable().exactOptional(),
          })
          .exactOptional(),
        hostname: z.string().nullable().exactOptional(),
        targetRef: reference.nullable().exactOptional(),
        nodeName: z.string().nullable().exactOptional(),
        zone: z.string().nullable().exactOptional(),
        hints: z
          .looseObject({ forZones: names.exactOptional(), forNodes: names.exactOptional() })
          .nullable()
          .exactOptional(),
      }),
    )
    .nullable()
    .exactOptional(),
  ports: z
    .array(
      z.looseObject({
        name: z.string().nullable().exactOptional(),
        protocol: z.string().nullable().exactOptional(),
        port: z.number().nullable().exactOptional(),
        appProtocol: z.string().nullable().exactOptional(),
      }),
    )
    .nullable()
    .exactOptional(),
});

/** The API treats `key:` without a value, as a person may write it, like an absent key. */
function handWritten<S extends z.ZodType>(schema: S) {
  return z.preprocess(withoutNulls, schema);
}

function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}

const addresses = z
  .array(
    handWritten(
      z.looseObject({
        ip: z.string(),
        hostname: z.string().exactOptional(),
        nodeName: z.string().exactOptional(),
        targetRef: handWritten(reference).exactOptional(),
      }),
    ),
  )
  .exactOptional();

/** v1 Endpoints, whole. */
export const endpointsSchema = z.looseObject({
  metadata: writtenMetadata,
  subsets: z
    .array(
      handWritten(
        z.looseObject({
          addresses,
          notReadyAddresses: addresses,
          ports: z
            .array(
              handWritten(
                z.looseObject({
                  name: z.string().exactOptional(),
                  port: z.number(),
                  protocol: z.string().exactOptional(),
                  appProtocol: z.string().exactOptional(),
                }),
              ),
            )
            .exactOptional(),
        }),
      ),
    )
    .nullable()
    .exactOptional(),
});
