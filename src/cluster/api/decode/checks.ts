/**
 * Checks that all decoders share, and the faults that they report. Every value that later reaches a command line or a netlink message
 * passes one of the checks: names by Kubernetes' own rules, addresses and numbers by parsing.
 */

import * as z from 'zod/mini';
import { type Cidr, PROTOCOLS, type Protocol, parseCidr } from '../../../base/address.ts';
import { type Fault, MAX_FAULTS, type ObjectKind } from '../../../proxy/model/objects.ts';

/** A decoded object with its faults. */
export interface Decoded<T> {
  /** undefined when the object is set aside, or no proxy serves it. */
  readonly value: T | undefined;
  readonly faults: readonly Fault[];
}

/** Names that the API server admits: labels and names of RFC 1035 and 1123. */
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export function isObjectName(text: string): boolean {
  return NAME.test(text);
}

/** `namespace/name`; the namespace is "default" where a manifest names none. undefined when one of the two is not a valid name. */
export function objectKey(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown; namespace?: unknown } };
  const name = metadata?.name;
  const namespace = metadata?.namespace ?? 'default';
  if (typeof name !== 'string' || typeof namespace !== 'string') return undefined;
  return isObjectName(name) && isObjectName(namespace) ? `${namespace}/${name}` : undefined;
}

/** Checks the shape; undefined, with faults, when it differs. */
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

/** Whether the text is an IANA_SVC_NAME, a DNS label or "": a port's name goes into comments of rules. */
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

/** The CIDRs of a list. A text that is no CIDR is left out with a fault. */
export function readCidrs(texts: readonly string[], field: string, faults: FaultList): Cidr[] {
  const cidrs: Cidr[] = [];
  for (const [i, text] of texts.entries()) {
    const cidr = parseCidr(text);
    if (cidr === undefined) faults.leaveOut(`${field}[${i}]`, text, 'must be a CIDR');
    else cidrs.push(cidr);
  }
  return cidrs;
}

/** Limit of the faults of shape of one object. The last one counts the others. */
const MAX_ISSUES = 20;
/** Limit of characters of a value in a fault. */
export const MAX_SHOWN_LENGTH = 80;

/** Limit of characters of a field's path, and of a problem. */
const MAX_TEXT_LENGTH = 600;

/** The worst first. */
const EFFECTS: readonly Fault['effect'][] = ['object set aside', 'part left out', 'default used', 'no effect here'];

/** Collects the faults of one object while it is decoded. */
export class FaultList {
  readonly list: Fault[] = [];
  readonly #kind: ObjectKind;
  readonly #object: string;
  readonly #whole: unknown;
  /** Number of further faults, which the last fault of the list counts. */
  #more = 0;

  /** `whole`: the object as it was received, not checked. */
  constructor(kind: ObjectKind, object: string, whole?: unknown) {
    this.#kind = kind;
    this.#object = object;
    this.#whole = whole;
  }

  /** The object cannot be used and is not programmed. */
  setAside(field: string, value: unknown, problem: string): undefined {
    this.#add(field, value, problem, 'object set aside');
    return undefined;
  }

  /** A part of the object cannot be used; the rest is programmed. */
  leaveOut(field: string, value: unknown, problem: string, part?: Fault['part']): undefined {
    this.#add(field, value, problem, 'part left out', part);
    return undefined;
  }

  /** The value cannot be used, and the API's default replaces it. */
  useDefault(field: string, value: unknown, problem: string): undefined {
    this.#add(field, value, problem, 'default used');
    return undefined;
  }

  /** The value is valid, and has no effect on this node. */
  notice(field: string, value: unknown, problem: string): undefined {
    this.#add(field, value, problem, 'no effect here');
    return undefined;
  }

  /** Adds the issues of a schema. */
  shape(issues: readonly z.core.$ZodIssue[], whole: unknown): undefined {
    for (const issue of issues.slice(0, MAX_ISSUES)) {
      const value = issue.path.reduce<unknown>(
        (at, step) => (at as Record<PropertyKey, unknown> | undefined)?.[step],
        whole,
      );
      this.setAside(pathText(issue.path), value, shapeProblem(issue, value));
    }
    if (issues.length > MAX_ISSUES)
      this.setAside('', '', `${issues.length - MAX_ISSUES} more of its fields are invalid`);
    return undefined;
  }

