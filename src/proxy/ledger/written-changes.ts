/** The outcome of a sync for the changes that it took, from its report. Pure. */
import { firstLine } from '../../base/cause.ts';
import type { ServiceKey } from '../model/objects.ts';
import type { ApplyReport } from '../reconcile/step.ts';

/** The outcome for the changes that a sync took. */
export interface WrittenChanges {
  /** They are in the kernel, but for those of `without`. */
  readonly hasWritten: boolean;
  /** The Services that the kernel refused, each with its answer. */
  readonly without: ReadonlyMap<ServiceKey, string>;
  /** Why nothing was written; "" otherwise. */
  readonly why: string;
}

/** A failure of the environment, or of a rule that Services share, leaves open which changes were written: then none count. */
export function writtenChanges({ outcome, failed }: Pick<ApplyReport, 'outcome' | 'failed'>): WrittenChanges {
  if (outcome === 'complete') return { hasWritten: true, without: new Map(), why: '' };
  const without = new Map<ServiceKey, string>();
  for (const { blame, owner, key, cause } of failed) {
    if (blame !== 'content' || owner === undefined) return notWritten(failed);
    if (!without.has(owner)) without.set(owner, `the kernel refused ${key}: ${firstLine(cause)}`);
  }
  return failed.length > 0 ? { hasWritten: true, without, why: '' } : notWritten(failed);
}

function notWritten(failed: ApplyReport['failed']): WrittenChanges {
  const [first] = failed.filter(({ blame, owner }) => blame === 'environment' || owner === undefined);
  const why = first === undefined ? 'not all was written' : `${first.key}: ${firstLine(first.cause)}`;
  return { hasWritten: false, without: new Map(), why };
}
