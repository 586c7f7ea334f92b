/** The answer of `slicewire replay` as text for people. Pure. */

import { clockTime, countText } from './format.ts';
import type { Replayed, ReplayedSyncAnswer } from './replay.ts';

export function replayText(replayed: Replayed): string {
  const { mode, node, recordedBy, version, syncs } = replayed;
  const last = syncs.at(-1)?.at ?? '';
  const by = recordedBy === version ? '' : ` by slicewire ${recordedBy}, replayed by ${version}`;
  const lines = [`Recorded on ${node} in ${mode} mode${by}: ${countText(syncs.length, 'sync')}`];
  for (const sync of syncs) lines.push('', ...syncLines(sync, last));
  lines.push('', verdict(replayed));
  return lines.join('\n');
}

function syncLines({ number, at, trigger, plan, same, why }: ReplayedSyncAnswer, last: string): string[] {
  const is =
    same === null ? `cannot be compared: ${why}` : same ? 'the plan is as recorded' : 'the plan is NOT as recorded';
  const lines = plan === '' ? [] : plan.split('\n').map((line) => `  ${line}`);
  return [`Sync ${number} at ${clockTime(at, last)} (${trigger}): ${is}`, ...lines];
}

function verdict({ syncs, same }: Replayed): string {
  const count = (what: boolean | null) => syncs.filter((sync) => sync.same === what).length;
  const [equal, other, unknown] = [count(true), count(false), count(null)];
  const rest = unknown === 0 ? '' : `; ${countText(unknown, 'plan')} cannot be compared`;
  if (same) return `${countText(equal, 'plan')} as recorded${rest}.`;
  return `${countText(other, 'plan')} not as recorded, ${countText(equal, 'plan')} as recorded${rest}.`;
}
