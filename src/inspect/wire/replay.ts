/** The answer of `slicewire replay`. */
import * as z from 'zod';
import { MODE_NAMES } from '../../proxy/model/modes.ts';
import { clockTime, countText } from './format.ts';
import { answer, moment } from './schema-common.ts';

const replayedSyncSchema = z.object({
  number: z.number().int(),
  at: moment.describe('when the recorded sync began'),
  trigger: z.string(),
  plan: z.string().describe('the writes to the kernel, as `slicewire plan` prints them'),
  same: z
    .boolean()
    .nullable()
    .describe('whether the recorded sync had the same plan; null when they cannot be compared'),
  why: z.string().describe('why they cannot be compared; "" otherwise'),
});

export const replaySchema = z.object({
  ...answer('Replay'),
  file: z.string(),
  mode: z.enum(MODE_NAMES),
  node: z.string(),
  recordedBy: z.string().describe('version of slicewire that recorded'),
  version: z.string().describe('version of slicewire that replayed'),
  same: z.boolean().describe('no plan differs from the recorded one'),
  syncs: z.array(replayedSyncSchema),
});

export type Replayed = z.infer<typeof replaySchema>;
type ReplayedSync = z.infer<typeof replayedSyncSchema>;

export function replayText(replayed: Replayed): string {
  const { mode, node, recordedBy, version, syncs } = replayed;
  const last = syncs.at(-1)?.at ?? '';
  const by = recordedBy === version ? '' : ` by slicewire ${recordedBy}, replayed by ${version}`;
  const lines = [`Recorded on ${node} in ${mode} mode${by}: ${countText(syncs.length, 'sync')}`];
  for (const sync of syncs) lines.push('', ...syncLines(sync, last));
  lines.push('', verdict(replayed));
  return lines.join('\n');
}

function syncLines({ number, at, trigger, plan, same, why }: ReplayedSync, last: string): string[] {
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
