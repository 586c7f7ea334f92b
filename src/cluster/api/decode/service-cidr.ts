/** Ranges that cluster IPs are taken from. */

import { compact } from '../../../proxy/model/compact.ts';
import type { SourceEvent } from '../../../proxy/model/events.ts';
import { parse, readCidrs } from './checks.ts';
import { FaultList } from './faults.ts';
import { serviceCidrSchema } from './schema.ts';

/** A networking.k8s.io/v1 ServiceCIDR. */
export function decodeServiceCidr(object: unknown, name: string): SourceEvent {
  const faults = new FaultList('ServiceCIDR', name, object);
  const parsed = parse(serviceCidrSchema, object, faults);
  const texts = parsed?.spec?.cidrs ?? [];
  const cidrs = parsed && readCidrs(texts, 'spec.cidrs', faults);
  return { kind: 'serviceCidr', key: name, cidrs, faults: compact(faults.list) };
}
