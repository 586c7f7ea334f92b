/** Write one family's plan: one iptables-restore, or several when many chains are new. */

import type { Family } from '../../../base/address.ts';
import { causeOf } from '../../../base/cause.ts';
import { breath } from '../../../base/clock.ts';
import { IptablesError, type IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { ApplyReport, FailedStep } from '../../reconcile/step.ts';
import { NOTHING_TO_DO } from '../../reconcile/step.ts';
import { stepKey, type TablesPlan, type TablesTrackers } from './plan.ts';
import { type RestoreLine, restoreLines, restoreTexts, type TableBlock } from './restore-text.ts';
import { packetsOf, type RulePackets } from './rule-connections.ts';

/** Input lines shown before and after the failed one. */
const CONTEXT = 3;

export interface TablesReport extends ApplyReport {
  /** Number of transactions: one for each COMMIT. */
  readonly commits: number;
}

/**
 * Apply the plan and update the trackers. After a failure they know nothing: a restore commits table by table, so a part of
 * it may be in the kernel (invariant 4).
 */
export async function applyTables(
  plan: TablesPlan,
  trackers: TablesTrackers,
  { tools, packets }: { readonly tools: IptablesTools; readonly packets: RulePackets },
  signal: AbortSignal,
): Promise<TablesReport> {
  let commits = 0;
  if (plan.steps.length === 0) return { ...NOTHING_TO_DO, commits };
  for (const blocks of plan.restores()) {
    if (blocks === undefined) {
      await breath();
      continue;
    }
    try {
      await tools.restore(() => countedTexts(blocks, packets), signal);
      commits += blocks.length;
    } catch (error) {
      trackers.chains.forget();
      trackers.jumps.forget();
      if (signal.aborted) throw error;
      const failed = describeFailure(plan.family, blocks, error);
      const skipped = plan.steps
        .filter((step) => step.key !== failed.key)
        .map(({ key, family, owner }) => ({ key, family, owner, blockedBy: failed.key }));
      return { outcome: 'failed', applied: 0, failed: [failed], skipped, commits };
    }
  }
  for (const [key, chain] of plan.chains) trackers.chains.wrote(key, chain);
  for (const [key, entry] of plan.jumps) trackers.jumps.wrote(key, entry);
  return { outcome: 'complete', applied: plan.steps.length, failed: [], skipped: [], commits };
}

/** The input of a restore, with the packets that rules have counted so far. */
function* countedTexts(blocks: readonly TableBlock[], packets: RulePackets): Generator<string> {
  if (packets.size === 0) return yield* restoreTexts(blocks);
  for (const { text, table, owner } of restoreLines(blocks)) {
    const isCounted = table === 'nat' && owner !== undefined;
    const count = isCounted ? packetsOf({ text: text.replace(/^-A \S+ /, ''), owner }, packets) : 0;
    // The bytes of first packets alone mean nothing.
    yield count === 0 ? text : `${text} -c ${count} 0`;
  }
}

/** Find the line that the tool refused, and its Service. */
function describeFailure(family: Family, blocks: readonly TableBlock[], error: unknown): FailedStep {
  const cause = causeOf(error);
  const number = error instanceof IptablesError ? error.line : undefined;
  const blame = error instanceof IptablesError && error.isRefusal ? 'content' : 'environment';
  const of = { family, kind: 'rules' } as const;
  const whole: FailedStep = {
    key: `${family} iptables-restore`,
    ...of,
    owner: undefined,
    line: undefined,
    blame,
    cause,
  };
  if (number === undefined) return whole;
  const around: string[] = [];
  let failed: RestoreLine | undefined;
  let at = 0;
  for (const line of restoreLines(blocks)) {
    at += 1;
    if (at === number) failed = line;
    if (Math.abs(at - number) <= CONTEXT) around.push(`${at === number ? '>' : ' '} ${at}: ${line.text}`);
  }
  const withLines = `${cause}\n${around.join('\n')}`;
  if (failed?.chain === undefined) return { ...whole, cause: withLines };
  return {
    key: stepKey(family, `${failed.table} ${failed.chain}`),
    ...of,
    owner: failed.owner,
    line: failed.text.replace(/^-A \S+ /, ''),
    blame,
    cause: withLines,
  };
}
