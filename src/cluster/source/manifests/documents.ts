/** Faults of a file's documents, as the thread that reads the file reports them. */

import type { Fault } from '../../../proxy/model/objects.ts';
import { FaultList } from '../../api/decode/faults.ts';
import type { ParsedFile } from '../../documents/protocol.ts';

/** One fault for each broken document, by its line; `stays`: what follows, for the end of each message. */
export function documentFaults(
  { file, stays }: { readonly file: string; readonly stays: string },
  { problems, problemCount }: Pick<ParsedFile, 'problems' | 'problemCount'>,
): readonly Fault[] {
  const faults = new FaultList('file', file);
  for (const { reason, line, column } of problems)
    faults.setAside(`line ${line}, column ${column}`, '', `${reason}${stays}`);
  if (problemCount > problems.length)
    faults.setAside('', '', `${problemCount - problems.length} more of its documents cannot be read${stays}`);
  return faults.list;
}