  #add(field: string, value: unknown, problem: string, effect: Fault['effect'], part?: Fault['part']): void {
    const { length } = this.list;
    const last = this.list.at(-1);
    if (length < MAX_FAULTS || last === undefined) {
      const fault = this.#fault(field, value, problem, effect);
      this.list.push(part === undefined ? fault : { ...fault, part });
    } else {
      this.#more += 1;
      const worst = EFFECTS.find((one) => one === effect || one === last.effect) ?? effect;
      const text = `${this.#more + 1} more of its fields cannot be used`;
      this.list[length - 1] = this.#fault('', '', text, worst);
    }
  }

  #fault(field: string, value: unknown, problem: string, effect: Fault['effect']): Fault {
    return {
      kind: this.#kind,
      object: oneLine(this.#object),
      ...uidOf(this.#whole),
      field: oneLine(field),
      value: valueText(value),
      problem: oneLine(problem),
      effect,
    };
  }
}

function uidOf(whole: unknown): { readonly uid?: string } {
  const uid = (whole as { metadata?: { uid?: unknown } } | null | undefined)?.metadata?.uid;
  return typeof uid === 'string' && uid !== '' ? { uid } : {};
}

/** `spec.ports[0].port` */
function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
    .join('')
    .replace(/^\./, '');
}

function valueText(value: unknown): string {
  if (value === undefined) return '';
  const text = typeof value === 'string' ? value : jsonText(value);
  return text.length > MAX_SHOWN_LENGTH ? `${oneLine(text.slice(0, MAX_SHOWN_LENGTH))}…` : oneLine(text);
}

/** Keeps a fault on one line: a value must not forge another line of the log. A problem may contain a text of the object, too. */
function oneLine(text: string): string {
  const short = text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH)}...` : text;
  return short.replace(/[^\x20-\x7e]/g, '?');
}

/** JSON.stringify throws for a value that contains itself, which an alias in YAML can make. */
function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return String(value);
  }
}

/** Types of a schema in words for users; the texts of the schema library are for authors of schemas. */
const TYPE_TEXTS: Readonly<Record<string, string>> = {
  number: 'a number',
  int: 'a whole number',
  string: 'a string',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map of fields',
  record: 'a map of names to values',
};

/** `must be a number, not a string; write it without quotes` */
function shapeProblem(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code === 'too_small' && (value === '' || (Array.isArray(value) && value.length === 0))) {
    return 'must not be empty';
  }
  const expected = expectedTypes(issue);
  if (expected.length === 0) return `cannot be used: ${issue.message}`;
  const words = expected.map((type) => TYPE_TEXTS[type] ?? type).join(' or ');
  if (value === undefined) return `is missing; it must be ${words}`;
  return `must be ${words}, not ${typeText(value)}${hint(expected, value)}`;
}

/** The types that the schema allows. */
function expectedTypes(issue: z.core.$ZodIssue): readonly string[] {
  if (issue.code === 'invalid_type') return [issue.expected];
  if (issue.code !== 'invalid_union') return [];
  // Only issues of the code invalid_type name an allowed type.
  const types = issue.errors.map(([first]) => (first?.code === 'invalid_type' ? first.expected : undefined));
  return types.filter((type) => type !== undefined);
}

function typeText(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return 'a string';
  if (typeof value === 'number') return Number.isNaN(value) ? 'NaN' : 'a number';
  return typeof value === 'boolean' ? 'true or false' : 'a map';
}

/** Advice when YAML reads another type than the author probably meant. */
function hint(expected: readonly string[], value: unknown): string {
  const expects = (type: string) => expected.includes(type);
  if (expects('string') && (typeof value === 'number' || typeof value === 'boolean')) return '; write it in quotes';
  if (typeof value !== 'string') return '';
  const isMeant = (expects('number') && /^-?\d+$/.test(value)) || (expects('boolean') && /^(true|false)$/.test(value));
  return isMeant ? '; write it without quotes' : '';
}
