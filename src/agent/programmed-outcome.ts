/** What a sync did with the changes that it took, from its report. */

import { refusedIn } from '../inspect/history/sync-record.ts';
import { firstLine } from '../inspect/wire/format.ts';
import type { SyncReport } from '../proxy/sync/status.ts';
import type { SyncOutcome } from './programmed/tracking.ts';

export function outcomeOf(report: SyncReport): SyncOutcome {
  const { hasWritten, without } = refusedIn(report);
  const refused = new Set(without);
  const causes = new Map<string, string>();
  if (hasWritten) {
    for (const { owner, key, cause } of report.failed)
      if (owner !== undefined && refused.has(owner) && !causes.has(owner))
        causes.set(owner, `the kernel refused ${key}: ${firstLine(cause)}`);
  }
  return { hasWritten, without: causes, why: hasWritten ? '' : whyNot(report) };
}

function whyNot({ failed }: SyncReport): string {
  const [first] = failed.filter(({ blame, owner }) => blame === 'environment' || owner === undefined);
  return first === undefined ? 'not all was written' : `${first.key}: ${firstLine(first.cause)}`;
}
