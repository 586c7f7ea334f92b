/** Judges connections through the rules over time: one alone that fails may be a busy node. Pure. */
import type { Family } from '../../base/address.ts';

/** A connection to a reserved address, of the node or as of a Pod on it. `unknown`: nothing is known of the rules. */
export type PathResult = { readonly from: 'node' | 'pod'; readonly family: Family } & (
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed' | 'unknown'; readonly text: string }
);

/** Failures in a row after which a path is broken, and successes in a row after which it is whole again. */
const FAILURES = 2;
const SUCCESSES = 3;

interface Path {
  readonly result: PathResult;
  isBroken: boolean;
  /** Results in a row that contradict `isBroken`. */
  contrary: number;
}

/** The last result of a path, and whether it counts as broken. */
export type PathState = PathResult & { readonly isBroken: boolean };

export interface PathChange {
  readonly result: PathResult;
  readonly isBroken: boolean;
}

export class PathHealth {
  readonly #paths = new Map<string, Path>();

  /**
   * Takes the results of a round. Returns the paths that broke, or became whole, with them. A result that says nothing changes nothing; a path
   * without a result is forgotten.
   */
  round(results: readonly PathResult[]): readonly PathChange[] {
    const changes: PathChange[] = [];
    const keys = new Set(results.map(keyOf));
    for (const key of this.#paths.keys()) if (!keys.has(key)) this.#paths.delete(key);
    for (const result of results) {
      const key = keyOf(result);
      const { isBroken, contrary } = this.#paths.get(key) ?? { isBroken: false, contrary: 0 };
      const path: Path = { result, isBroken, contrary };
      this.#paths.set(key, path);
      if (result.kind === 'unknown') continue;
      path.contrary = (result.kind === 'failed') === isBroken ? 0 : contrary + 1;
      if (path.contrary < (isBroken ? SUCCESSES : FAILURES)) continue;
      path.isBroken = !isBroken;
      path.contrary = 0;
      changes.push({ result, isBroken: path.isBroken });
    }
    return changes;
  }

  /** Paths from there end: their former results say nothing of those that begin. */
  forget(from: PathResult['from']): void {
    for (const [key, { result }] of this.#paths) if (result.from === from) this.#paths.delete(key);
  }

  get states(): readonly PathState[] {
    return [...this.#paths.values()].map(({ result, isBroken }) => ({ ...result, isBroken }));
  }

  /** A sentence for each broken path. */
  get reasons(): readonly string[] {
    return [...this.#paths.values()].filter(({ isBroken }) => isBroken).map(({ result }) => reasonOf(result));
  }
}

function keyOf({ from, family }: PathResult): string {
  return `${from} ${family}`;
}

function reasonOf(result: PathResult): string {
  return 'text' in result
    ? result.text
    : `connections from the ${result.from} through the ${result.family} rules failed just before`;
}
