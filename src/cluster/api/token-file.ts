/** A token in a file, such as one that a kubelet renews (projected volumes of ServiceAccounts). */
import { open } from 'node:fs/promises';

/** Bytes of a token that are read. */
const MAX_TOKEN = 64 * 1024;

/** The token of a file, read anew; undefined where there is no such file. Rejects with a clause. */
export async function tokenIn(file: string): Promise<string | undefined> {
  let text: string;
  try {
    await using handle = await open(file);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_TOKEN), 0, MAX_TOKEN, 0);
    text = buffer.toString('latin1', 0, bytesRead).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`the token in ${file} cannot be read: ${(error as Error).message}`);
  }
  if (!/^[\w.~+/-]+=*$/.test(text)) throw new Error(`the file ${file} does not contain a token`);
  return text;
}
