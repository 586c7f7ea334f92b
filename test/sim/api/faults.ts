/** What goes wrong with one request to the API server: the fault at a numbered call. */
import { ANSWER_TIMEOUT, type Incoming, type Outgoing } from '../../../src/cluster/api/answer.ts';
import { statusBody } from '../../helpers/cluster/api/api-answers.ts';
import { eventBytes, formOf, unreadableFrame, watchType } from '../../helpers/cluster/api/api-forms.ts';
import { errorEvent } from '../../helpers/cluster/api/api-lists.ts';
import { PROTOBUF_TYPE } from '../../helpers/cluster/api/api-protobuf.ts';
import { statusAnswer, takesProtobuf, type WholeAnswer } from './answers.ts';
import { connectionRefused, connectionReset } from './errors.ts';

/** How a request can fail. Those of the server are answers with a status. */
export type Failure =
  | 'refused'
  | 'reset'
  | 'unanswered'
  | 'overloaded'
  | 'unavailable'
  | 'internal'
  | 'gateway'
  | 'page of a proxy'
  | 'unauthorized'
  | 'garbled'
  | 'expired'
  | 'expired event'
  | 'ends at once';

/** Where the server did what was asked, and the answer is lost. */
const LOST: readonly Failure[] = ['reset', 'unanswered', 'gateway', 'internal', 'page of a proxy'];
const ANY: readonly Failure[] = [
  'refused',
  'reset',
  'overloaded',
  'unavailable',
  'internal',
  'unanswered',
  'gateway',
  'page of a proxy',
  'unauthorized',
];

/** What can go wrong with this request, in an order that stays. */
export function failuresOf({ url, headers, isWatch, method }: Outgoing, isDone: boolean): readonly Failure[] {
  const accept = String(headers.accept ?? '');
  const garbled = takesProtobuf({ accept }) ? (['garbled'] as const) : [];
  if (isWatch) return [...ANY, 'expired', 'expired event', 'ends at once', ...garbled];
  if (isDone && method !== 'GET') return LOST;
  return [...ANY, ...garbled, ...(url.searchParams.has('continue') ? (['expired'] as const) : [])];
}

/** The failure that a variant means. */
export function failureOf(outgoing: Outgoing, variant: number, isDone: boolean): Failure {
  const all = failuresOf(outgoing, isDone);
  return all[Math.abs(Math.trunc(variant)) % all.length] ?? 'reset';
}

/** The answer of a failure; throws the error of one without an answer. `unanswered` never ends by itself. */
export function failed(failure: Failure, { url, headers, isWatch }: Outgoing): WholeAnswer {
  const asked = { accept: String(headers.accept ?? '') };
  // Those that ask for protobuf ask for kinds that are told in it.
  const form = formOf(asked.accept, 'Service');
  switch (failure) {
    case 'refused':
      throw connectionRefused(url);
    case 'reset':
    case 'unanswered':
      throw connectionReset('socket hang up');
    case 'overloaded':
      return statusAnswer(asked, 429, {}, { 'retry-after': '2' });
    case 'unavailable':
      return statusAnswer(asked, 503, {}, { 'retry-after': '5' });
    case 'internal':
      return statusAnswer(asked, 500, { message: 'etcdserver: request timed out' });
    case 'gateway':
      return statusAnswer(asked, 504);
    case 'unauthorized':
      return statusAnswer(asked, 401);
    case 'expired':
      return statusAnswer(asked, 410);
    case 'garbled':
      if (isWatch) return { kind: 'whole', status: 200, headers: watchType(form), bytes: unreadableFrame() };
      return whole(200, PROTOBUF_TYPE, 'k8s\0\x0a\x7f');
    case 'page of a proxy':
      return whole(200, { 'content-type': 'text/html' }, '<html>\n<body>Please wait.</body>\n</html>\n');
    case 'expired event': {
      const status = statusBody(410, { message: 'too old resource version' });
      return { kind: 'whole', status: 200, headers: watchType(form), bytes: eventBytes(errorEvent(status), form) };
    }
    case 'ends at once':
      return whole(200, watchType(form), '');
  }
}

function whole(status: number, headers: Readonly<Record<string, string>>, text: string): WholeAnswer {
  return { kind: 'whole', status, headers, bytes: Buffer.from(text, 'latin1') };
}

/** How an answer ends in the middle. */
export type Cut =
  | { readonly kind: 'reset' | 'short' }
  /** Nothing comes for so many milliseconds, and then the rest. */
  | { readonly kind: 'pause'; readonly milliseconds: number };

const CUTS: readonly Cut[] = [
  { kind: 'reset' },
  { kind: 'short' },
  { kind: 'pause', milliseconds: ANSWER_TIMEOUT + 5000 },
  { kind: 'pause', milliseconds: 3000 },
];

export function cutOf(variant: number): Cut {
  return CUTS[Math.abs(Math.trunc(variant)) % CUTS.length] ?? { kind: 'reset' };
}

/** An answer whose body is sent when it begins, cut where it was cut before that. */
export interface Answered extends Incoming {
  readonly begin: () => void;
  readonly cut: (cut: Cut) => void;
  /** The connection ends. */
  readonly reset: () => void;
}
