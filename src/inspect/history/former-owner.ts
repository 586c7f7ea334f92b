/** Which Service had an address that no Service has now. */

import type { Address } from '../../base/address.ts';
import { breath } from '../../base/clock.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { momentOf } from '../wire/envelope.ts';
import type { Recorder } from './recorder.ts';
import type { LogRecord } from './records.ts';

export interface FormerOwnerFound {
  readonly service: ServiceKey;
  /** RFC 3339: when the agent received the change by which it lost the address. */
  readonly until: string;
}

/** undefined: the history knows of none. An address that a Service has now gives a wrong answer. */
export async function formerOwner(recorder: Recorder, address: Address): Promise<FormerOwnerFound | undefined> {
  const quoted = JSON.stringify(address);
  for (const block of recorder.log.blocks) {
    for (const line of block.lines().toReversed()) {
      // Undoing the change would give the address back; the last such change took it.
      if (!line.includes(quoted)) continue;
      const record: LogRecord = JSON.parse(line);
      if (record.type !== 'change' || record.undo.kind !== 'Service') continue;
      if (JSON.stringify(record.undo).includes(quoted)) {
        return { service: record.undo.key, until: momentOf(record.at) };
      }
    }
    await breath();
  }
  return undefined;
}
