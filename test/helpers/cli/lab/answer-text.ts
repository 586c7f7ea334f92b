/** An answer of a lab's host in one word. */
import type { HostAnswer } from '../../../../src/cli/lab/host-process.ts';

/** The name of the host that answered, the code of the error, or how the request ended. */
export function answerText(answer: HostAnswer): string {
  return answer.outcome === 'reply' ? answer.by : answer.outcome === 'error' ? answer.error : answer.outcome;
}
