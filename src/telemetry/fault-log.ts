/** Faults in the log. The first faults of a kind have a line each; of very many, the rest share a line with their number. */
import type { Clock } from '../base/clock.ts';
import { type Fault, faultText } from '../proxy/model/objects.ts';
import type { Log } from './log.ts';
import { RationedLines } from './rationed-lines.ts';

export interface FaultLogOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** How to see all faults, for the line with their number. */
  readonly seeAll?: string;
}

export const SEE_ALL_OF_AGENT =
  'slicewire plan --output json lists all, slicewire_faults in /metrics counts them, -v 4 logs each';
export const SEE_ALL_OF_CONTROLLER = '-v 4 logs each';

export class FaultLog {
  readonly #lines: RationedLines;

  constructor({ log, clock, seeAll = SEE_ALL_OF_AGENT }: FaultLogOptions) {
    this.#lines = new RationedLines({
      log,
      clock,
      rest: 'debug',
      counted(kind, count) {
        const more = count === 1 ? '1 more fault of this kind is' : `${count} more faults of this kind are`;
        return `${kind}: ${more} not logged one by one: ${seeAll}`;
      },
    });
  }

  /** Returns whether the fault has a line of its own. Faults are warnings, but for fields that merely have no effect on this node. */
  log(fault: Fault): boolean {
    return this.#lines.say({ kind: kindOf(fault), level: levelOf(fault), facts: { fault }, text: faultText(fault) });
  }

  /** Log the pending numbers at once, at the end. */
  flush(): void {
    this.#lines.flush();
  }
}

function levelOf({ effect }: Fault): 'info' | 'warn' {
  return effect === 'no effect here' ? 'info' : 'warn';
}

/** `Service spec.ports (object set aside)`. Only the first two names of a path: users choose keys of labels, without limit. */
function kindOf({ kind, field, effect }: Fault): string {
  const path = field
    .replace(/\[[^\]]*\]/g, '')
    .replace(/[ :].*$/s, '')
    .split('.')
    .slice(0, 2)
    .join('.');
  return `${kind}${path === '' ? '' : ` ${path}`} (${effect})`;
}
