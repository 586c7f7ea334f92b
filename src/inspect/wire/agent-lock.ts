/** What the agent of a network namespace says of itself to a second one: a line of JSON on an abstract Unix socket. */

import * as z from 'zod';
import { MODE_NAMES } from '../../proxy/model/modes.ts';
import { moment } from './schema-common.ts';

/** Most bytes of the line. */
export const HOLDER_LINE = 1024;

/** PID_MAX_LIMIT (linux/threads.h) */
const MAX_PID = 2 ** 22;

const holderSchema = z.object({
  /** In the agent's own pid namespace. */
  pid: z.number().int().min(1).max(MAX_PID),
  since: moment,
  mode: z.enum(MODE_NAMES),
  /** It received the signal to end. */
  isStopping: z.boolean(),
});

export type Holder = z.infer<typeof holderSchema>;

/** The line as an agent writes it; undefined: it is something else. */
export function readHolder(line: string): Holder | undefined {
  if (line.length > HOLDER_LINE) return undefined;
  try {
    return holderSchema.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}
