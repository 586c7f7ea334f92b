/** Reads a single file: a configuration, a kubeconfig. */
import { type DocumentReader, singleFiles } from './files.ts';
import type { Problem, Value } from './protocol.ts';

/** Bytes. */
export const MAX_BYTES = 4 << 20;

export interface OneFile {
  readonly values: readonly Value[];
  readonly problems: readonly Problem[];
  /** The same of the same text. */
  readonly digest: string;
}

/** The file cannot be read. */
export class FileUnreadable extends Error {
  readonly code = 'FILE_UNREADABLE';
}

/** Read a file; it may be a link to anywhere. Throws FileUnreadable. */
export async function readOneFile(path: string, files: Pick<DocumentReader, 'read'> = singleFiles): Promise<OneFile> {
  const values: Value[] = [];
  const onValues = (some: readonly Value[]) => void values.push(...some);
  const read = await files.read({ path, most: MAX_BYTES, mayRepeat: true, onValues });
  if (read.kind === 'read') return { values, problems: read.problems, digest: read.digest };
  throw new FileUnreadable(read.kind === 'unreadable' ? read.cause : 'it was not read');
}
