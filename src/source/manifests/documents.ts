/** What is wrong with a file, as it comes from the thread that reads it. */

import { FaultList } from '../../api/decode/faults.ts';
import type { Whole } from '../../documents/protocol.ts';
import type { Fault } from '../../model/objects.ts';

/** What is wrong with documents of a file, each by its line; `stays` says what follows. */
export function documentFaults(
  { file, stays }: { readonly file: string; readonly stays: string },
  { problems, problemCount }: Pick<Whole, 'problems' | 'problemCount'>,
): readonly Fault[] {
  const faults = new FaultList('file', file);
  for (const { reason, line, column } of problems)
    faults.setAside(`line ${line}, column ${column}`, '', `${reason}${stays}`);
  if (problemCount > problems.length)
    faults.setAside('', '', `${problemCount - problems.length} more of its documents cannot be read${stays}`);
  return faults.list;
}
