/** Label and field selectors, as the API server reads them. */
import type { ApiObject } from './api-store.ts';

export type Selects = (object: ApiObject) => boolean;

/** What the API server answers with 400. */
export class SelectorInvalid extends Error {}

/** Fields that the API server lets a client select by. */
const FIELDS = ['metadata.name', 'metadata.namespace', 'spec.clusterIP', 'spec.type'];

export function selects(query: URLSearchParams): Selects {
  const all = [
    ...requirements(query.get('labelSelector')).map(labelRequirement),
    ...requirements(query.get('fieldSelector')).map(fieldRequirement),
  ];
  return (object) => all.every((one) => one(object));
}

/** Split at commas that are not within parentheses. */
function requirements(text: string | null): string[] {
  return (text ?? '').split(/,(?![^(]*\))/).filter((part) => part !== '');
}

function labelRequirement(text: string): Selects {
  const label = (object: ApiObject, key: string) => object.metadata.labels?.[key];
  const absent = /^!\s*([\w./-]+)$/.exec(text);
  if (absent) return (object) => label(object, absent[1] ?? '') === undefined;
  if (/^[\w./-]+$/.test(text)) return (object) => label(object, text) !== undefined;
  const among = /^([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)$/.exec(text);
  if (among) {
    const values = (among[3] ?? '').split(',').map((value) => value.trim());
    return (object) => values.includes(label(object, among[1] ?? '') ?? '\0') === (among[2] === 'in');
  }
  const compare = comparison(text);
  if (compare) return (object) => (label(object, compare.key) === compare.value) === compare.isEqual;
  throw new SelectorInvalid("unable to parse requirement: found '', expected: ',', ')' or identifier");
}

function fieldRequirement(text: string): Selects {
  const compare = comparison(text);
  if (!compare) throw new SelectorInvalid(`invalid field selector: ${text}`);
  if (!FIELDS.includes(compare.key)) throw new SelectorInvalid(`field label not supported: ${compare.key}`);
  return (object) => (fieldOf(object, compare.key) === compare.value) === compare.isEqual;
}

function fieldOf(object: ApiObject, path: string): unknown {
  return path.split('.').reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], object);
}

function comparison(text: string): { key: string; value: string; isEqual: boolean } | undefined {
  const match = /^([\w./-]+)\s*(!=|==|=)\s*(\S*)$/.exec(text);
  return match ? { key: match[1] ?? '', value: match[3] ?? '', isEqual: match[2] !== '!=' } : undefined;
}
