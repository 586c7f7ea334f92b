/** The questions of the plugin: what is asked, how an answer is told, and the exit status that it means. */

import { type Flags, textFlag } from '../../config/flags.ts';
import { momentOf } from '../../inspect/wire/envelope.ts';
import { explanationSchema, explanationText } from '../../inspect/wire/explanation.ts';
import { exposureSchema, exposureText } from '../../inspect/wire/exposure.ts';
import { historySchema } from '../../inspect/wire/history.ts';
import {
  type AnswerSummary,
  EXPOSURE_SUMMARY,
  explainSummary,
  historySummary,
  type NodeOutcome,
  type NodeQuery,
  STATUS_SUMMARY,
  VERIFY_SUMMARY,
} from '../../inspect/wire/nodes.ts';
import { readMoment, readSince, serviceKey } from '../../inspect/wire/parse.ts';
import { statusSchema } from '../../inspect/wire/status.ts';
import { historyText, statusText } from '../../inspect/wire/status-text.ts';
import { verificationSchema, verificationText } from '../../inspect/wire/verification.ts';
import type { NodesRequest } from './ask-nodes.ts';

export interface PluginQuestion<A> {
  readonly question: NodeQuery;
  readonly asked: NodesRequest<A>;
  /** The answer of one node. */
  text(answer: A): string;
  summary(outcomes: readonly NodeOutcome<A>[]): AnswerSummary<A>;
  /** The exit status: 0, or 2 for an answer that is not the hoped-for one. */
  status(answer: A): 0 | 2;
  /** Nodes that do not agree with the others are asked for their status too. */
  readonly asksWhy: boolean;
}

export const STATUS = { path: '/status', parameters: {}, schema: statusSchema };

export function statusQuestion() {
  return questionOf({
    question: 'status',
    asked: STATUS,
    text: statusText,
    summary: () => STATUS_SUMMARY,
    status: ({ health }) => (health.healthy ? 0 : 2),
    asksWhy: false,
  });
}

export function verifyQuestion() {
  return questionOf({
    question: 'verify',
    asked: { path: '/verify', parameters: {}, schema: verificationSchema },
    text: verificationText,
    summary: () => VERIFY_SUMMARY,
    status: ({ equal }) => (equal ? 0 : 2),
    asksWhy: true,
  });
}

/** Throws WrongQuestion. */
export function explainQuestion(
  { from, to }: { readonly from: string; readonly to: string },
  flags: Flags,
  now: number,
) {
  const at = textFlag(flags, 'at');
  const parameters = { from, to, rules: String(flags.rules === true), at: momentText('--at', at, now) };
  return questionOf({
    question: 'explain',
    asked: { path: '/explain', parameters, schema: explanationSchema },
    text: explanationText,
    summary: explainSummary,
    status: ({ verdict }) => (verdict.kind === 'balanced' ? 0 : 2),
    asksWhy: true,
  });
}

/** Throws WrongQuestion. */
export function historyQuestion(word: string | undefined, flags: Flags, now: number) {
  const at = textFlag(flags, 'at');
  const since = textFlag(flags, 'since');
  const end = at === undefined ? now : readMoment('--at', at, now);
  const parameters = {
    service: word === undefined ? undefined : serviceKey(word),
    since: since === undefined ? undefined : momentOf(readSince('--since', since, end)),
    at: momentText('--at', at, now),
  };
  return questionOf({
    question: 'history',
    asked: { path: '/history', parameters, schema: historySchema },
    text: historyText,
    summary: historySummary,
    status: () => 0,
    asksWhy: true,
  });
}

export function exposureQuestion() {
  return questionOf({
    question: 'exposure',
    asked: { path: '/exposure', parameters: {}, schema: exposureSchema },
    text: exposureText,
    summary: () => EXPOSURE_SUMMARY,
    status: () => 0,
    asksWhy: false,
  });
}

/** Lets TypeScript find the form of the answer. */
function questionOf<A>(question: PluginQuestion<A>): PluginQuestion<A> {
  return question;
}

function momentText(flag: string, text: string | undefined, now: number): string | undefined {
  return text === undefined ? undefined : momentOf(readMoment(flag, text, now));
}
