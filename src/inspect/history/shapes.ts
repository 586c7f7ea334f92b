/** Shapes of the values in a recording. A recording may come from anywhere: every value is checked before it counts. */
import * as z from 'zod';
import { type Address, type Cidr, parseAddress, parseCidr } from '../../base/address.ts';
import type { Drift } from '../../proxy/model/drift.ts';
import { schedulerProblem } from '../../proxy/model/ipvs-scheduler.ts';
import { LIMIT_NAMES, MOST } from '../../proxy/model/limits.ts';
import { MAX_WEIGHT } from '../../proxy/model/objects.ts';
import { MAX_RAMPS } from '../../proxy/model/ramps.ts';
import { driftSchema } from '../wire/history.ts';

/** Only characters that Kubernetes allows: namespaces, names and zones become parts of rules. */
export const name = z.string().regex(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$/);
export const key = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/);
export const portName = z.string().regex(/^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$/);
export const family = z.enum(['IPv4', 'IPv6']);
export const count = z.number().int().nonnegative();
/** Milliseconds since 1970, within what a date of JavaScript holds (ECMA-262, time values). */
export const time = z.number().min(-8.64e15).max(8.64e15);
/** 0 for none. */
const portOrNone = z.number().int().min(0).max(65_535);
const port = portOrNone.min(1);
const protocol = z.enum(['TCP', 'UDP', 'SCTP']);
const policy = z.enum(['Cluster', 'Local']);

export const address = z.string().transform((text, context): Address => {
  const parsed = parseAddress(text);
  if (parsed !== undefined && parsed === text) return parsed;
  context.addIssue(`${JSON.stringify(text)} is not an address in its canonical form`);
  return z.NEVER;
});

export const cidr = z.string().transform((text, context): Cidr => {
  const parsed = parseCidr(text);
  if (parsed !== undefined && parsed === text) return parsed;
  context.addIssue(`${JSON.stringify(text)} is not a CIDR in its canonical form`);
  return z.NEVER;
});

const scheduler = z.string().refine((text) => schedulerProblem(text) === undefined);

const limit = z
  .object({ name: z.enum(LIMIT_NAMES), most: count.min(1), burst: count })
  .refine(({ name, most, burst }) => most <= MOST[name] && burst <= MOST[name]);

const service = z.object({
  key,
  uid: z.string().nullable(),
  createdAt: time,
  type: z.enum(['ClusterIP', 'NodePort', 'LoadBalancer']),
  clusterIPs: z.array(address).max(2),
  externalIPs: z.array(address),
  loadBalancerIPs: z.array(address),
  sourceRanges: z.array(cidr).nullable(),
  ports: z.array(z.object({ name: portName, protocol, port, nodePort: portOrNone })),
  internalTrafficPolicy: policy,
  externalTrafficPolicy: policy,
  affinitySeconds: count.max(86_400),
  healthCheckNodePort: portOrNone,
  ipvsScheduler: z.exactOptional(scheduler.nullable()),
  slowStart: z.exactOptional(count.nullable()),
  hashes: z.exactOptional(z.enum(['address', 'address and port']).nullable()),
  limits: z.exactOptional(z.array(limit).max(LIMIT_NAMES.length).nullable()),
});

const names = z.exactOptional(z.array(name));
const nodeName = z.exactOptional(z.union([name, z.literal('')]));
const endpoint = z.tuple([address, count, nodeName, names, names, z.exactOptional(count.max(MAX_WEIGHT))]);

const sliceHead = z.object({
  service: key,
  family,
  ports: z.array(z.object({ name: portName, protocol, port })),
});

const node = z.object({
  name,
  zone: z.union([name, z.literal('')]),
  addresses: z.array(address),
  podCIDRs: z.array(cidr),
  isEligible: z.boolean(),
  suspects: z.exactOptional(z.array(name)),
});

/** Some of the fields; none of them is undefined, which JSON does not have. */
function some<S extends Readonly<Record<string, z.ZodType>>>(shape: S) {
  const fields = Object.entries(shape).map(([field, type]) => [field, z.exactOptional(type)]);
  return z.strictObject(Object.fromEntries(fields) as { [K in keyof S]: z.ZodExactOptional<S[K]> });
}

const delta = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('Service'),
    key,
    delta: z.union([z.strictObject({ all: service.nullable() }), z.strictObject({ set: some(service.shape) })]),
  }),
  z.object({
    kind: z.literal('EndpointSlice'),
    key,
    delta: z.union([
      z.strictObject({ all: sliceHead.extend({ endpoints: z.array(endpoint) }).nullable() }),
      z.strictObject({
        set: some(sliceHead.shape),
        endpoints: z.object({ first: count, last: count, between: z.array(endpoint) }).exactOptional(),
      }),
    ]),
  }),
  z.object({ kind: z.literal('Node'), key: name, delta: z.strictObject({ all: node.nullable() }) }),
]);

