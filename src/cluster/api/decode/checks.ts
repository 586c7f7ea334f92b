/**
 * Checks that all decoders share. Every value that later reaches a command line or a netlink message passes one of them:
 * names by Kubernetes' own rules, addresses and numbers by parsing.
 */
import * as z from 'zod/mini';
import { type Cidr, PROTOCOLS, type Protocol, parseCidr } from '../../../base/address.ts';
import type { FaultList } from './faults.ts';

/** Names that the API server admits: labels and names of RFC 1035 and 1123. */
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export function isObjectName(text: string): boolean {
  return NAME.test(text);
}

/** `namespace/name`, in namespace "default" where a manifest names none; undefined: one of the two is not a valid name. */
export function objectKey(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown; namespace?: unknown } };
  const name = metadata?.name;
  const namespace = metadata?.namespace ?? 'default';
  if (typeof name !== 'string' || typeof namespace !== 'string') return undefined;
  return isObjectName(name) && isObjectName(namespace) ? `${namespace}/${name}` : undefined;
}

/** Check the shape; undefined, with faults, when it differs. */
export function parse<S extends z.core.$ZodType>(
  schema: S,
  object: unknown,
  faults: FaultList,
): z.infer<S> | undefined {
  const result = z.safeParse(schema, object);
  return result.success ? result.data : faults.shape(result.error.issues, object);
}

export function isPortNumber(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= 65_535;
}

/** A port's name goes into comments of rules: IANA_SVC_NAME or a DNS label; "" for none. */
export function isPortName(name: string): boolean {
  return name === '' || /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name);
}

export function readProtocol(text: string | null | undefined): Protocol | undefined {
  const name = text ?? 'TCP';
  return PROTOCOLS.find((protocol) => protocol === name);
}

export const PROTOCOL_PROBLEM = `must be one of ${PROTOCOLS.join(', ')}`;
export const PORT_PROBLEM = 'must be a whole number from 1 to 65535';
export const PORT_NAME_PROBLEM = 'must be a port name: lower-case letters, digits and -, at most 63 characters';

/** The CIDRs of a list; a text that is none is left out with a fault. */
export function readCidrs(texts: readonly string[], field: string, faults: FaultList): Cidr[] {
  const cidrs: Cidr[] = [];
  for (const [i, text] of texts.entries()) {
    const cidr = parseCidr(text);
    if (cidr === undefined) faults.leaveOut(`${field}[${i}]`, text, 'must be a CIDR');
    else cidrs.push(cidr);
  }
  return cidrs;
}
