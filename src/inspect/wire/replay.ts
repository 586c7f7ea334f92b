/** The answer of `slicewire replay`. */

import * as z from 'zod';
import { MODE_NAMES } from '../../proxy/model/modes.ts';
import { answer, moment } from './schema-common.ts';

export const replayedSyncSchema = z.object({
  number: z.number().int(),
  at: moment.describe('when the recorded sync began'),
  trigger: z.string(),
  plan: z.string().describe('what it would write, as `slicewire plan` prints it'),
  same: z.boolean().nullable().describe('whether the recorded sync had the same plan; null: they cannot be compared'),
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
export type ReplayedSyncAnswer = z.infer<typeof replayedSyncSchema>;
