/** The line of JSON by which the agent of a network namespace names itself to a second one, on an abstract Unix socket. */

import * as z from 'zod';
import { MODE_NAMES } from '../../proxy/model/modes.ts';
import { moment } from './schema-common.ts';

/** Bytes of the line at most. */
export const MAX_HOLDER_BYTES = 1024;

/** PID_MAX_LIMIT (linux/threads.h) */
const MAX_PID = 2 ** 22;

const holderSchema = z.object({
  /** In the agent's own pid namespace. */
  pid: z.number().int().min(1).max(MAX_PID),
  since: moment,
  mode: z.enum(MODE_NAMES),
  /** Whether it received the signal to end. */
  isStopping: z.boolean(),
});

export type Holder = z.infer<typeof holderSchema>;

/** undefined for a line that no agent writes. */
export function readHolder(line: string): Holder | undefined {
  if (line.length > MAX_HOLDER_BYTES) return undefined;
  try {
    return holderSchema.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}
