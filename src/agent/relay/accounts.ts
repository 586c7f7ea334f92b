/** What became of relayed connections: counted, bounded, and said where they were lost. */

import type { Family } from '../../base/address.ts';
import type { Clock } from '../../base/clock.ts';
import type { RelayPort } from './node-ports.ts';
import type { Result } from './relayed-connection.ts';

/**
 * Connections at a time, of all node ports and of one. Each takes two descriptors, and some 160 KiB where its client does not
 * read: all of them stay below the limits that a node gives its proxy (LimitNOFILE of the unit, memory of the DaemonSet).
 */
export const MAX_CONNECTIONS = 2048;
export const MAX_CONNECTIONS_PER_PORT = 1024;

/** Milliseconds between two lines of the log about the same trouble. */
const QUIET = 60_000;

/** How a connection ended. `limit`: it was reset at once, because there were too many. */
export type RelayOutcome = Result | 'limit';

export interface AccountsParts {
  readonly clock: Pick<Clock, 'now'>;
  /** A sentence for the log, at most once a minute about the same trouble. */
  readonly onTrouble: (sentence: string) => void;
}

export class Accounts {
  readonly outcomes = new Map<RelayOutcome, number>();
  /** Times that a port could not be bound. */
  readonly failures = new Map<Family, number>();
  readonly #parts: AccountsParts;
  /** When each trouble was said last. */
  readonly #said = new Map<string, number>();

  constructor(parts: AccountsParts) {
    this.#parts = parts;
  }

  /** Whether there may be one more connection beside those of the port, and those of all ports. */
  admits(port: RelayPort, ofPort: number, ofAll: number): boolean {
    if (ofPort < MAX_CONNECTIONS_PER_PORT && ofAll < MAX_CONNECTIONS) return true;
    const which =
      ofPort < MAX_CONNECTIONS_PER_PORT
        ? `the relay has ${ofAll} connections, the most that it takes`
        : `the relay has ${ofPort} connections of this node port, the most that it takes of one`;
    this.#count('limit');
    this.#say('limit', `a connection to ${nameOf(port)} is reset: ${which}`);
    return false;
  }

  ended(port: RelayPort, result: Result, cause: string): void {
    this.#count(result);
    if (result === 'unreachable')
      this.#say(result, `a connection to ${nameOf(port)} is reset, because no endpoint takes it: ${cause}`);
    if (result === 'no descriptor')
      this.#say(
        result,
        `a connection to ${nameOf(port)} is reset, because this process has no file descriptor left: ${cause}; raise its limit of open files`,
      );
  }

  cannotListen({ family }: RelayPort): void {
    this.failures.set(family, (this.failures.get(family) ?? 0) + 1);
  }

  cannotAccept(port: RelayPort, cause: string): void {
    this.#say('accept', `the kernel gives no connection to ${nameOf(port)}: ${cause}; clients wait`);
  }

  #count(outcome: RelayOutcome): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
  }

  #say(trouble: string, sentence: string): void {
    const now = this.#parts.clock.now();
    const before = this.#said.get(trouble);
    if (before !== undefined && now - before < QUIET) return;
    this.#said.set(trouble, now);
    this.#parts.onTrouble(sentence);
  }
}

function nameOf({ service, port, family }: RelayPort): string {
  return `node port ${port} of Service ${service} on loopback (${family})`;
}
