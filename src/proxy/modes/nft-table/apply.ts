/** Commit the transactions of one family (`plan.ts`), and find the Service of each refusal (invariant 4). */

import type { Family } from '../../../base/address.ts';
import { causeOf } from '../../../base/cause.ts';
import { breath } from '../../../base/clock.ts';
import type { NftKernel, NftRefusal } from '../../../kernel/nftables-kernel.ts';
import { type FailedStep, NOTHING_TO_DO } from '../../reconcile/step.ts';
import type { FamilyReport } from '../families.ts';
import { ownKey, sharedKey } from './groups.ts';
import type { OwnedElement } from './layout.ts';
import type { Transaction } from './plan.ts';
import { entryText } from './print.ts';

/** Where the transactions are written, and the function that records each success. */
export interface WriteTarget {
  readonly family: Family;
  readonly kernel: NftKernel;
  readonly wrote: (transaction: Transaction) => void;
}

export interface TableReport extends FamilyReport {
  /** A deletion must wait. */
  readonly isWaiting: boolean;
  /** The table's state is unknown: a write got no answer, or the table was not as believed. */
  readonly isLost: boolean;
}

/** A refused transaction changes nothing, and the others go on, unless it is one that all others need. */
export async function applyTransactions(
  transactions: readonly Transaction[],
  target: WriteTarget,
  signal: AbortSignal,
): Promise<TableReport> {
  const failed: FailedStep[] = [];
  let applied = 0;
  let [isWaiting, isLost, isMistaken] = [false, false, false];
  for (const [i, transaction] of transactions.entries()) {
    if (i > 0) await breath();
    signal.throwIfAborted();
    try {
      const refusals = await target.kernel.commit(target.family, transaction.writes);
      if (refusals.length === 0) {
        target.wrote(transaction);
        applied += transaction.steps.length;
      } else if (transaction.mayWait === true && refusals.every(({ blame }) => blame === 'use')) isWaiting = true;
      else failed.push(...refusals.map((refusal) => failure(target.family, transaction, refusal)));
      isMistaken = refusals.some(({ blame }) => blame === 'environment');
      isLost = isMistaken;
    } catch (error) {
      isLost = true;
      failed.push({ ...whole(target.family), blame: 'environment', cause: causeOf(error) });
    }
    if (isLost || (failed.length > 0 && transaction.elements.length === 0)) break;
  }
  const states = { isWaiting, isLost, isMistaken };
  if (failed.length === 0) return { ...NOTHING_TO_DO, applied, ...states };
  return { outcome: applied > 0 ? 'partial' : 'failed', applied, failed, skipped: [], ...states };
}

function whole(family: Family): Pick<FailedStep, 'key' | 'family' | 'kind' | 'owner' | 'line'> {
  return { key: `${family} nftables`, family, kind: 'rules', owner: undefined, line: undefined };
}

function failure(family: Family, { writes }: Transaction, refusal: NftRefusal): FailedStep {
  const { write, element, cause } = refusal;
  const blame = refusal.blame === 'content' ? 'content' : 'environment';
  const what = writes[write];
  if (what === undefined || !('elements' in what)) {
    const name = what === undefined ? '' : ` ${what.kind} ${'chain' in what ? what.chain : ''}`;
    return { ...whole(family), blame, cause: `${cause}${name}` };
  }
  const entry = (element === undefined ? undefined : what.elements[element]) as OwnedElement | undefined;
  if (entry === undefined) return { ...whole(family), blame, cause: `${cause}: ${what.kind} ${what.set.name}` };
  const line = `${what.set.name} ${entryText(what.set, entry, family)}`;
  // No Service is to blame for a change by another program.
  if (blame === 'environment') return { ...whole(family), line, blame, cause: `${cause}: ${line}` };
  const { owner } = entry;
  const key =
    owner === undefined ? sharedKey(family, { set: what.set, from: entry, to: entry }) : ownKey(family, owner);
  return { ...whole(family), key, owner, line, blame, cause: `${cause}: ${line}` };
}
