/** What becomes of a packet: on its way through rules, and in the end. */
import type { Address } from '../model/address.ts';

export interface Fate {
  readonly kind: 'balanced' | 'rejected' | 'dropped' | 'untouched';
  /** `ip:port` when balanced, "" otherwise. */
  readonly backend: string;
  readonly masqueraded: boolean;
  readonly probability: number;
}

/** A packet on its way. */
export interface State {
  readonly mark: number;
  /** Where it is going now. */
  readonly destination: Address;
  readonly port: number;
  readonly dnat: string | undefined;
  readonly masqueraded: boolean;
  readonly probability: number;
}

export type Verdict = 'end' | 'return' | 'accept' | 'drop' | 'reject';

export interface Outcome {
  readonly state: State;
  readonly verdict: Verdict;
}

export function isStopped({ verdict }: Outcome): boolean {
  return verdict === 'drop' || verdict === 'reject';
}

export function stopped({ state, verdict }: Outcome): Fate {
  const kind = verdict === 'drop' ? 'dropped' : 'rejected';
  return { kind, backend: '', masqueraded: false, probability: state.probability };
}

export function fateOf({ dnat, masqueraded, probability }: State): Fate {
  return { kind: dnat === undefined ? 'untouched' : 'balanced', backend: dnat ?? '', masqueraded, probability };
}

export function merge(fates: readonly Fate[]): Fate[] {
  const merged = new Map<string, Fate>();
  for (const fate of fates) {
    const key = `${fate.kind} ${fate.backend} ${fate.masqueraded}`;
    const before = merged.get(key)?.probability ?? 0;
    merged.set(key, { ...fate, probability: before + fate.probability });
  }
  return [...merged.values()];
}
