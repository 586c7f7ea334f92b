/** The annotations of slicewire about traffic (docs/traffic.md). One with a wrong value is set aside with a fault, and the default holds. */
import { parseAddress } from '../../../base/address.ts';
import { parseDuration } from '../../../base/duration.ts';
import {
  BACKUP_ANNOTATION,
  BALANCE_ANNOTATION,
  BALANCES,
  IPVS_SCHEDULER_ANNOTATION,
  type Labels,
  SLOW_START_ANNOTATION,
  WEIGHT_ANNOTATION,
} from '../../../proxy/model/labels.ts';
import { LIMIT_NAMES, type Limit, type LimitName, limitAnnotation, MOST } from '../../../proxy/model/limits.ts';
import { type Endpoint, type HashedBy, MAX_WEIGHT, type Service, USUAL_WEIGHT } from '../../../proxy/model/objects.ts';
import type { FaultList } from './checks.ts';

/** Milliseconds: the shortest and the longest slow start. */
const SLOW_STARTS = { least: 1000, most: 3_600_000 } as const;

/** Milliseconds of a Service's slow start; undefined for none. */
export function readSlowStart(annotations: Labels, faults: FaultList): number | undefined {
  const text = annotations[SLOW_START_ANNOTATION];
  if (text === undefined) return undefined;
  const time = parseDuration(text);
  if (time !== undefined && time >= SLOW_STARTS.least && time <= SLOW_STARTS.most) return time;
  const problem = 'must be a time from 1s to 1h, such as 60s; new endpoints have their whole weight at once';
  return faults.useDefault(`metadata.annotations["${SLOW_START_ANNOTATION}"]`, text, problem);
}

/** Limit of the frontends of a Service with a stable choice: each has thousands of slots in the kernel. */
const MAX_HASHED = 20;

interface Balanced extends Pick<Service, 'affinitySeconds'> {
  readonly ipvsScheduler: string | undefined;
  readonly frontends: number;
}

/** By what a Service's endpoint is chosen; undefined for chance. */
export function readBalance(
  annotations: Labels,
  { affinitySeconds, ipvsScheduler, frontends }: Balanced,
  faults: FaultList,
): HashedBy | undefined {
  const text = annotations[BALANCE_ANNOTATION];
  if (text === undefined) return undefined;
  const field = `metadata.annotations["${BALANCE_ANNOTATION}"]`;
  if (!BALANCES.has(text)) {
    const problem = `must be one of ${[...BALANCES.keys()].join(', ')}; endpoints are chosen at random`;
    return faults.useDefault(field, text, problem);
  }
  const by = BALANCES.get(text);
  if (by === undefined) return undefined;
  if (affinitySeconds > 0)
    return faults.notice(field, text, 'spec.sessionAffinity ClientIP decides about the endpoint of a client');
  if (frontends > MAX_HASHED) {
    const problem = `is for Services with up to ${MAX_HASHED} frontends, and this one has ${frontends}; endpoints are chosen at random`;
    return faults.useDefault(field, text, problem);
  }
  if (ipvsScheduler !== undefined) faults.notice(field, text, `in IPVS mode ${IPVS_SCHEDULER_ANNOTATION} decides`);
  return by;
}

const COUNT = { form: /^(\d+)$/, words: 'a whole number' };
const FORMS: Readonly<Record<LimitName, { readonly form: RegExp; readonly words: string }>> = {
  'new-connections': {
    form: /^(\d+)\/s(?: burst (\d+))?$/,
    words: 'new connections a second, such as 100/s or 100/s burst 200, with numbers',
  },
  'max-connections-per-client': COUNT,
  'max-connections': COUNT,
};

/** The limits of a Service's connections, in the order of `LIMIT_NAMES`. A wrong one is set aside alone. */
export function readLimits(annotations: Labels, faults: FaultList): readonly Limit[] {
  return LIMIT_NAMES.flatMap((name) => {
    const text = annotations[limitAnnotation(name)];
    if (text === undefined) return [];
    const { form, words } = FORMS[name];
    // Without a burst, the connections of one second may come at once.
    const [, most, burst = most] = form.exec(text.trim()) ?? [];
    if (isLimit(name, Number(most)) && isLimit(name, Number(burst)))
      return [{ name, most: Number(most), burst: name === 'new-connections' ? Number(burst) : 0 }];
    const problem = `must be ${words} from 1 to ${MOST[name]}; the limit is not applied`;
    faults.useDefault(`metadata.annotations["${limitAnnotation(name)}"]`, text, problem);
    return [];
  });
}

function isLimit(name: LimitName, value: number): boolean {
  return value >= 1 && value <= MOST[name];
}

/** The endpoints of a slice with what its annotations say of them. */
export function withTraffic(
  endpoints: readonly Endpoint[],
  annotations: Labels | null | undefined,
  faults: FaultList,
): readonly Endpoint[] {
  const weight = annotations?.[WEIGHT_ANNOTATION];
  const backup = annotations?.[BACKUP_ANNOTATION];
  if (weight === undefined && backup === undefined) return endpoints;
  const weightOf = weight === undefined ? () => USUAL_WEIGHT : readWeights(weight, endpoints, faults);
  const isBackup = backup !== undefined && readBackup(backup, faults);
  return endpoints.map((endpoint) => {
    const own = weightOf(endpoint);
    return {
      ...endpoint,
      ...(own === USUAL_WEIGHT ? {} : { weight: own }),
      ...(isBackup ? { isBackup: true as const } : {}),
    };
  });
}

const NUMBER = `a whole number from 0 to ${MAX_WEIGHT}`;
const WEIGHT_FIELD = `metadata.annotations["${WEIGHT_ANNOTATION}"]`;

type WeightOf = (endpoint: Endpoint) => number;

/** `20`, or `{"10.244.1.11": 20}`. Endpoints that the object does not name have the usual weight. */
function readWeights(text: string, endpoints: readonly Endpoint[], faults: FaultList): WeightOf {
  const parsed = jsonOf(text);
  if (isWeight(parsed)) return () => parsed;
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    const problem = `must be ${NUMBER}, or a JSON object of addresses with such numbers; each endpoint has the weight ${USUAL_WEIGHT}`;
    faults.useDefault(WEIGHT_FIELD, text, problem);
    return () => USUAL_WEIGHT;
  }
  const present = new Set(endpoints.map(({ address }) => address));
  const weights = new Map<string, number>();
  for (const [name, weight] of Object.entries(parsed)) {
    const field = `${WEIGHT_FIELD}["${name}"]`;
    const address = parseAddress(name);
    if (address === undefined) faults.leaveOut(field, weight, 'must have an IP address as its name');
    else if (!isWeight(weight)) faults.useDefault(field, weight, `must be ${NUMBER}; the weight is ${USUAL_WEIGHT}`);
    else if (!present.has(address)) faults.notice(field, weight, 'no endpoint of the slice has the address');
    else weights.set(address, weight);
  }
  return ({ address }) => weights.get(address) ?? USUAL_WEIGHT;
}

function readBackup(text: string, faults: FaultList): boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  const problem = 'must be "true" or "false"; the endpoints are no backups';
  faults.useDefault(`metadata.annotations["${BACKUP_ANNOTATION}"]`, text, problem);
  return false;
}

function isWeight(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_WEIGHT;
}

/** undefined where the text is no JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
