/** The query and the answer of every question over HTTP. */
import { NoAnswer } from './problem.ts';

/** Those with the value undefined are left out. */
export function queryOf(parameters: Readonly<Record<string, string | undefined>>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, value);
  return query;
}

/** The text of an answer of at most so many bytes. Throws NoAnswer when it is larger, and the errors of the pieces. */
export async function answerText(pieces: AsyncIterable<Buffer>, most: number): Promise<string> {
  const read: Buffer[] = [];
  let size = 0;
  for await (const piece of pieces) {
    size += piece.length;
    if (size > most) throw new NoAnswer(`the answer is larger than ${most} bytes`);
    read.push(piece);
  }
  return Buffer.concat(read).toString();
}
