/** The routes of queries at the metrics server: they parse the parameters and call the answers. */

import { parseDuration } from '../../base/duration.ts';
import { WrongQuestion } from '../../inspect/wire/envelope.ts';
import { readMoment, readSince, serviceKey } from '../../inspect/wire/parse.ts';
import type { QueryRoute } from '../../serve/query-handler.ts';
import type { Overview } from './overview.ts';
import type { Queries } from './queries.ts';

/** Rows of a list by default, and their limit. */
const DEFAULT_ROWS = 100;
export const MAX_ROWS = 500;
/** Limit of characters of a search. The longest name of a Service has 317. */
const MAX_SEARCH_LENGTH = 400;

/** The routes of the live page. */
export function pageQuestions(overview: Overview): ReadonlyMap<string, QueryRoute> {
  return new Map<string, QueryRoute>([
    [
      '/services',
      {
        parameters: ['search', 'offset', 'limit'],
        answer: async (query, signal) => {
          const [offset, limit] = [
            whole(query, 'offset', 9_999_999) ?? 0,
            whole(query, 'limit', MAX_ROWS) ?? DEFAULT_ROWS,
          ];
          return await overview.services({ search: searchIn(query), offset, limit }, signal);
        },
      },
    ],
    [
      '/service',
      {
        parameters: ['name'],
        answer: async (query) => await overview.service(serviceKey(required(query, 'name'))),
      },
    ],
  ]);
}

function searchIn(query: URLSearchParams): string {
  const text = query.get('search') ?? '';
  if (text.length <= MAX_SEARCH_LENGTH) return text;
  throw new WrongQuestion(`search: it has ${text.length} characters, and the limit is ${MAX_SEARCH_LENGTH}`);
}

/** A whole number from 0 to the limit. */
function whole(query: URLSearchParams, name: string, limit: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const number = /^\d{1,7}$/.test(text) ? Number(text) : limit + 1;
  if (number > limit) throw new WrongQuestion(`${name}: ${text}: must be a number from 0 to ${limit}`);
  return number;
}

export function questionsOf(queries: Queries, now: () => number): ReadonlyMap<string, QueryRoute> {
  return new Map<string, QueryRoute>([
    ['/status', { parameters: [], answer: () => Promise.resolve(queries.status()) }],
    ['/exposure', { parameters: [], answer: (_, signal) => queries.exposure(signal) }],
    ['/verify', { parameters: [], answer: (_, signal) => queries.verify(signal) }],
    [
      '/explain',
      {
        parameters: ['from', 'to', 'rules', 'at'],
        answer: async (query, signal) => {
          const [from, to] = ['from', 'to'].map((name) => required(query, name));
          const rules = flag(query, 'rules');
          return await queries.explain({ from: from ?? '', to: to ?? '', rules, at: momentIn(query, now()) }, signal);
        },
      },
    ],
    [
      '/recording',
      {
        parameters: ['for'],
        answer: (query, signal) => Promise.resolve(queries.recording(until(query, signal) ?? 'remembered')),
      },
    ],
    [
      '/history',
      {
        parameters: ['service', 'since', 'at', 'most'],
        answer: async (query, signal) => {
          const [since, at, most] = [sinceIn(query, now()), momentIn(query, now()), count(query, 'most')];
          return await queries.history({ service: serviceIn(query), since, at, most }, signal);
        },
      },
    ],
  ]);
}

/** Limit of a recording over HTTP. */
export const MAX_RECORDING_MS = 24 * 60 * 60 * 1000;

/** A signal that also aborts after the time of `for`; undefined without that parameter. */
function until(query: URLSearchParams, signal: AbortSignal): AbortSignal | undefined {
  const text = query.get('for');
  if (text === null) return undefined;
  const time = parseDuration(text) ?? 0;
  if (time > 0 && time <= MAX_RECORDING_MS) return AbortSignal.any([signal, AbortSignal.timeout(time)]);
  throw new WrongQuestion(`for: ${text}: must be a duration up to 24h, such as 30s`);
}

function required(query: URLSearchParams, name: string): string {
  const text = query.get(name);
  if (text === null || text === '') throw new WrongQuestion(`the parameter ${name} is missing`);
  return text;
}

function flag(query: URLSearchParams, name: string): boolean {
  const text = query.get(name) ?? 'false';
  if (['true', '1', ''].includes(text)) return true;
  if (['false', '0'].includes(text)) return false;
  throw new WrongQuestion(`${name}: ${text}: must be true or false`);
}

function count(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new WrongQuestion(`${name}: ${text}: must be a number from 1 to 99999`);
  return Number(text);
}

function momentIn(query: URLSearchParams, now: number): number | undefined {
  const text = query.get('at');
  return text === null ? undefined : readMoment('at', text, now);
}

function sinceIn(query: URLSearchParams, now: number): number | undefined {
  const text = query.get('since');
  return text === null ? undefined : readSince('since', text, now);
}

function serviceIn(query: URLSearchParams): string | undefined {
  const text = query.get('service');
  if (text === null || text === '') return undefined;
  return serviceKey(text);
}
