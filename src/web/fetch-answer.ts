/** Questions to the agent by HTTP. An answer has the form of its schema in inspect/wire/: page and agent are of one executable. */

/** The agent's own words why there is no answer, or that it cannot be reached. */
export class Unanswered extends Error {
  /** It may be answered a little later. */
  readonly isPassing: boolean;

  constructor(message: string, isPassing: boolean) {
    super(message);
    this.isPassing = isPassing;
  }
}

/** Throws Unanswered, and the reason of the signal when that aborts. */
export async function ask<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal, cache: 'no-store' }).catch(() => {
    signal.throwIfAborted();
    throw new Unanswered('The agent cannot be reached.', true);
  });
  const text = await response.text().catch(() => {
    signal.throwIfAborted();
    throw new Unanswered('The agent ended the connection before its answer was complete.', true);
  });
  if (!response.ok)
    throw new Unanswered(problemIn(text) ?? `The agent answered ${response.status}: ${text}`, response.status >= 500);
  return JSON.parse(text);
}

/** The sentence of an answer of kind Problem; undefined: it is none. */
export function problemIn(text: string): string | undefined {
  try {
    const { message }: { readonly message?: unknown } = JSON.parse(text);
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}
