/** The questions of the metrics server: parameters in, answers out. */
import type { Question } from '../serve/questions.ts';
import type { Inquiries } from './inquiries.ts';

export function questionsOf(inquiries: Inquiries): ReadonlyMap<string, Question> {
  const byPath: Readonly<Record<string, Question>> = {
    '/status': { parameters: [], answer: () => Promise.resolve(inquiries.status()) },
  };
  return new Map(Object.entries(byPath));
}