/** Recordings from before 0.1.0 have only the text of a drift. */
function formerDrift(text: string): Drift {
  return { family: '', kind: 'text', table: '', name: text, target: '', difference: { kind: 'changed' } };
}

const milliseconds = z.object({ all: z.number(), reading: z.number(), desiring: z.number(), writing: z.number() });

const ramp = z.object({ service: key, address, since: time });
const growing = z.object({ at: time, ramps: z.array(ramp).max(MAX_RAMPS) });

const sync = z.object({
  type: z.literal('sync'),
  number: count,
  at: time,
  endedAt: time,
  trigger: z.string(),
  // Recordings from before 0.1.0 have it in the trigger.
  by: z.string().default(''),
  outcome: z.enum(['complete', 'partial', 'failed']),
  upTo: count,
  hasWritten: z.boolean(),
  without: z.array(z.string()),
  oldest: count,
  changes: count,
  services: z.array(z.string()),
  steps: count,
  milliseconds,
  drift: z.array(z.union([driftSchema, z.string().transform(formerDrift)])),
  failed: z.array(z.string()),
  plans: z.array(z.object({ steps: count, digest: z.string() })),
  times: z.array(z.number()).describe('the times that the mode read from its clock'),
  growing: z.exactOptional(growing),
});

const localDetector = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('none') }),
  z.object({ kind: z.literal('cidr'), cidr }),
  z.object({ kind: z.literal('interface'), name: z.string().regex(/^[A-Za-z0-9_.-]{1,15}\+?$/) }),
]);

const shared = {
  family,
  masqueradeBit: z.number().int().min(0).max(31),
  masqueradeAll: z.boolean(),
  localDetector,
  nodeAddresses: z.array(address),
  refusesByReset: z.exactOptional(z.literal(true)),
};
const nodePortAddresses = z.union([z.literal('all'), z.array(address)]);

/** The settings of a mode. null means undefined, which JSON does not have. */
const modeSettings = z.discriminatedUnion('mode', [
  z.object({
    mode: z.literal('iptables'),
    families: z.array(
      z.object({ ...shared, nodePortAddresses, localhostNodePorts: z.boolean(), dropInvalid: z.boolean() }),
    ),
  }),
  z.object({
    mode: z.literal('nftables'),
    families: z.array(
      z.object({
        ...shared,
        nodePortAddresses,
        dropInvalid: z.boolean(),
        serviceCidrs: z.array(cidr).nullable(),
        countsConnections: z.boolean(),
      }),
    ),
  }),
  z.object({
    mode: z.literal('ipvs'),
    families: z.array(
      z.object({
        ...shared,
        excludeCidrs: z.array(cidr),
        nodePortCidrs: z.union([z.literal('all'), z.array(cidr)]),
        scheduler,
      }),
    ),
    node: z.object({ tcpTimeout: count, tcpFinTimeout: count, udpTimeout: count }),
    kernelSettings: z.array(z.tuple([z.string(), z.string()])),
  }),
]);

/** The parts of the agent that a recording needs to run again. */
export const partsSchema = z.object({
  version: z.string().describe('of slicewire'),
  kernel: z.string().describe('release of the kernel'),
  nodeName: z.string(),
  servesExternalIPs: z.boolean(),
  settings: modeSettings,
  interfaces: z.array(address).describe('addresses of the interfaces of the node'),
  config: z.record(z.string(), z.unknown()).describe('the configuration, as /configz has it'),
});

/** A line of a recording. Times are milliseconds since 1970. */
export const lineSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('start'),
    at: time,
    parts: partsSchema,
    isWritten: z.boolean().describe('the objects are in the kernel; otherwise the next sync writes them'),
    isWaiting: z.boolean().describe('removals were waiting'),
    number: count.describe('of the last change that the objects have'),
    growing: z.exactOptional(growing),
  }),
  z.object({ type: z.literal('object'), delta }),
  z.object({ type: z.literal('started'), objects: count }),
  z.object({
    type: z.literal('change'),
    number: count,
    at: time,
    service: z.string(),
    version: z.string(),
    delta,
  }),
  z.object({ type: z.literal('sync'), record: sync }),
]);

export type RecordedParts = Lasting<z.infer<typeof partsSchema>>;
export type RecordingLine = Lasting<z.infer<typeof lineSchema>>;
export type StartLine = Extract<RecordingLine, { type: 'start' }>;
export type ChangeLine = Extract<RecordingLine, { type: 'change' }>;
export type SyncLine = Extract<RecordingLine, { type: 'sync' }>;
export type RecordedDelta = Lasting<z.infer<typeof delta>>;

/** The type with readonly fields and arrays. */
type Lasting<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined
    ? T
    : { readonly [K in keyof T]: Lasting<T[K]> };
