/**
 * Troubles that last, in the log: a line when one begins or has another cause, and every ten minutes; a line when it is over. The tries
 * between them have theirs at `-v 2` (docs/observe.md, "The log").
 */

import { causeOf } from '../base/cause.ts';
import type { Clock } from '../base/clock.ts';
import { LastingProblems } from '../base/lasting-problem.ts';
import type { Log } from './log.ts';

export interface Trouble {
  /** Of troubles of many objects, the object. */
  readonly of?: string;
  readonly cause: string;
  readonly text: string;
  readonly facts?: object;
}

export interface TroubleLogOptions {
  readonly log: Log;
  readonly clock: Pick<Clock, 'now'>;
  /** That of a line that is told. */
  readonly level: 'info' | 'warn' | 'error';
}

export class TroubleLog {
  readonly #options: TroubleLogOptions;
  readonly #problems = new LastingProblems();

  constructor(options: TroubleLogOptions) {
    this.#options = options;
  }

  /** Returns whether the line has the level of one that is told. */
  tell({ of = '', cause, text, facts = {} }: Trouble): boolean {
    const { log, clock, level } = this.#options;
    const isTold = this.#problems.met(of, cause, clock.now());
    log[isTold ? level : 'v2'](facts, text);
    return isTold;
  }

  /** The same work succeeded. Where there was a trouble, `text` says so at the level info. */
  over({
    of = '',
    text,
    facts = {},
  }: {
    readonly of?: string;
    readonly text?: string;
    readonly facts?: object;
  } = {}): void {
    if (this.#problems.over(of) && text !== undefined) this.#options.log.info(facts, text);
  }
}

/** The callbacks of a server that is opened again and again until its port is free. */
export function listenTrouble(troubles: TroubleLog, listen: string) {
  const facts = { listen };
  return {
    onFailure(error: unknown): void {
      const cause = causeOf(error);
      troubles.tell({ of: listen, cause, facts, text: `cannot listen at ${listen}: ${cause}; trying again` });
    },
    onOpen: () => troubles.over({ of: listen, facts, text: `listening at ${listen} now` }),
  };
}
