/** The answer of `slicewire verify` from a comparison. Pure. */

import type { Comparison, ObjectDifference } from '../../proxy/modes/inspection.ts';
import { API_VERSION } from '../wire/envelope.ts';
import type { AnsweredBy } from '../wire/schema-common.ts';
import type { Verification, VerifiedDifference } from '../wire/verification.ts';

/** Differences in an answer; the others are counted. */
export const MAX_DIFFERENCES = 1000;

/** Differences of another program's come first, then those that are not written yet or refused, last those that only wait. */
const ORDER: readonly ObjectDifference['because'][] = [
  undefined,
  'refused by the kernel',
  'not written yet',
  'waits for connections to end',
];

export function verificationOf({ differences, compared, lastWriter }: Comparison, by: AnsweredBy): Verification {
  const rank = ({ because }: ObjectDifference) => ORDER.indexOf(because);
  const listed = [...differences].sort((a, b) => rank(a) - rank(b)).slice(0, MAX_DIFFERENCES);
  return {
    apiVersion: API_VERSION,
    kind: 'Verification',
    by,
    // Removals that wait for connections are as they should be now.
    equal: differences.every(({ because }) => because === 'waits for connections to end'),
    compared,
    differences: listed.map(answered),
    count: differences.length,
    lastWriter: lastWriter === undefined ? null : writerOf(lastWriter),
  };
}

function answered({
  family,
  object,
  owner,
  kind,
  wanted,
  found,
  because,
  isRepaired,
}: ObjectDifference): VerifiedDifference {
  return {
    family: family ?? null,
    object,
    service: owner ?? '',
    kind,
    wanted: [...wanted],
    found: [...found],
    because: because ?? '',
    repaired: isRepaired,
  };
}

function writerOf({ pid, name, isUs }: NonNullable<Comparison['lastWriter']>): Verification['lastWriter'] {
  return { pid, name, isSlicewire: isUs };
}
